"""Snapshots: idle or in the middle of a call, here or in another Cloister, and what is refused."""

import asyncio
import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from cloister import (
    CallStatus,
    Cloister,
    InvalidLimits,
    RunStatus,
    Session,
    SessionLimits,
    SnapshotCapabilityMismatch,
    SnapshotCorrupt,
    SnapshotForeign,
    SnapshotVersionMismatch,
    Tool,
    tool,
)
from cloister.sessions.envelope import seal, unseal
from tests.sessions.door import Door, codes, value

pytestmark = pytest.mark.anyio

KEY = b"a key for the tests of snapshots"
LONG = SessionLimits(wall_ms=60_000, max_external_calls=100)


@tool
async def get_order(order_id: str) -> str:
    return order_id


def _cloister(*tools: Tool, key: bytes = KEY, **more: Any) -> Cloister:
    return Cloister(workers=2, tools=tools, snapshot_key=key, **more)


async def _asleep(code: str, door: Door, *, pending: int = 1, limits: SessionLimits = LONG) -> bytes:
    """A snapshot of a program that waits for `pending` calls behind `door`; its own run is thrown away."""
    async with _cloister(door.tool) as cloister:
        session = await cloister.open_session("first", limits=limits)
        await session.run("before = 'kept'")
        run = asyncio.create_task(session.run(code))
        await door.until_knocked(pending)
        blob = await session.snapshot()
        run.cancel()
        await asyncio.wait([run])
        return blob


# -- idle ---------------------------------------------------------------------------------------------------------


async def test_restored_session_has_the_variables_functions_and_classes() -> None:
    async with _cloister() as here, _cloister() as there:
        session = await here.open_session("a")
        await session.run("x = [1]\ny = x\nclass P:\n    def get(self):\n        return x\np = P()")
        copy = await there.restore_session(await session.snapshot())
        assert value(await copy.run("y.append(2)\n[x, p.get()]")) == [[1, 2], [1, 2]]


async def test_copy_and_original_go_their_own_ways() -> None:
    async with _cloister() as cloister:
        session = await cloister.open_session("a")
        await session.run("x = 1")
        copy = await cloister.restore_session(await session.snapshot(), session_id="b")
        await copy.run("x = 2")
        assert (value(await session.run("x")), value(await copy.run("x"))) == (1, 2)


async def test_session_that_never_ran_can_be_restored() -> None:
    async with _cloister() as cloister:
        session = await cloister.open_session("a")
        copy = await cloister.restore_session(await session.snapshot(), session_id="b")
        assert value(await copy.run("1")) == 1


async def test_snapshot_taken_after_the_worker_was_killed_has_everything() -> None:
    async with _cloister() as cloister:
        session = await cloister.open_session("a")
        await session.run("x = 1")
        assert session.worker_pid is not None
        os.kill(session.worker_pid, signal.SIGKILL)
        copy = await cloister.restore_session(await session.snapshot(), session_id="b")
        assert value(await copy.run("x")) == 1
        assert value(await session.run("x")) == 1


async def test_run_returns_a_snapshot_of_its_end_when_asked_to() -> None:
    async with _cloister() as cloister:
        session = await cloister.open_session("a")
        result = await session.run("x = 5", return_snapshot=True)
        await session.run("x = 6")
        assert result.snapshot is not None
        assert (result.snapshot_id or "").startswith("snp_")
        copy = await cloister.restore_session(result.snapshot, session_id="b")
        assert value(await copy.run("x")) == 5


async def test_run_returns_no_snapshot_unasked(session: Session) -> None:
    result = await session.run("1")
    assert (result.snapshot, result.snapshot_id) == (None, None)


async def test_restored_session_goes_on_with_the_same_chance() -> None:
    async with _cloister() as cloister:
        session = await cloister.open_session("a")
        await session.run("import random\nrandom.random()")
        copy = await cloister.restore_session(await session.snapshot(), session_id="b")
        code = "[random.random() for _ in range(3)]"
        assert value(await copy.run(code)) == value(await session.run(code))


async def test_restored_session_keeps_id_language_limits_and_labels() -> None:
    async with _cloister() as here, _cloister() as there:
        session = await here.open_session("a", limits=SessionLimits(wall_ms=1234), labels={"team": "x"})
        copy = await there.restore_session(await session.snapshot())
        meta = copy.meta()
        assert (meta.id, meta.language, meta.limits.wall_ms, meta.labels) == ("a", "python", 1234, {"team": "x"})


