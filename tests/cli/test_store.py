import asyncio
import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from cloister.ports.clock import SystemClock
from cloister.ports.rows import MoveHead, Put
from cloister.ports.store import Store
from cloister.stores.postgres import PostgresStore
from cloister.stores.sqlite import SqliteStore
from cloister.testing.stores.lab import BLOBS, blob, event, everything, one_of_each, session, write
from tests.cli.shell import Shell
from tests.stores.pg_server import PgServer
from tests.stores.sqlite_lab import HandClock, sql

# A fixture is found where it is named.


async def _fill(store: Store) -> None:
    async with store:
        await write(store, *BLOBS, blob(b"nobody's"))
        for name in ("ses_a", "ses_b"):
            await write(store, *(Put(row) for row in one_of_each(name, {"of": name})), MoveHead(name, 0))
        await write(store, Put(event(3)))


async def _held(store: Store) -> dict[str, Any]:
    async with store:
        return await everything(store)


def at(path: Path) -> SqliteStore:
    return SqliteStore(path, clock=SystemClock())


def held(store: Store) -> dict[str, Any]:
    return asyncio.run(_held(store))


@pytest.fixture
def default(shell: Shell) -> Path:
    """The store that is meant when none is named, written long ago."""
    path = shell.data / "cloister.db"
    asyncio.run(_fill(SqliteStore(path, clock=HandClock())))
    return path


# -- check ----------------------------------------------------------------------------------------------------------


def test_check_finds_nothing_in_a_sound_store(shell: Shell, default: Path) -> None:
    done = shell("store", "check")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sqlite://{default} is sound.\n", "")
    done = shell("store", "check", f"sqlite://{default}", "--json")
    assert json.loads(done.stdout) == {"ok": True, "store": f"sqlite://{default}", "findings": []}


def test_check_prints_what_is_wrong_and_fails(shell: Shell, default: Path) -> None:
    sql(default, f"DELETE FROM blobs WHERE name = '{BLOBS[0].name}'")
    done = shell("store", "check")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"snapshot snp_ses_a refers to blob {BLOBS[0].name}, which is not there\n" in done.stdout
    done = shell("store", "check", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], len(found["findings"])) == (1, False, 2)


def test_check_of_what_is_no_store_says_so(shell: Shell) -> None:
    (shell.here / "notes.txt").write_text("hello" * 100)
    done = shell("store", "check", f"sqlite://{shell.here}/notes.txt")
    assert (done.returncode, done.stdout) == (1, "")
    assert "notes.txt is not a database" in done.stderr
    assert (shell.here / "notes.txt").read_text() == "hello" * 100


# -- vacuum ---------------------------------------------------------------------------------------------------------


def test_vacuum_tells_how_many_blobs_went(shell: Shell, default: Path) -> None:
    before = held(at(default))
    done = shell("store", "vacuum")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"1 blob went from sqlite://{default}.\n", "")
    done = shell("store", "vacuum", "--json")
    assert json.loads(done.stdout) == {"ok": True, "store": f"sqlite://{default}", "removed_blobs": 0}
    assert held(at(default)) == before


# -- export and import ----------------------------------------------------------------------------------------------


