import subprocess
import sys
from pathlib import Path

import pytest

import cloister
from tests.cli.shell import Shell


def test_help_lists_the_commands_and_examples(shell: Shell) -> None:
    done = shell("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("run", "repl", "validate", "doctor", "demo", "Check a program without running it", "Examples:"):
        assert text in done.stdout
    assert "demo-wake" not in done.stdout


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("run", ("--tools", "--input", "--memory-mb", "[default: 64]", "Examples:", "Exit codes:", "130")),
        (
            "run",
            ("--approve", "no terminal to ask at", "--deny", "--secret", "environment variable NAME"),
        ),
        ("run", ("--calls", "--no-calls", "Ctrl-C stops the program")),
        ("repl", ("--language", "--tools", "--cpu-ms", "--approve", ":approve", "Examples:", "Exit codes:")),
        ("validate", ("--type-check", "Examples:", "Exit codes:")),
        ("doctor", ("--json", "Exit codes:")),
        ("demo", ("sleeps in the middle of a call", "waits for a person")),
    ],
)
def test_help_of_a_command_says_what_can_be_given(shell: Shell, command: str, texts: tuple[str, ...]) -> None:
    done = shell(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    # Help is wrapped to the terminal's width.
    words = " ".join(done.stdout.split())
    assert [text for text in texts if text not in words] == []
    assert "\x1b" not in done.stdout


def test_version_is_that_of_the_package(shell: Shell) -> None:
    assert shell("--version").stdout == f"cloister {cloister.__version__}\n"


def test_unknown_command_suggests_the_nearest(shell: Shell) -> None:
    done = shell("validte", "x.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'Did you mean "validate"?' in done.stderr
    assert "Traceback" not in done.stderr


def test_command_that_is_typed_wrong_is_named_with_its_group(shell: Shell) -> None:
    done = shell("threads", "show", "--jsn")
    assert done.returncode == 2
    assert "cloister threads show --help" in done.stderr
    assert "cloister threads --help" in shell("threads", "nothing").stderr


def test_plain_run_does_not_import_rich(shell: Shell) -> None:
    done = shell("run", "-e", "1 + 1", environment={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert done.stdout == "2\n"
    assert "cyclopts" in imported
    assert not {"rich.console", "pydantic", "prompt_toolkit", "wasmtime", "cloister.cli.doctor"} & imported


def test_what_is_to_be_done_at_exit_is_done_and_python_is_not_taken_apart(tmp_path: Path) -> None:
    (tmp_path / "last.py").write_text(
        "import atexit, os\n"
        "class Last:\n"
        "    def __del__(self, write=os.write):\n"
        "        write(2, b'taken apart')\n"
        "LAST = Last()\n"
        "atexit.register(os.write, 2, b'at exit')\n"
        "from cloister import tool\n"
        "@tool\n"
        "async def it() -> int:\n"
        "    '''It.'''\n"
        "    return 1\n"
    )
    command = [sys.executable, "-m", "cloister.cli", "run", "--tools", "last", "-e", "raise ValueError(await it())"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, "at exit" in done.stderr) == (1, True)
    assert "taken apart" not in done.stderr