async def test_restored_session_keeps_its_title() -> None:
    async with _cloister() as here, _cloister() as there:
        session = await here.open_session("a", title="Orders")
        assert (await there.restore_session(await session.snapshot())).meta().title == "Orders"


async def test_snapshot_of_a_restored_session_is_as_good_as_the_first() -> None:
    async with _cloister() as cloister:
        session = await cloister.open_session("s0")
        await session.run("x = 0")
        for n in range(1, 4):
            session = await cloister.restore_session(await session.snapshot(), session_id=f"s{n}")
            await session.run("x += 1")
        assert value(await session.run("x")) == 3


# -- in the middle of a call --------------------------------------------------------------------------------------

GATHER = "import asyncio\nmade = 1\nr = await asyncio.gather(*[knock(n=i) for i in range({n})])\n[before, made, sum(r)]"


@pytest.mark.parametrize("n", [1, 2, 50])
async def test_program_that_waits_for_calls_goes_on_in_another_cloister(n: int) -> None:
    blob = await _asleep(GATHER.format(n=n), Door(), pending=n)
    door = Door()
    door.open()
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob)
        assert session.is_asleep
        result = await session.resume()
        assert value(result) == ["kept", 1, sum(range(n))]
        assert sorted(door.arrived) == list(range(n))
        assert not session.is_asleep
        assert value(await session.run("made + 1")) == 2


async def test_program_that_waits_for_one_call_after_another_goes_on() -> None:
    blob = await _asleep("a = await knock(n=1)\nb = await knock(n=2)\n[a, b]", Door())
    door = Door()
    door.open()
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob)
        assert value(await session.resume()) == [1, 2]
        assert door.arrived == [1, 2]


async def test_original_goes_on_undisturbed_after_a_snapshot_in_the_middle() -> None:
    door = Door()
    async with _cloister(door.tool) as cloister:
        session = await cloister.open_session("a", limits=LONG)
        run = asyncio.create_task(session.run("a = await knock(n=1)\na + (await knock(n=2))"))
        await door.until_knocked()
        await session.snapshot()
        door.open()
        assert value(await run) == 3
        assert door.arrived == [1, 2]


async def test_one_sleeping_program_can_be_woken_many_times() -> None:
    blob = await _asleep("x = 1\nx + (await knock(n=5))", Door())
    door = Door()
    door.open()
    async with _cloister(door.tool) as there:
        copies = [await there.restore_session(blob, session_id=f"c{n}") for n in range(3)]
        assert [value(await copy.resume()) for copy in copies] == [6, 6, 6]


async def test_sleeping_session_refuses_to_run_until_it_is_resumed() -> None:
    blob = await _asleep("await knock(n=5)", Door())
    door = Door()
    door.open()
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob)
        for refused in (await session.run("1"), await session.validate("1")):
            assert refused.error is not None
            assert refused.error.code == "INVALID_INPUT"
            assert "resume" in (refused.error.hint or "")
        assert value(await session.resume()) == 5


async def test_session_that_does_not_sleep_cannot_be_resumed(session: Session) -> None:
    result = await session.resume()
    assert result.error is not None
    assert result.error.code == "INVALID_INPUT"


async def test_snapshot_of_a_sleeping_session_sleeps_too() -> None:
    blob = await _asleep("x = await knock(n=5)\nx", Door())
    door = Door()
    door.open()
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob)
        again = await there.restore_session(await session.snapshot(), session_id="again")
        assert again.is_asleep
        assert value(await again.resume()) == 5


async def test_output_printed_before_the_sleep_is_in_the_result() -> None:
    blob = await _asleep("print('one')\nawait knock(n=5)\nprint('two')", Door())
    door = Door()
    door.open()
    heard: list[str] = []
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob)
        result = await session.resume(on_output=lambda _stream, text: heard.append(text))
        assert result.stdout == "one\ntwo\n"
        assert "".join(heard) == "two\n"


async def test_pending_call_that_may_not_be_repeated_has_an_unknown_outcome() -> None:
    blob = await _asleep("await knock(n=5)", Door(idempotent=False))
    door = Door(idempotent=False)
    door.open()
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob)
        result = await session.resume()
        assert result.error is not None
        assert (result.error.code, result.status) == ("OUTCOME_UNKNOWN", RunStatus.RUNTIME_ERROR)
        assert [call.status for call in result.external_calls] == [CallStatus.UNKNOWN]
        assert door.arrived == []