def test_store_is_exported_and_imported_elsewhere(shell: Shell, default: Path) -> None:
    done = shell("store", "export", "out.cloister")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"sqlite://{default} is in out.cloister: 2 sessions, 31 rows in all, 3 blobs.\n"
    assert stat.S_IMODE((shell.here / "out.cloister").stat().st_mode) == 0o600
    new = shell.here / "new" / "b.db"
    done = shell("store", "import", "out.cloister", "--store", f"sqlite://{new}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"out.cloister is in sqlite://{new}: 2 sessions, 31 rows in all, 3 blobs.\n"
    assert held(at(new)) == held(at(default))
    assert shell("store", "check", f"sqlite://{new}").returncode == 0


def test_machines_are_told_in_json(shell: Shell, default: Path) -> None:
    told = json.loads(shell("store", "export", "x", "--json").stdout)
    assert (told["ok"], told["store"], told["file"], told["blobs"]) == (True, f"sqlite://{default}", "x", 3)
    assert (told["rows"]["sessions"], told["rows"]["events"]) == (2, 1)
    default.rename(default.with_name("old.db"))
    back = json.loads(shell("store", "import", "x", "--json").stdout)
    assert back == told


@pytest.mark.usefixtures("default")
def test_file_that_is_there_is_not_written_over(shell: Shell) -> None:
    (shell.here / "out").write_text("mine")
    done = shell("store", "export", "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'out' is there already" in done.stderr
    assert (shell.here / "out").read_text() == "mine"


@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("file", ["nowhere/out", "shop.py/out"])
def test_file_that_cannot_be_written_is_named(shell: Shell, file: str) -> None:
    done = shell("store", "export", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{file}' cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_export_that_fails_leaves_no_file(shell: Shell, default: Path) -> None:
    sql(default, f"DELETE FROM blobs WHERE name = '{BLOBS[0].name}'")
    before = sorted(os.listdir(shell.here))
    done = shell("store", "export", "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not there" in done.stderr
    assert "store check" in done.stderr
    assert sorted(os.listdir(shell.here)) == before


@pytest.mark.usefixtures("default")
def test_store_that_is_not_empty_is_refused(shell: Shell) -> None:
    assert shell("store", "export", "out").returncode == 0
    asyncio.run(_put_session(at(shell.here / "b.db")))
    done = shell("store", "import", "out", "--store", f"sqlite://{shell.here}/b.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert "b.db is not empty: it has sessions" in done.stderr
    assert "import into a new one" in done.stderr
    assert [row.id for row in held(at(shell.here / "b.db"))["sessions"]] == ["ses_mine"]


async def _put_session(store: Store) -> None:
    async with store:
        await write(store, Put(session("ses_mine")))


@pytest.mark.usefixtures("default")
def test_damaged_file_is_refused_and_makes_no_store(shell: Shell) -> None:
    assert shell("store", "export", "out").returncode == 0
    whole = (shell.here / "out").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for file, said in (
        (whole[:-1], "out is only the beginning of an export"),
        (whole[: len(whole) // 2], "out is only the beginning of an export"),
        (bytes(flipped), "out is damaged"),
        (b"hello", "out is not an export of a Cloister store"),
    ):
        (shell.here / "out").write_bytes(file)
        done = shell("store", "import", "out", "--store", f"sqlite://{shell.here}/b.db")
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr
        assert "hint: " in done.stderr
        assert not (shell.here / "b.db").exists()


def test_import_of_nothing_is_a_mistake(shell: Shell) -> None:
    for word, said in (("nothing", "'nothing' cannot be read"), ("-", "not through a pipe"), (".", "cannot be read")):
        done = shell("store", "import", word)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert not shell.data.exists()


def test_store_in_use_is_not_exported(shell: Shell, default: Path) -> None:
    async def meanwhile() -> Any:
        async with at(default) as store:
            await store.join("host-1", 60_000)
            return await asyncio.to_thread(shell, "store", "export", "out")

    done = asyncio.run(meanwhile())
    assert (done.returncode, done.stdout) == (1, "")
    assert "is in use by host-1" in done.stderr
    assert not (shell.here / "out").exists()


# -- stores that are not there --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("check",), ("vacuum",), ("export", "out")])
def test_store_that_is_not_there_is_not_made(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell("store", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"there is no store sqlite://{shell.data}/cloister.db" in done.stderr
    assert not shell.data.exists()
    assert not (shell.here / "out").exists()


def test_empty_file_is_no_store(shell: Shell) -> None:
    (shell.here / "a.db").touch()
    assert shell("store", "check", f"sqlite://{shell.here}/a.db").returncode == 2
    assert (shell.here / "a.db").read_bytes() == b""


@pytest.mark.parametrize("url", ["memory:", "a.db", "redis://x", "sqlite:a.db"])
def test_what_names_no_store_is_refused(shell: Shell, url: str) -> None:
    done = shell("store", "check", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_postgres_as_it_is_typed(shell: Shell, default: Path, pg_server: PgServer) -> None:
    database = pg_server.new_database()
    url = pg_server.url(database)
    for words in (("check", url), ("vacuum", url), ("export", "out", "--store", url)):
        done = shell("store", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no store postgresql://cloister@" in done.stderr
        assert pg_server.password not in done.stderr
    assert not pg_server.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'cloister'", database)
    assert shell("store", "export", "out").returncode == 0
    done = shell("store", "import", "out", "--store", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert pg_server.password not in done.stdout
    assert held(PostgresStore(url)) == held(at(default))
    assert "is sound" in shell("store", "check", url).stdout
    assert shell("store", "vacuum", url).returncode == 0
    assert shell("store", "export", "again", "--store", url).returncode == 0


# -- at a terminal --------------------------------------------------------------------------------------------------


def test_progress_is_shown_at_a_terminal_and_gone_at_the_end(shell: Shell, default: Path) -> None:
    with shell.terminal("store", "check") as terminal:
        assert terminal.end() == 0
    assert f"\r\x1b[2Kchecking sqlite://{default}"[:40] in terminal.screen
    assert terminal.screen.endswith(f"\r\x1b[2Ksqlite://{default} is sound.\n")


def test_interrupted_export_leaves_no_file(shell: Shell, default: Path) -> None:
    asyncio.run(_put_events(at(default), 60_000))
    before = sorted(os.listdir(shell.here))
    with shell.terminal("store", "export", "out") as terminal:
        terminal.until("exporting: ")
        terminal.interrupt()
        assert terminal.end() == 128 + signal.SIGINT
    assert "stopped by SIGINT\n" in terminal.screen
    assert sorted(os.listdir(shell.here)) == before


def test_interrupted_import_leaves_the_store_empty(shell: Shell, default: Path) -> None:
    asyncio.run(_put_events(at(default), 60_000))
    assert shell("store", "export", "out").returncode == 0
    new = shell.here / "new.db"
    with shell.terminal("store", "import", "out", "--store", f"sqlite://{new}") as terminal:
        terminal.until("importing: ")
        terminal.interrupt()
        assert terminal.end() == 128 + signal.SIGINT
    assert "stopped by SIGINT\n" in terminal.screen
    assert not any(held(at(new)).values())


async def _put_events(store: Store, count: int) -> None:
    async with store:
        await write(store, *(Put(event(number)) for number in range(10, count)))


# -- help -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "vacuum", "export", "import"])
def test_help_has_examples_and_exit_codes(shell: Shell, command: str) -> None:
    done = shell("store", command, "--help")
    words = " ".join(done.stdout.replace("│", " ").split())
    assert (done.returncode, done.stderr) == (0, "")
    for text in (
        f"cloister store {command}",
        "Examples:",
        "Exit codes:",
        "--json",
        "cloister.db in the data directory",
    ):
        assert text in words
    assert command in shell("store", "--help").stdout
