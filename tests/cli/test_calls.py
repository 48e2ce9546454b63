"""Calls and notes beside a program's output, and what a program shows."""

import json
import os
import re
import subprocess

import pytest

from cloister.cli.calls import call_line
from tests.cli.shell import Shell

ONE_CALL = "await get_order('A77')\nNone"
LINE = r"  call get_order  \d+ ms  ok\n"


def test_call_is_shown_on_a_terminal_when_it_is_over(shell: Shell) -> None:
    with shell.terminal("run", "-t", "shop", "-e", ONE_CALL) as terminal:
        assert terminal.end() == 0
        assert re.fullmatch(LINE, terminal.screen)


def test_call_is_shown_before_the_program_ends(shell: Shell) -> None:
    word = shell.pipe("word")
    code = "await get_order('A7')\nawait await_word('word')"
    with shell.terminal("run", "-t", "shop", "-t", "bank", "-e", code) as terminal:
        terminal.until("call get_order")
        word.write_text("")
        terminal.until("call await_word")
        assert terminal.end() == 0


def test_pipe_shows_no_calls_unless_asked_to(shell: Shell) -> None:
    command = ("run", "-t", "shop", "-e", f"notify('hi')\n{ONE_CALL}")
    assert shell(*command).stderr == ""
    shown = shell(*command, "--calls")
    assert shown.stdout == ""
    assert re.fullmatch("  note: hi\n" + LINE, shown.stderr)


def test_terminal_shows_no_calls_when_asked_not_to(shell: Shell) -> None:
    with shell.terminal("run", "--no-calls", "-t", "shop", "-e", f"notify('hi')\n{ONE_CALL}") as terminal:
        assert terminal.end() == 0
        assert terminal.screen == ""


def test_json_on_a_terminal_is_alone(shell: Shell) -> None:
    with shell.terminal("run", "--json", "-t", "shop", "-e", f"notify('hi')\n{ONE_CALL}") as terminal:
        assert terminal.end() == 0
        assert json.loads(terminal.screen)["status"] == "ok"


def test_failed_call_shows_its_code(shell: Shell) -> None:
    code = "try:\n    await explode()\nexcept RuntimeError:\n    pass\nNone"
    done = shell("run", "--calls", "-t", "shop", "-e", code)
    assert re.search(r"^  call explode  \d+ ms  error TOOL_ERROR$", done.stderr, re.MULTILINE)


def test_denied_call_shows_its_code(shell: Shell) -> None:
    done = shell("run", "--calls", "-t", "bank", "-e", "await refund('A7', 250)")
    assert re.search(r"^  call refund  \d+ ms  denied APPROVAL_DENIED$", done.stderr, re.MULTILINE)


def test_line_of_a_call_waits_until_the_program_has_ended_its_own(shell: Shell) -> None:
    code = f"print('one ', end='')\n{ONE_CALL}\nprint('two\\nthree', end='')\n'four'"
    with shell.terminal("run", "-t", "shop", "-e", code) as terminal:
        assert terminal.end() == 0
        assert re.fullmatch(f'one two\n{LINE}three\n"four"\n', terminal.screen)


def test_line_of_a_call_waits_no_longer_than_the_program(shell: Shell) -> None:
    with shell.terminal("run", "-t", "shop", "-e", f"print('one', end='')\n{ONE_CALL}") as terminal:
        assert terminal.end() == 0
        assert re.fullmatch(f"one\n{LINE}", terminal.screen)


def test_stderr_in_a_pipe_keeps_its_lines_whole(shell: Shell) -> None:
    code = f"import sys\nprint('one ', end='', file=sys.stderr)\n{ONE_CALL}\nprint('two', file=sys.stderr)"
    done = shell("run", "--calls", "-t", "shop", "-e", code)
    assert re.fullmatch(f"one two\n{LINE}", done.stderr)


