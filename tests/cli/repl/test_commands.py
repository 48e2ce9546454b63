import asyncio
import stat

import pytest

from cloister import Cloister
from cloister.app.keys import RingFile
from cloister.cli.failures import UsageError
from cloister.cli.repl.commands import pick
from cloister.ports.keys import Purpose
from tests.cli.shell import Shell

ASKS = "await refund('A7', 250)"


def test_help_lists_every_command(shell: Shell) -> None:
    done = shell("repl", stdin=":help\n")
    assert done.returncode == 0
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == (
        ":cells :calls :tools :values :approve :wait :stop :snapshot :snapshot! :fork :session :help :quit".split()
    )


def test_tools_are_shown_as_signatures(shell: Shell) -> None:
    assert "def get_order(order_id: str)" in shell("repl", "-t", "shop", stdin=":tools\n").stdout


def test_stored_values_are_listed(shell: Shell) -> None:
    done = shell("repl", stdin=":values\nstore('k', [1, 2])\nstore('long', 'x' * 100)\n:values\n")
    nothing, first, second = done.stdout.splitlines()
    assert nothing == "nothing is stored"
    assert first.startswith("k  ")
    assert first.endswith(" bytes  [1, 2]")
    assert second.endswith("xxx…")


def test_quit_leaves_before_the_end(shell: Shell) -> None:
    done = shell("repl", stdin="1\n:quit\n2\n")
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_questions_are_listed_in_full(shell: Shell) -> None:
    done = shell("repl", "-t", "bank", stdin=f":approve\n{ASKS[:-1]}, note='{'x' * 300}')\n:approve\n")
    assert done.returncode == 0
    assert done.stdout.startswith("nobody is asked anything\napr_")
    assert f'"note": "{"x" * 300}"' in done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (":aprove x", "did you mean :approve?"),
        (":zzz", ":help shows what there is"),
        (":approve x", "there is no question 'x'"),
        (":stop", ":stop needs a cell"),
        (":wait cel_1", "there is no cell 'cel_1'"),
        (":snapshot", ":snapshot needs the name of a file"),
        (":snapshot nowhere/file", "'nowhere/file' cannot be written: No such file or directory"),
        (":fork a b", "a b"),
        (":session other", "there are repl"),
    ],
)
def test_command_that_cannot_be_done_says_why(shell: Shell, line: str, said: str) -> None:
    done = shell("repl", stdin=f"{line}\n6 * 7\n")
    assert (done.returncode, done.stdout) == (2, "42\n")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_decision_is_refused_and_the_question_stays(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "bank") as terminal:
        terminal.enter(ASKS)
        tail = terminal.match(r"answer with :approve (\w{4}) allow")
        terminal.enter(f":approve {tail} perhaps")
        terminal.until("unknown decision 'perhaps'")
        terminal.enter(f":approve {tail} allow_always")
        terminal.until('"paid 250"')
        terminal.enter(ASKS)
        terminal.until('"paid 250"')
    assert shell.paid == ["A7 250"] * 2


def test_snapshot_is_private_and_opens_elsewhere(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.enter("n = 42")
        terminal.enter(":snapshot kept")
        terminal.match(r"(kept: \d+ bytes)\r\n")
        terminal.enter("n = 43")
        terminal.enter(":snapshot kept")
        terminal.until("there is a file 'kept' already")
        terminal.until(":snapshot! kept writes over it")
        first = (shell.here / "kept").read_bytes()
        terminal.enter(":snapshot! kept")
        terminal.match(r"(kept: \d+ bytes)\r\n")
        terminal.enter(":quit")
        assert terminal.end() == 0
    assert stat.S_IMODE((shell.here / "kept").stat().st_mode) == 0o600
    assert sorted(path.name for path in shell.here.glob("kept*")) == ["kept"]
    second = (shell.here / "kept").read_bytes()

    async def values() -> list[object]:
        async with Cloister(
            snapshot_key=RingFile(shell.data / "snapshot.key", Purpose.SNAPSHOT).ring().newest.material
        ) as cloister:
            found: list[object] = []
            for number, snapshot in enumerate((first, second)):
                session = await cloister.restore_session(snapshot, session_id=f"copy-{number}")
                found.append((await session.run("n")).result)
            return found

    assert asyncio.run(values()) == [42, 43]


def test_fork_goes_its_own_way_and_the_prompt_says_which_it_is(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.enter("n = 41")
        terminal.enter(":fork")
        terminal.until("fork-1 is a copy of repl; :session repl goes back")
        terminal.enter("n = n + 1", "fork-1")
        terminal.enter("n", "fork-1")
        terminal.until("42\r\n")
        terminal.enter(":fork other", "fork-1")
        terminal.enter(":session", "other")
        terminal.until("  repl\r\n  fork-1\r\n* other\r\n")
        terminal.enter(":session repl", "other")
        terminal.enter("n * 2")
        terminal.until("82\r\n")
        terminal.enter(":fork other")
        terminal.until("there is a session 'other' already")
        terminal.enter(":quit")
        assert terminal.end() == 0


def test_fork_of_a_waiting_cell_asks_its_own_question(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "bank") as terminal:
        terminal.enter(f"print('said ' + {ASKS})")
        first = terminal.match(r"approval (apr_\w+):")
        terminal.enter(":fork")
        second = terminal.match(r"approval (apr_\w+):")
        assert first != second
        terminal.enter(f":approve {second} deny not twice", "fork-1")
        terminal.until("`refund` was not allowed: not twice")
        assert shell.paid == []
        # The other session's question can be answered from here.
        terminal.enter(f":approve {first}", "fork-1")
        terminal.until("said paid 250")
        terminal.enter(":approve", "fork-1")
        terminal.until("nobody is asked anything")
    assert shell.paid == ["A7 250"]


@pytest.mark.parametrize("part", ["cel_ABC1", "cel_ABC", "cel_abc1", "BC1", "c1"])
def test_id_is_found_by_its_beginning_or_its_end(part: str) -> None:
    assert pick("cell", part, ["cel_ABC1", "cel_ABD2"]) == "cel_ABC1"


def test_part_of_two_ids_is_neither() -> None:
    with pytest.raises(UsageError, match="fits several"):
        pick("cell", "cel_AB", ["cel_ABC1", "cel_ABD2"])
