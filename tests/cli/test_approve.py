"""Questions about calls, as whoever runs a program meets them."""

import json
import os
import pty
import subprocess

import pytest

from tests.cli.shell import Shell

ASKS = "await refund('A7', 250)"
# A tool whose arguments are a list.
WIDE = """
from cloister import Tool

def handler(*things):
    return len(things)

take = Tool.from_schema(
    name="take", description="", input_schema={"type": "array"}, handler=handler, approval_policy="manual"
)
"""
DENIED = "error[APPROVAL_DENIED]: `refund` was not allowed"
CATCHES = f"""
try:
    said = {ASKS}
except RuntimeError as error:
    said = str(error)
said
"""


def test_question_says_what_would_be_done_and_why(shell: Shell) -> None:
    command = ("run", "--no-calls", "-t", "bank", "-e", f"print('mid-line', end='')\n{ASKS}")
    with shell.terminal(*command) as terminal:
        terminal.answer("y\n")
        assert terminal.end() == 0
        assert terminal.screen.splitlines() == [
            "mid-line",
            "cloister: `refund` needs approval (side effect: write)",
            '  order_id: "A7"',
            "  amount: 250",
            '  because rule "args.amount < 100" does not hold: args.amount = 250',
            "Allow it? [y/N/a/?] y",
            '"paid 250"',
        ]
    assert shell.paid == ["A7 250"]


@pytest.mark.parametrize("word", ["y", " YES "])
def test_yes_allows_the_call(shell: Shell, word: str) -> None:
    with shell.terminal("run", "-t", "bank", "-e", ASKS) as terminal:
        terminal.answer(f"{word}\n")
        assert terminal.end() == 0
    assert shell.paid == ["A7 250"]


@pytest.mark.parametrize("word", ["", "No"])
def test_anything_like_no_denies_the_call(shell: Shell, word: str) -> None:
    with shell.terminal("run", "-t", "bank", "-e", ASKS) as terminal:
        terminal.answer(f"{word}\n")
        assert terminal.end() == 5
        assert "`refund` was not allowed" in terminal.screen
    assert shell.paid == []


def test_program_catches_the_denial_and_goes_on(shell: Shell) -> None:
    with shell.terminal("run", "-t", "bank", "-e", CATCHES) as terminal:
        terminal.answer("n\n")
        assert terminal.end() == 0
        assert terminal.screen.splitlines()[-1] == '"APPROVAL_DENIED: `refund` was not allowed"'
    assert shell.paid == []


def test_call_that_the_rule_allows_is_not_asked_about(shell: Shell) -> None:
    with shell.terminal("run", "--no-calls", "-t", "bank", "-e", "await refund('A7', 99)") as terminal:
        assert terminal.end() == 0
        assert terminal.screen == '"paid 99"\n'


def test_always_covers_the_same_arguments_and_no_others(shell: Shell) -> None:
    with shell.terminal("run", "-t", "bank", "-e", f"{ASKS}\n{ASKS}\nawait refund('B2', 250)") as terminal:
        terminal.answer("a\n")
        terminal.answer("n\n")
        assert terminal.end() == 5
        assert terminal.screen.count("needs approval") == 2
    assert shell.paid == ["A7 250", "A7 250"]


def test_always_covers_the_same_call_asked_at_the_same_time(shell: Shell) -> None:
    code = "import asyncio\nawait asyncio.gather(refund('A7', 250), refund('A7', 250), refund('A7', 251))"
    with shell.terminal("run", "-t", "bank", "-e", code) as terminal:
        terminal.answer("a\n")
        terminal.answer("y\n")
        assert terminal.end() == 0
        assert terminal.screen.count("needs approval") == 2
    assert sorted(shell.paid) == ["A7 250", "A7 250", "A7 251"]


def test_questions_raised_together_are_asked_one_after_the_other(shell: Shell) -> None:
    code = "import asyncio\nawait asyncio.gather(refund('A7', 250), refund('B2', 300))"
    with shell.terminal("run", "-t", "bank", "-e", code) as terminal:
        terminal.until("Allow it? [y/N/a/?] ")
        assert terminal.screen.count("needs approval") == 1
        terminal.type("y\n")
        terminal.answer("y\n")
        assert terminal.end() == 0
    assert sorted(shell.paid) == ["A7 250", "B2 300"]


def test_question_mark_explains_and_asks_again(shell: Shell) -> None:
    with shell.terminal("run", "-t", "bank", "-e", ASKS) as terminal:
        terminal.answer("?\n")
        terminal.until("a  allow it, and in this run each call of the same tool with the same arguments")
        terminal.answer("perhaps\n")
        terminal.until("y, n, a or ?")
        terminal.answer("y\n")
        assert terminal.end() == 0


