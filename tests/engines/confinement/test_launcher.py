"""The launcher as a process: what it leaves to the binary, and what it does when a layer is missing."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.engines.confinement import discard_launcher, probe, write_launcher
from tests.engines.confinement.child import command, on_linux

pytestmark = on_linux

TRUE, CAT = Path("/bin/true").resolve(), Path("/bin/cat").resolve()

# Stands for a machine without the layer: the calls that it is made of fail as they would there.
WITHOUT = """
import os
from cloister.engines.confinement import bpf, privileges, seccomp, syscalls
numbers, architecture = syscalls.machine()
privileges.give_up()
answers = {{numbers[name]: bpf.refuse({error}) for name in {names!r}}}
seccomp.load(bpf.assemble(architecture, {{}}, answers, bpf.ALLOW))
os.execv({launcher!r}, [{launcher!r}])
"""
MISSING = {
    "namespaces": (["unshare"], 1),
    "landlock": (["landlock_create_ruleset"], 38),
    "seccomp": (["seccomp"], 22),
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for path in tmp_path.glob("confined-*"):
        discard_launcher(path)


def start(launcher: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([launcher, *arguments], input="over stdin", capture_output=True, text=True, timeout=30)


def without(layer: str, launcher: Path) -> subprocess.CompletedProcess[str]:
    names, error = MISSING[layer]
    program = command(WITHOUT.format(names=names, error=error, launcher=str(launcher)))
    return subprocess.run(program, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)


def test_binary_runs_with_its_arguments_and_streams(here: Path) -> None:
    done = start(write_launcher(here, CAT, required=False), "-", "--", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "over stdin", "")


def test_launcher_belongs_to_its_user_alone(here: Path) -> None:
    assert stat.S_IMODE(write_launcher(here, TRUE, required=False).stat().st_mode) == 0o700


def test_writing_it_again_replaces_it(here: Path) -> None:
    first = write_launcher(here, TRUE, required=False)
    again = write_launcher(here, TRUE, required=True, data_bytes=1 << 28)
    assert first == again
    assert f"data={1 << 28}" in again.read_text()
    assert start(again).returncode in {0, 126}


def test_path_with_spaces_and_quotes_is_taken_as_it_is(here: Path) -> None:
    odd = here / "it's a 'place'"
    odd.mkdir()
    launcher = write_launcher(odd, CAT, required=False)
    assert start(launcher).stdout == "over stdin"
    discard_launcher(launcher)


def test_file_that_no_rule_names_cannot_be_opened(here: Path) -> None:
    done = start(write_launcher(here, CAT, required=False), "/etc/passwd")
    assert done.returncode == 1
    assert done.stdout == ""


def test_named_file_can_be_read(here: Path) -> None:
    given = here / "given"
    given.write_text("for you")
    assert start(write_launcher(here, CAT, required=False, readable=[given]), str(given)).stdout == "for you"


def test_environment_and_descriptors_of_the_host_stay_behind(here: Path) -> None:
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    launcher = write_launcher(here, CAT, required=False)
    worker = subprocess.Popen(
        [launcher], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"API_KEY": "sk-secret"}, close_fds=False
    )
    try:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(b"x")
        worker.stdin.flush()
        assert worker.stdout.read(1) == b"x"  # cat is running by now
        process = Path(f"/proc/{worker.pid}")
        assert (process / "environ").read_bytes() == b""
        held = {path.name: os.readlink(path) for path in (process / "fd").iterdir()}
        assert held.pop("2") == "/dev/null"
        assert set(held) - {"0", "1"} == {name for name, leads in held.items() if leads.endswith(".lifeline")}
        assert len(held) == 3
        assert os.readlink(process / "cwd") == "/"
    finally:
        os.close(secret)
        worker.communicate(timeout=10)


@pytest.mark.parametrize("layer", MISSING)
def test_required_layer_that_is_missing_stops_the_launch(here: Path, layer: str) -> None:
    done = without(layer, write_launcher(here, TRUE, required=True))
    assert done.returncode == 126
    assert len(done.stderr.splitlines()) == 1
    assert f"layer {layer!r} is unavailable" in done.stderr


@pytest.mark.parametrize("layer", MISSING)
def test_layer_that_is_not_required_may_be_missing(here: Path, layer: str) -> None:
    assert without(layer, write_launcher(here, TRUE, required=False)).returncode == 0


def test_complete_machine_launches_what_requires_every_layer(here: Path) -> None:
    if not probe(foreign=TRUE)["foreign"].complete:
        pytest.skip("a layer is missing on this machine")
    assert start(write_launcher(here, TRUE, required=True)).returncode == 0


def test_binary_that_is_gone_is_named(here: Path) -> None:
    copy = here / "copy"
    copy.write_bytes(TRUE.read_bytes())
    copy.chmod(0o755)
    launcher = write_launcher(here, copy, required=False)
    copy.unlink()
    done = start(launcher)
    assert done.returncode == 126
    assert str(copy) in done.stderr


def test_refusal_that_cannot_be_written_down_keeps_its_exit_code(here: Path) -> None:
    copy = here / "copy"
    copy.write_bytes(TRUE.read_bytes())
    launcher = write_launcher(here, copy, required=False)
    with (here / "log").open("w") as log:
        done = subprocess.run([launcher], stdin=subprocess.DEVNULL, stderr=log, timeout=30)
    assert done.returncode == 126
    assert (here / "log").read_text() == ""


def test_processor_time_is_bounded_when_asked(here: Path) -> None:
    stdlib = Path(os.__file__).parent
    binary = Path(sys.executable).resolve()
    launcher = write_launcher(here, binary, required=False, cpu_seconds=1, readable=[stdlib])
    assert start(launcher, "-I", "-S", "-c", "while True: pass").returncode in {-9, -24}
