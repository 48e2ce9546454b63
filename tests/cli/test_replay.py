import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cloister import Cloister, Yielded, tool
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Batch, Put
from cloister.stores.sqlite import SqliteStore
from tests.cli.shell import Shell


@tool(side_effect="write", idempotent=False)
async def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


@tool(side_effect="write", idempotent=False, approval_policy="manual")
async def ask(n: int) -> str:
    """Ask first."""
    return f"allowed {n}"


async def _fill(path: Path) -> tuple[str, str]:
    """A cell that has ended, and one that waits for a person."""
    async with Cloister(tools=[pay, ask], store=f"sqlite://{path}", snapshot_key=b"k" * 32) as cloister:
        session = await cloister.open_session("s")
        ended = await session.run("[await pay(1), await pay(2)]")
        asked = await session.exec("await ask(1)")
        assert not isinstance(asked, Yielded)
        return ended.cell_id, asked.cell_id


@pytest.fixture
def cells(shell: Shell) -> tuple[str, str]:
    return asyncio.run(_fill(shell.data / "cloister.db"))


async def _tamper(path: Path, cell_id: str) -> None:
    async with SqliteStore(path, clock=SystemClock()) as store:
        _, entry = await store.calls(cell_id)
        changed = replace(entry, intent=replace(entry.intent, arguments={"n": 2000}))
        await store.write(Batch((Put(changed),)))


def test_replay_of_a_cell_that_does_what_it_did_says_so(shell: Shell, cells: tuple[str, str]) -> None:
    done = shell("replay", cells[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{cells[0]} of session s does what it did: 3 steps, 2 calls.\n"
    done = shell("replay", cells[0], "--store", f"sqlite://{shell.data}/cloister.db", "--json")
    assert json.loads(done.stdout) == {
        "ok": True,
        "cell_id": cells[0],
        "session_id": "s",
        "language": "python",
        "steps": 3,
        "calls": 2,
    }


def test_replay_shows_where_a_journal_was_changed(shell: Shell, cells: tuple[str, str]) -> None:
    asyncio.run(_tamper(shell.data / "cloister.db", cells[0]))
    done = shell("replay", cells[0])
    assert (done.returncode, done.stderr) == (1, "")
    first, expected, found = done.stdout.splitlines()
    assert first == f"{cells[0]} of session s is not what it was at step 3, call 2: entry altered"
    assert expected.startswith("  expected a request with the digest ")
    assert found.endswith('`pay` with {"n": 2000}')
    done = shell("replay", cells[0], "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["diverged"]["kind"], told["diverged"]["call"]) == (
        1,
        False,
        "entry_altered",
        2,
    )


def test_replay_of_what_cannot_be_is_refused_by_name(shell: Shell, cells: tuple[str, str]) -> None:
    done = shell("replay", cells[1])
    assert (done.returncode, done.stdout) == (3, "")
    assert "has not ended" in done.stderr
    assert "hint: " in done.stderr
    done = shell("replay", "cel_" + "0" * 26)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no cell" in done.stderr
    done = shell("replay", "ses_1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no id of a cell" in done.stderr
    done = shell("replay", cells[0], "--store", f"sqlite://{shell.here}/none.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no store" in done.stderr
    assert not (shell.here / "none.db").exists()


def test_replay_starts_nothing_that_waits_in_the_store(shell: Shell, cells: tuple[str, str]) -> None:
    async def look() -> list[object]:
        async with SqliteStore(shell.data / "cloister.db", clock=SystemClock()) as store:
            return [*await store.cells(), *await store.approvals(), *await store.events()]

    before = asyncio.run(look())
    assert shell("replay", cells[0]).returncode == 0
    assert asyncio.run(look()) == before