def test_long_argument_is_cut_and_shown_in_full_when_asked_for(shell: Shell) -> None:
    with shell.terminal("run", "-t", "bank", "-e", "await refund('A7', 250, 'x' * 400 + 'END')") as terminal:
        terminal.until("Allow it?")
        assert "END" not in terminal.screen
        assert "… and 245 more characters (? shows them)" in terminal.screen
        terminal.type("?\n")
        terminal.until("xEND")
        terminal.answer("n\n")
        assert terminal.end() == 5


def test_many_arguments_are_cut_and_counted(shell: Shell) -> None:
    (shell.here / "wide.py").write_text(WIDE)
    with shell.terminal("run", "-t", "wide", "-e", "await take(*range(20))") as terminal:
        terminal.answer("y\n")
        assert terminal.end() == 0
        assert "  1: 0\n" in terminal.screen
        assert "  … and 8 more arguments (? shows them)\n" in terminal.screen


def test_arguments_cannot_forge_a_question(shell: Shell) -> None:
    code = r"await refund('A7\nAllow it? [y/N/a/?] \x1b[2J\u202e', 250)"
    with shell.terminal("run", "-t", "bank", "-e", code) as terminal:
        terminal.until("because")
        terminal.answer("n\n")
        assert terminal.end() == 5
        question = terminal.screen.partition("error[")[0]
        assert "\x1b" not in question.removesuffix("\x1b[1;31m")
        assert r'order_id: "A7\nAllow it? [y/N/a/?] \u001b[2J\u202e"' in question


def test_program_cannot_make_the_question_invisible(shell: Shell) -> None:
    with shell.terminal("run", "-t", "bank", "-e", r"print('\x1b[8m', end='')" + f"\n{ASKS}") as terminal:
        terminal.answer("n\n")
        assert terminal.end() == 5
        assert "\x1b[8m\x1b[0m\ncloister: `refund` needs approval" in terminal.screen


def test_what_was_typed_before_the_question_is_no_answer(shell: Shell) -> None:
    word = shell.pipe("word")
    with shell.terminal("run", "-t", "bank", "-e", f"print('begun')\nawait await_word('word')\n{ASKS}") as terminal:
        terminal.until("begun")
        terminal.type("y\n")
        word.write_text("")
        terminal.answer("n\n")
        assert terminal.end() == 5
    assert shell.paid == []


@pytest.mark.parametrize(("options", "printed"), [((), "MEANWHILE"), (("--json",), '{"status": "ok"')])
def test_output_and_warnings_wait_until_the_question_is_answered(
    shell: Shell, options: tuple[str, ...], printed: str
) -> None:
    code = """
import asyncio

async def meanwhile():
    try:
        await stumble()
    except RuntimeError:
        print("MEANWHILE")
    await note("noted")

await asyncio.gather(refund("A7", 250), meanwhile())
None
"""
    noted = shell.pipe("noted")
    with shell.terminal("run", "--no-calls", *options, "-t", "bank", "-e", code) as terminal:
        terminal.until("Allow it? [y/N/a/?] ")
        noted.read_text()
        terminal.type("y\n")
        assert terminal.end() == 0
        answer, warning, rest = terminal.screen.partition("Allow it? [y/N/a/?] ")[2].splitlines()
    assert answer == "y"
    assert warning == "cloister: tool stumble failed: ValueError: stumbled (CLOISTER_DEBUG=1 shows where)"
    assert rest.startswith(printed)


def test_interrupt_at_the_question_stops_the_run(shell: Shell) -> None:
    with shell.terminal("run", "-t", "bank", "-e", ASKS) as terminal:
        terminal.until("Allow it? [y/N/a/?] ")
        terminal.interrupt()
        assert terminal.end() == 130
        assert terminal.screen.count("Allow it?") == 1
        assert terminal.screen.splitlines()[-1] == "cloister: stopped by SIGINT"
    assert shell.paid == []


def test_end_of_input_leaves_the_question_open_and_the_program_where_it_is(shell: Shell) -> None:
    code = f"import asyncio\nawait asyncio.gather({ASKS.removeprefix('await ')}, refund('B2', 300))"
    with shell.terminal("run", "-t", "bank", "-e", code) as terminal:
        terminal.answer("\x04")
        assert terminal.end() == 5
        assert terminal.screen.count("Allow it?") == 1
        left = "cloister: `refund` needs approval and nobody answered, so the program did not go on"
        assert terminal.screen.splitlines()[-2:] == [left, left]
    assert shell.paid == []


