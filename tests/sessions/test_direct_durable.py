"""Calls that the host makes itself and that wait for a person: another process goes on with them, once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    ApprovalState,
    CallStatus,
    CannotReplay,
    CellState,
    Cloister,
    PastCell,
    Secret,
    SnapshotCapabilityMismatch,
    tool,
)
from tests.crash.parent import ROOT, environment
from tests.crash.wreck import wreck

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


class Till:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paid: list[Any] = []
        self.wrecks = 0

    def open(self, file: Path | None = None, *, rule: str | None = None, **options: Any) -> Cloister:
        policy: Any = "manual" if rule is None else {"auto": {"rule": rule}}

        @tool(side_effect="write", idempotent=False, approval_policy=policy)
        async def pay(n: int, token: str = "") -> str:
            """Once, if a person says so."""
            self.paid.append((n, token) if token else n)
            return f"paid {n}"

        path = file or self.directory / "s.db"
        return Cloister(tools=options.pop("tools", [pay]), store=f"sqlite://{path}", snapshot_key=KEY, **options)

    async def died(self) -> Path:
        self.wrecks += 1
        return await wreck(self.directory / "s.db", self.directory / f"w{self.wrecks}.db")


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


async def _asked(cloister: Cloister, n: int = 1, **options: Any) -> tuple[str, str]:
    session = await cloister.open_session("s", **options)
    waiting = await session.call("pay", {"n": n})
    assert waiting.status == "waiting_for_approval"
    return waiting.cell_id, waiting.approvals[0].id


def _direct(history: Sequence[PastCell]) -> PastCell:
    [cell] = [cell for cell in history if cell.direct]
    return cell


async def test_question_is_pending_under_the_same_id_and_the_call_is_finished_once(till: Till) -> None:
    async with till.open() as cloister:
        cell_id, approval_id = await _asked(cloister)
        past = _direct(await cloister.session("s").history())
        assert (past.id, past.state, past.calls[0].status) == (cell_id, CellState.ASLEEP, CallStatus.APPROVAL_PENDING)
        found = await till.died()
    async with till.open(found) as other:
        [cell] = (await other.recovery_report()).cells
        assert (cell.cell_id, cell.outcome) == (cell_id, "sleeps")
        [question] = await other.approvals(state="pending")
        assert (question.id, question.arguments) == (approval_id, {"n": 1})
        session = await other.open_session("s")
        assert (await session.resume(cell_id)).status == "waiting_for_approval"
        await other.decide(approval_id, "allow")
        result = await session.resume(cell_id)
        assert (result.result, result.external_calls[0].status) == ("paid 1", CallStatus.OK)
        assert till.paid == [1]
        assert (await session.resume(cell_id)).status == "validation_error"
        past = _direct(await session.history())
        assert (past.id, past.state, past.code) == (cell_id, CellState.COMPLETED, "")
        [call] = past.calls
        assert (call.name, call.status) == ("pay", CallStatus.OK)
        with pytest.raises(CannotReplay, match="no program"):
            await other.replay(cell_id)
    async with till.open(found) as third:
        assert (await third.recovery_report()).cells == ()
        assert (await (await third.open_session("s")).resume(cell_id)).status == "validation_error"
    assert till.paid == [1]


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_decision_of_before_counts_afterwards(till: Till, decision: Any) -> None:
    async with till.open() as cloister:
        cell_id, approval_id = await _asked(cloister)
        await cloister.decide(approval_id, decision)
        found = await till.died()
    async with till.open(found) as other:
        session = await other.open_session("s")
        result = await session.resume(cell_id)
        assert result.status == ("ok" if decision == "allow" else "permission_denied")
        past = _direct(await session.history())
        assert past.calls[0].status == (CallStatus.OK if decision == "allow" else CallStatus.DENIED)
    assert till.paid == ([1] if decision == "allow" else [])


async def test_host_that_leaves_leaves_the_question_open(till: Till) -> None:
    async with till.open() as cloister:
        cell_id, approval_id = await _asked(cloister)
    async with till.open() as other:
        await other.decide(approval_id, "allow")
        assert (await (await other.open_session("s")).resume(cell_id)).result == "paid 1"
    assert till.paid == [1]


async def test_call_of_a_session_that_was_closed_is_not_gone_on_with(till: Till) -> None:
    async with till.open() as cloister:
        cell_id, approval_id = await _asked(cloister)
        await cloister.session("s").close()
    async with till.open() as other:
        assert (await other.recovery_report()).cells == ()
        session = await other.open_session("s")
        assert (await session.resume(cell_id)).status == "validation_error"
        assert _direct(await session.history()).state is CellState.INTERRUPTED
        assert approval_id not in [one.id for one in await other.approvals(state="pending")]
    assert till.paid == []


async def test_call_that_was_terminated_stays_so(till: Till) -> None:
    async with till.open() as cloister:
        await _asked(cloister)
        found = await till.died()
    async with till.open(found) as other:
        session = await other.open_session("s")
        [cell] = (await other.recovery_report()).cells
        assert (await session.terminate(cell.cell_id)).status == "terminated"
        assert _direct(await session.history()).state is CellState.TERMINATED
        assert await other.approvals(state="pending") == []
    async with till.open(found) as third:
        assert (await third.recovery_report()).cells == ()
    assert till.paid == []


async def test_call_whose_tool_is_another_now_is_held_until_it_is_given_up(till: Till) -> None:
    async with till.open() as cloister:
        cell_id, _ = await _asked(cloister)
        found = await till.died()

    @tool(side_effect="write", idempotent=False, approval_policy="manual")
    async def pay(n: int, to: str = "me") -> str:
        """Another one."""
        till.paid.append(n)
        return to

    async with till.open(found, tools=[pay]) as other:
        assert [cell.outcome for cell in (await other.recovery_report()).cells] == ["held"]
        with pytest.raises(SnapshotCapabilityMismatch):
            await other.open_session("s")
        assert [cell.outcome for cell in await other.abandon(cell_id)] == ["abandoned"]
        session = await other.open_session("s")
        result = await session.resume(cell_id)
        assert (result.status, result.error and result.error.code) == ("interrupted", "INTERRUPTED")
        assert (await session.resume(cell_id)).status == "validation_error"
    assert till.paid == []


async def test_question_that_was_asked_anew_is_the_one_that_counts(till: Till) -> None:
    async with AsyncExitStack() as first:
        cloister = await first.enter_async_context(till.open())
        cell_id, before = await _asked(cloister)
    # Another policy: what was allowed under the old one is nothing that anybody has allowed.
    async with till.open(rule="args.n > 100") as other:
        await other.decide(before, "allow")
        session = await other.open_session("s")
        result = await session.resume(cell_id)
        assert result.status == "waiting_for_approval"
        anew = result.approvals[0].id
        assert anew != before
    async with till.open(rule="args.n > 100") as third:
        assert [one.id for one in await third.approvals(state="pending")] == [anew]
        await third.decide(anew, "allow")
        assert (await (await third.open_session("s")).resume(cell_id)).result == "paid 1"
    assert till.paid == [1]


@pytest.mark.parametrize("durability", ["cell", "none"])
async def test_where_calls_are_not_kept_the_question_goes_with_its_host(till: Till, durability: Any) -> None:
    async with till.open() as cloister:
        cell_id, approval_id = await _asked(cloister, durability=durability)
        found = await till.died()
    async with till.open(found) as other:
        session = await other.open_session("s")
        assert approval_id not in [one.id for one in await other.approvals(state=ApprovalState.PENDING)]
        assert (await session.resume(cell_id)).status == "validation_error"
    assert till.paid == []


async def test_handle_of_a_secret_is_kept_and_its_value_never(till: Till) -> None:
    secrets = {"TOKEN": Secret("s3cr3t-value-of-it", allowed=("pay",))}
    async with till.open(secrets=secrets) as cloister:
        session = await cloister.open_session("s")
        handle = (await session.run("secret('TOKEN')")).result
        kept = await session.call("pay", {"n": 1, "token": handle})
        open_one = await session.call("pay", {"n": 2, "token": "s3cr3t-value-of-it"})
        assert kept.status == open_one.status == "waiting_for_approval"
        found = await till.died()
    assert b"s3cr3t-value-of-it" not in found.read_bytes()
    async with till.open(found, secrets=secrets) as other:
        [question] = await other.approvals(state="pending")
        await other.decide(question.id, "allow")
        session = await other.open_session("s")
        assert (await session.resume(kept.cell_id)).ok
        assert (await session.resume(open_one.cell_id)).status == "validation_error"
    assert till.paid == [(1, "s3cr3t-value-of-it")]


# -- killed ----------------------------------------------------------------------------------------------------------


_WRITTEN = ("question", "direct", "answer", "intent", "settlement", "directed", "told")
_POINTS = [f"{when}:{what}:1" for what in _WRITTEN for when in ("before", "committed", "after")]
_FEW = ["committed:direct:1", "after:answer:1", "committed:intent:1", "after:tool:1", "after:settlement:1"]
_MORE = [one for one in (*_POINTS, "before:tool:1") if one not in _FEW]


@pytest.mark.parametrize("point", [*_FEW, *(pytest.param(one, marks=pytest.mark.slow) for one in _MORE)])
def test_direct_call_is_finished_once_wherever_its_host_is_killed(tmp_path: Path, point: str) -> None:
    first = _life(tmp_path, point)
    assert first.returncode == -signal.SIGKILL, first.stderr
    last = _life(tmp_path, None)
    assert last.returncode == 0, last.stderr
    told = json.loads(last.stdout)
    effects = (tmp_path / "effects").read_text().split() if (tmp_path / "effects").exists() else []
    # One that began anew as nobody had been told of it is another call; each of them at most once.
    assert len(effects) == len(set(effects)) <= 1
    assert told["status"] in ("ok", "runtime_error")
    if told["status"] == "ok":
        assert len(effects) == 1
        # Who had been told of the end finds it in the history.
        assert told.get("result") == "paid 1" or (point.endswith("told:1"), told["state"]) == (True, "completed")
    else:
        # Between what it did and the record of it.
        assert (told["code"], point.split(":")[:2][1] in ("intent", "tool", "settlement")) == ("OUTCOME_UNKNOWN", True)
    assert told["pending"] == []


def _life(directory: Path, point: str | None) -> subprocess.CompletedProcess[str]:
    env = {**environment(), **({"CRASH_AT": point} if point else {})}
    command = [sys.executable, "-m", "tests.sessions.direct_child", os.fspath(directory)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
