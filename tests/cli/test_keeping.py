"""Sessions that are named: written down, gone on with by the next command; and what is said of the store."""

import asyncio
import json
import re
from typing import Any

import pytest

from cloister.cli import main
from cloister.ports.clock import SystemClock
from cloister.stores.sqlite import SqliteStore, opening
from tests.cli.shell import Shell
from tests.stores.pg_server import PgServer

NEWEST = len(opening.MIGRATIONS)


def test_named_session_goes_on_with_the_next_command(shell: Shell) -> None:
    assert shell("run", "-e", "total = 40", "--session", "sums").returncode == 0
    done = shell("run", "-e", "total + 2", "--session", "sums")
    assert (done.stdout, done.stderr) == ("42\n", "")
    assert (shell.data / "cloister.db").stat().st_mode & 0o777 == 0o600


def test_program_that_names_no_session_leaves_nothing(shell: Shell) -> None:
    assert shell("run", "-e", "1").stdout == "1\n"
    assert shell("run", "-e", "1", "--store", "memory:", "--session", "s").stdout == "1\n"
    assert not (shell.data / "cloister.db").exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_store_can_be_named(shell: Shell, request: pytest.FixtureRequest, kind: str) -> None:
    url = f"sqlite://{shell.data}/other.db"
    if kind == "postgres":
        server: PgServer = request.getfixturevalue("pg_server")
        url = server.url(server.new_database())
    assert shell("run", "-e", "x = 1", "--store", url).returncode == 0
    done = shell("run", "-e", "x + 1", "--store", url, "--session", "default", "--json")
    assert json.loads(done.stdout)["result"] == 2
    assert f"schema {NEWEST}, 1 sessions" in shell("doctor", "--store", url).stdout
    assert not (shell.data / "cloister.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--store", "somewhere"), "is no store"),
        (("--session", "a b"), "is not a session id"),
        (("--store", "sqlite:///dev/null/x.db"), "/dev/null"),
    ],
)
def test_what_names_no_session_or_store_is_refused(shell: Shell, words: tuple[str, ...], said: str) -> None:
    for command in (("run", "-e", "1"), ("repl",)):
        done = shell(*command, *words)
        assert done.returncode != 0
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_session_keeps_its_language(shell: Shell) -> None:
    assert shell("run", "-e", "let n = 1", "--language", "typescript", "--session", "s").returncode == 0
    done = shell("run", "-e", "n", "--session", "s")
    assert done.returncode == 2
    assert "speaks typescript, not python" in done.stderr
    assert shell("run", "-e", "n + 1", "--language", "typescript", "--session", "s").stdout == "2\n"


def test_cell_that_waits_in_one_repl_is_answered_in_the_next(shell: Shell) -> None:
    words = ("repl", "--tools", "bank", "--session", "s")
    done = shell(*words, stdin="x = 2\nawait refund('A7', 250)\n")
    assert "waits until it is opened again" in done.stderr
    assert shell.paid == []
    [asked] = re.findall(r"answer with :approve (\w+) allow", done.stderr)
    done = shell(*words, stdin=f":approve {asked} allow\nx\n")
    assert '"paid 250"\n2\n' in done.stdout
    assert shell.paid == ["A7 250"]


def test_doctor_says_what_is_in_the_store(shell: Shell) -> None:
    assert "none yet" in shell("doctor").stdout
    shell("repl", "--tools", "bank", "--session", "s", stdin="await refund('A7', 250)\n")
    said = json.loads(shell("doctor", "--json").stdout)["store"]
    assert (said["sessions"], said["open_questions"], said["left"]) == (1, 1, ["s"])
    assert said["cells"] == {"asleep": 1}
    shown = shell("doctor").stdout
    assert "1 sessions; cells: 1 asleep; 1 open questions; to be gone on with: s" in " ".join(shown.split())
    # It only looked.
    assert json.loads(shell("doctor", "--json").stdout)["store"] == said


def test_doctor_names_a_store_that_is_none(shell: Shell) -> None:
    shell.data.mkdir()
    (shell.data / "cloister.db").write_text("something else")
    done = shell("doctor")
    assert done.returncode == 0
    assert "not a database" in done.stdout


def test_old_events_are_dropped_on_request(shell: Shell) -> None:
    shell("run", "-e", "1", "--session", "s")
    assert shell("store", "prune").returncode == 2
    assert shell("store", "prune", "--max-events", "-1").returncode == 2
    assert "0 events went" in shell("store", "prune", "--max-age-days", "1").stdout
    done = json.loads(shell("store", "prune", "--max-events", "0", "--json").stdout)
    assert done["dropped_events"] >= 2


def test_store_of_the_newest_schema_stays_as_it_is(shell: Shell) -> None:
    assert shell("store", "migrate").returncode == 2
    shell("run", "-e", "1", "--session", "s")
    assert f"has schema {NEWEST}, which is the newest" in shell("store", "migrate").stdout


def test_store_is_brought_to_the_newest_schema(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell("run", "-e", "1", "--session", "s")
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(shell.data))
    monkeypatch.setattr(opening, "MIGRATIONS", (*opening.MIGRATIONS, "CREATE TABLE more (n INTEGER) STRICT;"))
    assert main(["doctor", "--json"]) == 0
    told: Any = json.loads(capsys.readouterr().out)
    assert (told["store"]["schema"], told["store"]["newest_schema"]) == (NEWEST, NEWEST + 1)
    assert main(["store", "migrate", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema_before"], told["schema"]) == (NEWEST, NEWEST + 1)
    # What was in it is in it still; whoever knows only the old schema refuses it, and leaves it.
    assert asyncio.run(_sessions(shell)) == ["s"]
    monkeypatch.undo()
    done = shell("store", "migrate")
    assert done.returncode == 1
    assert "newer Cloister" in done.stderr


async def _sessions(shell: Shell) -> list[str]:
    async with SqliteStore(shell.data / "cloister.db", clock=SystemClock()) as store:
        return [row.id for row in await store.sessions()]