async def test_unknown_outcome_can_be_caught_and_the_call_made_again() -> None:
    code = "try:\n    r = await knock(n=5)\nexcept RuntimeError as e:\n    r = [str(e)[:15], await knock(n=6)]\nr"
    blob = await _asleep(code, Door(idempotent=False))
    door = Door(idempotent=False)
    door.open()
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob)
        assert value(await session.resume()) == ["OUTCOME_UNKNOWN", 6]
        assert door.arrived == [6]


async def test_cancelled_resume_leaves_the_session_asleep_where_it_was() -> None:
    first, second = Door(), Door(name="other")
    async with _cloister(first.tool, second.tool) as cloister:
        session = await cloister.open_session("a", limits=LONG)
        run = asyncio.create_task(session.run("a = await knock(n=1)\nb = await other(n=2)\n[a, b]"))
        await first.until_knocked()
        blob = await session.snapshot()
        run.cancel()
        await asyncio.wait([run])
        copy = await cloister.restore_session(blob, session_id="b")
        first.open()
        resuming = asyncio.create_task(copy.resume())
        await second.until_knocked()
        resuming.cancel()
        await asyncio.wait([resuming])
        assert copy.is_asleep
        second.open()
        assert value(await copy.resume()) == [1, 2]
        assert value(await copy.run("a + b")) == 3


async def test_sleeping_program_that_runs_into_its_wall_time_sleeps_on() -> None:
    blob = await _asleep("await knock(n=1)", Door())
    door = Door()
    async with _cloister(door.tool) as there:
        session = await there.restore_session(blob, limits=replace(LONG, wall_ms=50))
        result = await session.resume()
        assert result.error is not None
        assert result.error.code == "TIMEOUT_WALL"
        assert "ROLLED_BACK" in codes(result)
        assert session.is_asleep


async def test_calls_made_before_the_sleep_count_after_it() -> None:
    door, free = Door(), Door(name="free")
    free.open()
    code = "await free(n=1)\nawait knock(n=2)\nawait free(n=3)"
    async with _cloister(door.tool, free.tool) as here:
        session = await here.open_session("a", limits=replace(LONG, max_external_calls=2))
        run = asyncio.create_task(session.run(code))
        await door.until_knocked()
        blob = await session.snapshot()
        run.cancel()
        await asyncio.wait([run])
    door.open()
    async with _cloister(door.tool, free.tool) as there:
        result = await (await there.restore_session(blob)).resume()
        assert result.error is not None
        assert result.error.code == "EXTERNAL_CALLS_EXCEEDED"


async def test_calls_settled_before_the_sleep_are_on_record_after_it() -> None:
    door, free = Door(), Door(name="free")
    free.open()
    async with _cloister(door.tool, free.tool) as here:
        session = await here.open_session("a", limits=LONG)
        run = asyncio.create_task(session.run("await free(n=1)\nawait knock(n=2)"))
        await door.until_knocked()
        blob = await session.snapshot()
        run.cancel()
        await asyncio.wait([run])
    door.open()
    async with _cloister(door.tool, free.tool) as there:
        result = await (await there.restore_session(blob)).resume()
        assert [(call.name, call.status) for call in result.external_calls] == [
            ("free", CallStatus.OK),
            ("knock", CallStatus.OK),
        ]


async def test_output_cut_before_the_sleep_is_said_after_it() -> None:
    blob = await _asleep("print('a' * 50)\nawait knock(n=1)", Door(), limits=replace(LONG, max_stdout_bytes=10))
    door = Door()
    door.open()
    async with _cloister(door.tool) as there:
        result = await (await there.restore_session(blob)).resume()
        assert result.stdout == "a" * 10
        assert "STDOUT_EXCEEDED" in codes(result)


# -- what is refused ----------------------------------------------------------------------------------------------


async def _idle(*tools: Tool) -> bytes:
    async with _cloister(*tools) as cloister:
        session = await cloister.open_session("a")
        await session.run("x = 1")
        return await session.snapshot()


async def test_snapshot_of_another_installation_is_foreign() -> None:
    blob = await _idle()
    async with _cloister(key=b"another key, of another installation") as there:
        with pytest.raises(SnapshotForeign):
            await there.restore_session(blob)
        assert await there.list_sessions() == []


