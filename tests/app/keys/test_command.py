"""A command that gives a key: in bounded time, and whatever it prints is repeated nowhere."""

import sys
from pathlib import Path

import pytest

from cloister import InvalidInput
from cloister.app.keys.command import MAX_OUTPUT, output_of

SAID = "hunter2-hunter2"


def python(code: str) -> str:
    return f"{sys.executable} -c '{code}'"


def test_what_it_prints_is_taken() -> None:
    assert output_of("echo some words", "THE_COMMAND") == "some words\n"


def test_no_shell_reads_it() -> None:
    assert output_of("echo $HOME; echo `id`", "THE_COMMAND") == "$HOME; echo `id`\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "empty"),
        ("'unfinished", "quot"),
        ("/no/such/command --really", "No such file"),
        (f"sh -c 'echo {SAID}; echo {SAID} >&2; exit 3'", "exit code 3"),
        (f"sh -c 'kill -9 $$; echo {SAID}'", "exit code -9"),
        (python(f'print("{SAID}" * {MAX_OUTPUT})'), "more than"),
        (python('import sys; sys.stdout.buffer.write(b"\\xff")'), "not text"),
    ],
)
def test_command_that_fails_is_named_and_not_repeated(
    command: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInput, match=why) as refusal:
        output_of(command, "THE_COMMAND")
    assert "THE_COMMAND" in refusal.value.message
    assert SAID not in f"{refusal.value} {refusal.value.hint} {capfd.readouterr()}"


@pytest.mark.parametrize("command", ["sleep 600", "sh -c 'sleep 600 & exit 0'", "sh -c 'exec >&-; sleep 600'"])
def test_command_that_does_not_end_is_ended(command: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has not ended"):
        output_of(command, "THE_COMMAND", timeout_s=0.3)