def test_call_beside_a_question_is_shown_when_it_is_answered(shell: Shell) -> None:
    noted = shell.pipe("noted")
    code = "import asyncio\nawait asyncio.gather(refund('A7', 250), note('noted'))\nNone"
    with shell.terminal("run", "-t", "bank", "-e", code) as terminal:
        terminal.until("Allow it? [y/N/a/?] ")
        noted.read_text()
        assert "  call" not in terminal.screen
        terminal.type("y\n")
        terminal.until("call note")
        assert terminal.end() == 0
        assert terminal.screen.count("  call refund") == 1


def test_note_cannot_forge_a_line_or_drive_the_terminal(shell: Shell) -> None:
    with shell.terminal("run", "-e", r"notify('a\n  call b  1 ms  ok\x1b[2J')") as terminal:
        assert terminal.end() == 0
        assert terminal.screen == "  note: a\\n  call b  1 ms  ok\\x1b[2J\n"


def test_program_cannot_make_the_calls_invisible(shell: Shell) -> None:
    with shell.terminal("run", "-t", "shop", "-e", r"print('\x1b[8m')" + f"\n{ONE_CALL}") as terminal:
        assert terminal.end() == 0
        assert re.fullmatch("\x1b\\[8m\n\x1b\\[0m" + LINE, terminal.screen)


@pytest.mark.parametrize(("ms", "said"), [(0.4, "0 ms"), (12.3, "12 ms"), (1500.0, "1.5 s")])
def test_duration_is_short(ms: float, said: str) -> None:
    assert call_line({"name": "a.b", "status": "ok", "duration_ms": ms}) == f"  call a.b  {said}  ok"


# -- what a program shows --------------------------------------------------------------------------------------


def test_text_is_on_lines_of_its_own(shell: Shell) -> None:
    code = "print('a', end='')\ntext('b')\ntext({'c': 1})\nprint('d')"
    assert shell("run", "-e", code).stdout == 'a\nb\n{"c": 1}\nd\n'


def test_image_is_a_line_on_a_terminal(shell: Shell) -> None:
    code = "image('https://a.example/x.png')\nimage('data:image/png;base64,aGVsbG8=')\nprint('seen')"
    with shell.terminal("run", "-e", code) as terminal:
        assert terminal.end() == 0
        assert terminal.screen == "seen\n[image https://a.example/x.png]\n[image data, 5 bytes]\n"
    assert shell("run", "-e", code).stdout == "seen\n"


def test_json_has_the_content(shell: Shell) -> None:
    done = shell("run", "--json", "-e", "print('a')\ntext('b')\nimage('https://a.example/x.png')")
    made = json.loads(done.stdout)
    assert (made["stdout"], done.stderr) == ("a\n", "")
    assert made["content"] == [
        {"type": "input_text", "text": "a\n"},
        {"type": "input_text", "text": "b"},
        {"type": "input_image", "image_url": "https://a.example/x.png"},
    ]


def test_output_is_there_before_the_program_ends(shell: Shell) -> None:
    word = shell.pipe("word")
    code = "print('first')\ntext('second')\nawait await_word('word')\nprint('third')"
    with subprocess.Popen(
        shell.command("run", "-t", "bank", "-e", code),
        cwd=shell.here,
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert [running.stdout.readline(), running.stdout.readline()] == ["first\n", "second\n"]
        # It cannot have ended: the program waits for this.
        word.write_text("")
        assert running.stdout.read() == "third\n"
    assert running.returncode == 0


def test_interrupt_lets_a_call_clean_up(shell: Shell) -> None:
    (shell.here / "careful.py").write_text(
        "import asyncio\nfrom pathlib import Path\nfrom cloister import tool\n\n"
        "@tool\nasync def hold() -> None:\n"
        "    try:\n        print('begun', flush=True)\n        await asyncio.sleep(600)\n"
        "    finally:\n        Path('cleaned').write_text('')\n"
    )
    with shell.terminal("run", "-t", "careful", "--timeout-ms", "60000", "-e", "await hold()") as terminal:
        terminal.until("begun")
        terminal.interrupt()
        assert terminal.end() == 130
        assert terminal.screen.splitlines()[-1] == "cloister: stopped by SIGINT"
    assert os.path.exists(shell.here / "cleaned")
