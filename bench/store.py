"""Durability: what writing everything down costs, how fast ten thousand sleepers are found again, how much room they
take."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import apsw

from bench.measure import Row
from cloister import CellLimits, Cloister, SessionLimits, Tool
from tests.stores.pg_server import PgServer

_LIMITS = SessionLimits(wall_ms=600_000, cpu_ms=600_000, max_external_calls=100_000)
_CALLS = 200
_CODE = f"for i in range({_CALLS}):\n    await look(i)\n"
_SLEEPERS = 10_000
_PAGES = 500


async def rows() -> AsyncIterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rates: dict[str, list[float]] = {"none": [], "one": [], "many": [], "paid": [], "all paid": []}
        for turn in range(2):
            rates["none"].append(await _rate(Cloister(tools=[_look()], limits=_LIMITS, type_check="off", workers=2), 1))
            rates["one"].append(await _rate(_stored(folder / f"one{turn}.db"), 1))
            rates["many"].append(await _rate(_stored(folder / f"many{turn}.db"), 64))
            rates["paid"].append(await _rate(_stored(folder / f"paid{turn}.db", tools=[_look(once=True)]), 1))
            paying = _stored(folder / f"all_paid{turn}.db", tools=[_look(once=True)])
            rates["all paid"].append(await _rate(paying, 64))
        none, one, many, paid, all_paid = map(mean, rates.values())
        print(f"  calls/s: none {none:.0f}, reads {one:.0f}, writes {paid:.0f}")
        print(f"  of 64 sessions: reads {many:.0f}, writes {all_paid:.0f}")
        # What a disk takes for a commit is in all of them: figures of two machines compare with this beside them.
        print(f"  the disk: {_synced(folder):.0f} fdatasync/s; SQLite alone, FULL: {_committed(folder):.0f} commits/s")
        yield Row("durable reads, one session, SQLite, FULL [rate of none / rate, at most 1 / 0.4]", none / one, 2.5)
        # Two commits each, one before the call and one after it, and nobody to share them with.
        yield Row("the same with writes that must not happen twice [rate of none / rate]", none / paid, 2.5)
        yield Row("the same with 64 sessions [1 / rate of one session, at most 1 / 1.5]", one / many, 1 / 1.5)
        settled = 65 * _CALLS + 65
        size = sum(os.path.getsize(folder / name) for name in ("one0.db", "many0.db")) / settled / 1024
        yield Row("store per settled small call, Python [KB]", size, 6.0)
        yield await _cell_overhead(folder)
        yield await _recovery(folder)
    async for row in _against_the_rival():
        yield row


def _synced(folder: Path) -> float:
    """Pages of a file written to the disk, in a second."""
    page = b"x" * 4096
    file = os.open(folder / "pages", os.O_RDWR | os.O_CREAT)
    try:
        os.write(file, page * _PAGES)
        os.fsync(file)
        began = time.perf_counter()
        for number in range(_PAGES):
            os.pwrite(file, page, number * len(page))
            os.fdatasync(file)
        return _PAGES / (time.perf_counter() - began)
    finally:
        os.close(file)


def _committed(folder: Path) -> float:
    """Rows of half a kilobyte, each in a commit of its own, in a second."""
    connection: Any = apsw.Connection(str(folder / "bare.db"))
    try:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.execute("create table bare (number integer primary key, text text)")
        began = time.perf_counter()
        for number in range(_PAGES):
            connection.execute("insert into bare values (?, ?)", (number, "x" * 500))
        return _PAGES / (time.perf_counter() - began)
    finally:
        connection.close()


def _look(*, once: bool = False) -> Tool:
    """A read; or a write that must not happen twice."""

    async def look(n: int) -> int:
        """Look."""
        return n

    return Tool(look, side_effect="write" if once else "read", idempotent=not once)


async def _against_the_rival() -> AsyncIterator[Row]:
    """64 sessions and 64 workflows on the same server, as many programs at once as there are. In turns, twice each: a
    busy moment of the machine would otherwise be one side's."""
    server = PgServer()
    try:
        server.create()
        theirs: list[float] = []
        ours: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(2):
            for once, rates in ours.items():
                theirs.append(await _rival(server.url(server.new_database())))
                store = server.url(server.new_database())
                made = Cloister(tools=[_look(once=once)], limits=_LIMITS, type_check="off", workers=64, store=store)
                rates.append(await _rate(made, 64))
        for once, rates in ours.items():
            what = "writes that must not happen twice" if once else "reads"
            yield Row(
                f"64 sessions, PostgreSQL, {what} [rate of DBOS / rate, at most 1 / 3]",
                mean(theirs) / mean(rates),
                1 / 3,
            )
    finally:
        server.close()


async def _rival(url: str) -> float:
    command = (sys.executable, "-m", "bench.rival", url, "64", str(_CALLS))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return float(said)


def _stored(path: Path, **options: Any) -> Cloister:
    given: dict[str, Any] = {"tools": [_look()], "limits": _LIMITS, "type_check": "off", "workers": 2, **options}
    return Cloister(store=f"sqlite://{path}", **given)


async def _rate(made: Cloister, count: int) -> float:
    """Calls per second."""
    async with made as cloister:
        sessions = [await cloister.open_session(f"s{n}") for n in range(count)]
        # Workers are started by then.
        await asyncio.gather(*(session.run("await look(1)") for session in sessions))
        began = time.perf_counter()
        results = await asyncio.gather(*(session.run(_CODE) for session in sessions))
        spent = time.perf_counter() - began
    assert all(result.ok for result in results), results[0]
    return count * _CALLS / spent


async def _cell_overhead(folder: Path) -> Row:
    spent: dict[str, float] = {}
    url = f"sqlite://{folder / 'cell.db'}?synchronous=normal"
    given: dict[str, dict[str, Any]] = {"none": {}, "cell": {"store": url, "durability": "cell"}}
    for name, options in given.items():
        async with Cloister(limits=_LIMITS, type_check="off", **options) as cloister:
            session = await cloister.open_session()
            times: list[float] = []
            for _ in range(300):
                began = time.perf_counter()
                await session.run("1 + 1")
                times.append(time.perf_counter() - began)
        spent[name] = median(times[50:]) * 1000
    return Row("`cell` durability on a run without calls, over none, p50 [ms]", spent["cell"] - spent["none"], 1.0)


async def _recovery(folder: Path) -> Row:
    """From opening the store to ready, with ten thousand programs asleep in it."""

    async def hold(n: int) -> int:
        return n

    ask = Tool(hold, approval_policy="manual")
    cells = CellLimits(max_cells=2 * _SLEEPERS, max_isolated=_SLEEPERS)
    path = folder / "asleep.db"
    code = "total = 40\nrow = await hold(1)\ntotal + row"
    async with _stored(path, tools=[ask], cells=cells) as cloister:
        sessions = [await cloister.open_session(f"s{n}") for n in range(100)]

        async def start(session: Any) -> None:
            for _ in range(_SLEEPERS // 100):
                await session.exec(code, isolated=True, yield_ms=60_000)

        await asyncio.gather(*map(start, sessions))
    began = time.perf_counter()
    async with _stored(path, tools=[ask], cells=cells) as cloister:
        spent = time.perf_counter() - began
        report = await cloister.recovery_report()
    assert len(report.cells) == _SLEEPERS, len(report.cells)
    assert {cell.outcome for cell in report.cells} == {"waits"}
    return Row("opening a store with 10,000 programs asleep, to ready [s]", spent, 5.0)
