"""`python -m bench.many`: prints the KB of host memory that a waiting cell takes beyond its own bytes, and what
deciding ten thousand of them costs per cell, as a ratio to Monty's own way to wake one."""

import asyncio
import gc
import os
import tempfile
import time
from typing import Any

import pydantic_monty as monty

from bench.measure import resident_bytes
from cloister import CellLimits, Cloister, Tool, WaitingForApproval

_CELLS = 10_000
_SESSIONS = 100
_BASE = 300
_CODE = "total = 40\nrow = await hold(1)\ntotal + row"
_MONTY_LIMITS: Any = {"max_suspensions": 10**9}


async def hold(n: int) -> int:
    return n


async def _monty_cycle() -> tuple[float, int]:
    """Seconds for checkout, load, resume and dump of one suspended program, two at a time; and its bytes."""
    async with monty.AsyncMonty(max_processes=2) as pool:
        async with pool.checkout(limits=_MONTY_LIMITS) as session:
            image = await _dumped(session)

        async def one() -> None:
            async with pool.checkout(limits=_MONTY_LIMITS) as session:
                snapshot: Any = await session.load_snapshot(image)
                (pending,) = snapshot.pending_call_ids
                done = await snapshot.resume({pending: {"return_value": 1}})
                assert done.output == 41, done
                await session.dump()

        async def many(count: int) -> None:
            for _ in range(count):
                await one()

        await many(20)
        began = time.perf_counter()
        await asyncio.gather(many(_BASE // 2), many(_BASE // 2))
        return (time.perf_counter() - began) / _BASE, len(image)


async def _dumped(session: Any) -> bytes:
    snapshot: Any = await session.feed_start(_CODE)
    while not hasattr(snapshot, "function_name"):
        snapshot = await snapshot.resume(value=hold)
    await snapshot.resume({"future": ...})
    return await session.dump()


async def main() -> None:
    base, image = await _monty_cycle()
    cells = CellLimits(max_cells=2 * _CELLS, max_isolated=_CELLS)
    ask = Tool(hold, approval_policy="manual")
    async with Cloister(tools=[ask], workers=2, type_check="off", cells=cells) as cloister:
        sessions = [await cloister.open_session(f"s{n}") for n in range(_SESSIONS)]

        async def start(session: Any, count: int) -> list[str]:
            seen = [await session.exec(_CODE, isolated=True, yield_ms=60_000) for _ in range(count)]
            assert all(isinstance(one, WaitingForApproval) for one in seen)
            return [one.cell_id for one in seen]

        # What is allocated once is not the cells'.
        warm = [await start(session, 1) for session in sessions]
        gc.collect()
        before = resident_bytes()
        started = await asyncio.gather(*(start(session, _CELLS // _SESSIONS) for session in sessions))
        gc.collect()
        grown = resident_bytes() - before
        approvals = await cloister.approvals(state="pending")
        began = time.perf_counter()
        await cloister.decide_many({"id": approval.id, "decision": "allow"} for approval in approvals)
        for session, first, ids in zip(sessions, warm, started, strict=True):
            for cell_id in (*first, *ids):
                seen: Any = await session.wait(cell_id, yield_ms=60_000)
                assert seen.result == 41, seen
        spent = (time.perf_counter() - began) / len(approvals)
    print((grown / _CELLS - image) / 1024, spent / base)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("CLOISTER_DATA_DIR", scratch)
        asyncio.run(main())
