import json
from pathlib import Path

from cloister.ports.keys import Key, Purpose
from tests.cli.shell import Shell

LAYERS = ["rlimits", "no_new_privs", "landlock", "seccomp", "namespaces"]


def test_doctor_runs_a_program_in_each_language(shell: Shell) -> None:
    done = shell("doctor", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["ok"]
    assert {name: language["runs"] for name, language in found["languages"].items()} == {
        "python": True,
        "typescript": True,
    }


def test_doctor_reports_each_layer_and_warns_of_the_missing(shell: Shell) -> None:
    found = json.loads(shell("doctor", "--json").stdout)
    warnings = [problem["message"] for problem in found["problems"]]
    for name, language in found["languages"].items():
        assert list(language["confinement"]) == LAYERS
        for layer, state in language["confinement"].items():
            warned = any(text.startswith(f"{layer} is missing around the workers of {name}") for text in warnings)
            assert warned == (state != "active")


def test_doctor_is_readable_and_says_what_is_not_supported(shell: Shell) -> None:
    done = shell("doctor")
    assert done.returncode == 0
    for text in (
        "python does not support:",
        "typescript does not support:",
        "rlimits",
        str(shell.data),
    ):
        assert text in done.stdout
    assert "\x1b" not in done.stdout


def test_directory_that_cannot_be_written_is_a_warning(shell: Shell, tmp_path: Path) -> None:
    # A file in its place: even root cannot make a directory there.
    (tmp_path / "taken").write_text("")
    done = shell("doctor", environment={"CLOISTER_DATA_DIR": str(tmp_path / "taken" / "data")})
    assert done.returncode == 0
    assert "set CLOISTER_DATA_DIR to one that can" in done.stdout


def test_doctor_says_where_the_keys_come_from(shell: Shell) -> None:
    key = bytes(range(32))
    done = shell("doctor", "--json", environment={"CLOISTER_SECRET_KEY": key.hex()})
    keys = json.loads(done.stdout)["keys"]
    assert (keys["snapshot"]["origin"], keys["snapshot"]["ids"]) == ("file", [])
    assert (keys["secret"]["origin"], keys["secret"]["ids"]) == ("environment", [Key.of(Purpose.SECRET, key).id.hex()])
    assert key.hex() not in done.stdout
    assert not shell.data.exists()


def test_key_that_cannot_be_used_is_a_warning_with_what_to_do(shell: Shell) -> None:
    done = shell("doctor", environment={"CLOISTER_SNAPSHOT_KEY": "nonsense"})
    assert done.returncode == 0
    assert "CLOISTER_SNAPSHOT_KEY" in done.stdout
    assert "openssl rand -base64 32" in done.stdout
    assert "nonsense" not in done.stdout
