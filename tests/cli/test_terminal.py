import pytest

from cloister.cli.terminal import safe
from tests.cli.shell import Shell


def on_a_terminal(shell: Shell, *words: str) -> tuple[int, str]:
    """Exit code and screen of a command at a terminal, of which nobody asks anything."""
    with shell.terminal(*words) as terminal:
        return terminal.end(), terminal.screen


def test_program_cannot_drive_the_terminal(shell: Shell) -> None:
    code, screen = on_a_terminal(shell, "run", "-e", r"print('\x1b[31mred\x1b[0m \x1b]52;c;ZXZpbA==\x07 \x9b2J')")
    assert code == 0
    assert screen == "\x1b[31mred\x1b[0m \\x1b]52;c;ZXZpbA==\\x07 \\x9b2J\n"


def test_errors_have_colours_on_a_terminal_only(shell: Shell) -> None:
    code, screen = on_a_terminal(shell, "run", "-e", "1 / 0")
    piped = shell("run", "-e", "1 / 0")
    assert code == piped.returncode == 1
    assert "\x1b[1;31merror[RUNTIME_ERROR]\x1b[0m" in screen
    assert "\x1b" not in piped.stderr


def test_pipe_gets_what_the_program_wrote(shell: Shell) -> None:
    assert shell("run", "-e", r"print('\x1b[2J\x07')").stdout == "\x1b[2J\x07\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\rb\x08c", "a\\rb\\x08c"),
        ("\u202eabc", "\\u202eabc"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
    ],
)
def test_control_characters_become_visible(text: str, expected: str) -> None:
    assert safe(text) == expected