def test_json_has_the_open_questions_of_a_waiting_program(shell: Shell) -> None:
    with shell.terminal("run", "--json", "-t", "bank", "-e", ASKS) as terminal:
        terminal.answer("\x04")
        assert terminal.end() == 5
        made = json.loads(terminal.screen.splitlines()[-1])
    assert made["status"] == "waiting_for_approval"
    assert [(one["capability"], one["arguments"], one["state"]) for one in made["approvals"]] == [
        ("refund", {"order_id": "A7", "amount": 250}, "pending")
    ]


def test_json_goes_to_stdout_and_the_question_to_stderr(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        shell.command("run", "--json", "-t", "bank", "-e", ASKS),
        cwd=shell.here,
        env=shell.environment,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    screen = b""
    while not screen.endswith(b"[y/N/a/?] "):
        screen += os.read(ours, 65536)
    os.write(ours, b"y\n")
    out, _ = running.communicate(timeout=60)
    os.close(ours)
    assert running.returncode == 0
    assert json.loads(out)["result"] == "paid 250"


def test_without_a_terminal_the_call_is_denied_and_the_message_says_what_would_help(shell: Shell) -> None:
    done = shell("run", "-t", "bank", "-e", ASKS, stdin="y\n")
    assert (done.returncode, done.stdout) == (5, "")
    assert f"{DENIED}: there is no terminal to ask at; `--approve allow` would allow it" in done.stderr
    assert shell.paid == []


def test_terminal_on_which_the_question_cannot_be_seen_is_none(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        shell.command("run", "-t", "bank", "-e", ASKS),
        cwd=shell.here,
        env=shell.environment,
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 5
    assert "there is no terminal to ask at" in done.stderr


@pytest.mark.parametrize("code", [ASKS, "await tools.refund({order_id: 'A7', amount: 250})"])
def test_answer_for_all_is_given_with_the_command(shell: Shell, code: str) -> None:
    command = ("run", "-t", "bank", "-e", code, "-l", "python" if code == ASKS else "typescript")
    denied = shell(*command, "--approve", "deny")
    assert (denied.returncode, denied.stdout, shell.paid) == (5, "", [])
    assert f"{DENIED}: the command was given `--approve deny`" in denied.stderr
    allowed = shell(*command, "--approve", "allow")
    assert (allowed.returncode, allowed.stdout, allowed.stderr) == (0, '"paid 250"\n', "")
    assert shell.paid == ["A7 250"]


def test_answer_for_all_asks_nobody_at_a_terminal(shell: Shell) -> None:
    with shell.terminal("run", "--no-calls", "-t", "bank", "-e", ASKS, "--approve", "allow") as terminal:
        assert terminal.end() == 0
        assert terminal.screen == '"paid 250"\n'


def test_json_of_a_denied_call_says_so(shell: Shell) -> None:
    done = shell("run", "--json", "-t", "bank", "-e", ASKS)
    made = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (5, "")
    assert (made["status"], made["error"]["code"]) == ("permission_denied", "APPROVAL_DENIED")
    assert [call["status"] for call in made["external_calls"]] == ["denied"]


def test_deny_rule_beats_whoever_allows(shell: Shell) -> None:
    rules = ("--deny", "name == 'refund' && args.amount > 200", "--deny", "side_effect == 'network'")
    command = ("run", "-t", "bank", "--approve", "allow", *rules)
    done = shell(*command, "-e", ASKS)
    assert (done.returncode, done.stdout) == (5, "")
    assert "error[PERMISSION_DENIED]: `refund` is denied: rule" in done.stderr
    assert "args.amount = 250" in done.stderr
    assert shell(*command, "-e", "await publish('x')").returncode == 5
    assert not (shell.here / "published").exists()
    assert shell(*command, "-e", "await refund('A7', 150)").stdout == '"paid 150"\n'
    assert shell.paid == ["A7 150"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--deny", "args."), "--deny 'args.' cannot be used"),
        (("--deny", "amount > 3"), "amount"),
        (("--deny", "calls.by_name['refnd'] > 3"), "did you mean 'refund'?"),
        (("--approve", "maybe"), '"ask", "allow", "deny"'),
    ],
)
def test_wrong_terms_are_refused_before_anything_runs(shell: Shell, words: tuple[str, ...], said: str) -> None:
    done = shell("run", "-t", "bank", "-e", "print('ran')", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