async def test_damaged_snapshot_is_refused_and_leaves_nothing() -> None:
    blob = bytearray(await _idle())
    blob[len(blob) // 2] ^= 1
    async with _cloister() as there:
        with pytest.raises(SnapshotCorrupt):
            await there.restore_session(bytes(blob))
        assert await there.list_sessions() == []


@pytest.mark.parametrize("change", [{"engine_version": "monty 0.0"}, {"engine": "other"}])
async def test_snapshot_of_another_engine_is_refused(change: dict[str, str]) -> None:
    envelope = unseal(await _idle(), KEY)
    async with _cloister() as there:
        with pytest.raises(SnapshotVersionMismatch):
            await there.restore_session(seal(replace(envelope, **change), KEY))


@pytest.mark.parametrize("state", [b"", b"nonsense", b"CMY1\xff\xff\xff\xff"])
async def test_state_that_the_engine_cannot_read_is_corrupt(state: bytes) -> None:
    envelope = unseal(await _idle(), KEY)

    async def restore_and_run() -> None:
        async with _cloister() as there:
            session = await there.restore_session(seal(replace(envelope, state=state), KEY))
            await session.run("1")

    with pytest.raises(SnapshotCorrupt):
        await restore_and_run()


async def test_snapshot_whose_tool_is_gone_is_refused_and_the_tool_named() -> None:
    blob = await _idle(get_order)
    async with _cloister() as there:
        with pytest.raises(SnapshotCapabilityMismatch, match="get_order is gone"):
            await there.restore_session(blob)


@pytest.mark.parametrize("how", ["parameters", "result", "side effect"])
async def test_snapshot_whose_tool_has_changed_is_refused(how: str) -> None:
    async def other_parameters(order_id: str, more: int = 1) -> str:
        return order_id * more

    async def other_result(order_id: str) -> int:
        return len(order_id)

    changed = {
        "parameters": Tool(other_parameters, name="get_order"),
        "result": Tool(other_result, name="get_order"),
        "side effect": Tool(get_order.handler, side_effect="write"),
    }
    blob = await _idle(get_order)
    async with _cloister(changed[how]) as there:
        with pytest.raises(SnapshotCapabilityMismatch, match="get_order has changed"):
            await there.restore_session(blob)
        assert await there.list_sessions() == []


async def test_snapshot_is_restored_where_there_are_more_tools() -> None:
    blob = await _idle(get_order)
    async with _cloister(get_order, Door().tool) as there:
        session = await there.restore_session(blob)
        assert value(await session.run("await get_order('A')")) == "A"


async def test_snapshot_is_restored_where_a_tool_is_only_described_otherwise() -> None:
    blob = await _idle(get_order)
    async with _cloister(Tool(get_order.handler, description="other words", idempotent=False)) as there:
        assert value(await (await there.restore_session(blob)).run("x")) == 1


async def test_tools_of_the_session_itself_can_be_given_again() -> None:
    async with _cloister() as here:
        session = await here.open_session("a", tools=[get_order])
        blob = await session.snapshot()
    async with _cloister() as there:
        copy = await there.restore_session(blob, tools=[get_order])
        assert value(await copy.run("await get_order('A')")) == "A"


async def test_restored_session_takes_the_tools_of_its_open_original() -> None:
    async with _cloister() as here:
        session = await here.open_session("a", tools=[get_order])
        copy = await here.restore_session(await session.snapshot(), session_id="b")
        assert value(await copy.run("await get_order('A')")) == "A"


async def test_restoring_never_raises_limits() -> None:
    async with _cloister() as here:
        blob = await (await here.open_session("a", limits=SessionLimits(wall_ms=1000))).snapshot()
    async with _cloister(limits=SessionLimits(wall_ms=60_000)) as there:
        assert (await there.restore_session(blob)).limits.wall_ms == 1000
        with pytest.raises(InvalidLimits, match="wall_ms"):
            await there.restore_session(blob, session_id="b", limits=SessionLimits(wall_ms=1001))


async def test_restoring_may_narrow_limits_and_they_hold() -> None:
    async with _cloister() as here:
        session = await here.open_session("a")
        await session.run("def f(n):\n    return f(n - 1) if n else 0")
        blob = await session.snapshot()
    async with _cloister() as there:
        copy = await there.restore_session(blob, limits=SessionLimits(max_stack_depth=20))
        result = await copy.run("f(100)")
        assert result.error is not None
        assert result.error.code == "STACK_OVERFLOW"
