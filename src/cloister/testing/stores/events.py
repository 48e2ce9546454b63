"""Events: their numbers, who reads which, who waits for them, and which are let go of."""

import asyncio
import contextlib
from collections.abc import Sequence

from cloister.ports.rows import Append, Batch, Drop, EventRow, MoveHead, Put
from cloister.ports.store import Store
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.lab import (
    HARD,
    NOW_MS,
    PATIENCE_S,
    StoreLab,
    append,
    cell,
    event,
    put,
    same,
    session,
    value,
    write,
)

chapter = Chapter[StoreLab]()


def _numbers(rows: Sequence[EventRow]) -> list[int]:
    return [row.seq for row in rows]


@chapter("events are numbered from 1 or more, upwards, in one row for all sessions")
async def _numbered(lab: StoreLab) -> None:
    numbers: list[int] = []
    for n in range(9):
        numbers += await append(lab.store, 1 + n % 2, f"ses_{n % 3}")
    assert numbers[0] >= 1
    assert numbers == sorted(set(numbers))
    assert _numbers(await lab.store.events()) == numbers


@chapter("a write gives the numbers of its events in their order, and of nothing else")
async def _given(lab: StoreLab) -> None:
    writes = [Append("ses_a", f"kind {n}", n, doc) for n, doc in enumerate(HARD)]
    numbers = await write(lab.store, Put(value()), *writes[:3], Put(session()), *writes[3:])
    assert type(numbers) is tuple
    read = await lab.store.events()
    for row, number, one in zip(read, numbers, writes, strict=True):
        same(row, EventRow(number, one.session_id, one.kind, one.at_ms, one.doc))


@chapter("events are read from behind a number, so many at a time, of one session or of all")
async def _since(lab: StoreLab) -> None:
    numbers = [number for n in range(12) for number in await append(lab.store, 1, f"ses_{n % 2}")]
    assert _numbers(await lab.store.events(since=numbers[4])) == numbers[5:]
    assert _numbers(await lab.store.events(since=numbers[4], limit=3)) == numbers[5:8]
    assert _numbers(await lab.store.events(session_id="ses_1")) == numbers[1::2]
    assert _numbers(await lab.store.events(session_id="ses_1", since=numbers[2], limit=2)) == [numbers[3], numbers[5]]
    assert list(await lab.store.events(since=numbers[-1])) == []
    assert list(await lab.store.events(session_id="ses_nobody")) == []


@chapter("a refused batch has no events, and the numbers go on behind it")
async def _refused(lab: StoreLab) -> None:
    batches = [
        Batch((Append("ses_a", "good", 1),)),
        Batch((Append("ses_a", "bad", 2), MoveHead("ses_nobody", 0))),
        Batch((Append("ses_a", "good", 3),)),
    ]
    answers = [lab.store.write(batch) for batch in batches]
    first, third = await answers[0], await answers[2]
    with contextlib.suppress(Exception):
        await answers[1]
    assert first < third
    assert [(row.seq, row.kind) for row in await lab.store.events()] == [(*first, "good"), (*third, "good")]


@chapter("a number is never used twice, even when all events are gone")
async def _never_twice(lab: StoreLab) -> None:
    first = await append(lab.store, 3)
    assert await lab.store.prune(keep_events=0) == 3
    second = await append(lab.store, 2)
    assert min(second) > max(first)
    await write(lab.store, *(Drop("events", (number,)) for number in second))
    third = await append(lab.store, 1)
    assert min(third) > max(second)
    # One that came from elsewhere with a number, and went.
    await write(lab.store, Put(event(third[0] + 100)))
    await write(lab.store, Drop("events", (third[0] + 100,)))
    assert min(await append(lab.store, 1)) > third[0] + 100


async def follow(store: Store, done: asyncio.Event, limit: int = 7) -> list[int]:
    """All that somebody sees who reads on from the last that was seen, until `done`."""
    seen: list[int] = []
    while True:
        over = done.is_set()
        rows = await store.events(since=seen[-1] if seen else 0, limit=limit)
        seen += _numbers(rows)
        if over and not rows:
            return seen
        await asyncio.sleep(0)


async def write_while_followed(writers: Sequence[Store], reader: Store) -> None:
    """Whoever follows the log misses nothing, however many write to it at once."""

    async def one(me: int, store: Store) -> None:
        for n in range(15):
            await write(store, *(Append(f"ses_{me}", "x", n) for _ in range(1 + n % 3)), Put(value(f"{me}/{n}")))

    done = asyncio.Event()
    following = asyncio.ensure_future(follow(reader, done))
    await asyncio.gather(*(one(me, store) for me, store in enumerate(writers)))
    done.set()
    seen = await asyncio.wait_for(following, PATIENCE_S)
    assert seen == _numbers(await reader.events(limit=100_000))
    assert len(seen) == len(writers) * 30


@chapter("whoever reads on from the last event misses none, however many write at once")
async def _followed(lab: StoreLab) -> None:
    await write_while_followed([lab.store] * 8, lab.store)


@chapter("to wait for events that are there takes no time")
async def _there(lab: StoreLab) -> None:
    first, second = await append(lab.store, 2)
    assert await asyncio.wait_for(lab.store.wait_for_events(0, 600_000), PATIENCE_S) is True
    assert await asyncio.wait_for(lab.store.wait_for_events(first, 600_000), PATIENCE_S) is True
    assert await lab.store.wait_for_events(second, 0) is False


@chapter("the number of the last event is known")
async def _last(lab: StoreLab) -> None:
    assert await lab.store.last_event() == 0
    numbers = await append(lab.store, 3)
    assert await lab.store.last_event() == numbers[-1]


async def wakes(waiter: Store, writer: Store) -> None:
    [last] = await append(writer)
    waits = [asyncio.ensure_future(waiter.wait_for_events(last, 600_000)) for _ in range(20)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(wait.done() for wait in waits)
    await append(writer, 1, "ses_b")
    assert await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S) == [True] * 20
    assert len(await waiter.events(since=last)) == 1


@chapter("a new event wakes all that wait for one")
async def _wakes(lab: StoreLab) -> None:
    await wakes(lab.store, lab.store)


@chapter("who waits in vain is told so when the time is up")
async def _in_vain(lab: StoreLab) -> None:
    [last] = await append(lab.store)
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert await asyncio.wait_for(lab.store.wait_for_events(last, 50), PATIENCE_S) is False
    assert loop.time() - before >= 0.04
    # What is no event wakes nobody for good.
    await put(lab.store, value())
    assert await asyncio.wait_for(lab.store.wait_for_events(last, 1), PATIENCE_S) is False


@chapter("a wait that is cancelled leaves the others waiting")
async def _cancelled_wait(lab: StoreLab) -> None:
    waits = [asyncio.ensure_future(lab.store.wait_for_events(0, 600_000)) for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    waits[1].cancel()
    await asyncio.wait([waits[1]])
    await append(lab.store)
    assert await asyncio.wait_for(asyncio.gather(waits[0], waits[2]), PATIENCE_S) == [True, True]


# -- letting go -----------------------------------------------------------------------------------------------------


async def _aged(lab: StoreLab, sessions: Sequence[str]) -> list[int]:
    """An event for each, a millisecond apart."""
    writes = [Append(name, "x", NOW_MS + n) for n, name in enumerate(sessions)]
    return list(await write(lab.store, *writes))


@chapter("pruning by age drops what happened before a moment")
async def _by_age(lab: StoreLab) -> None:
    numbers = await _aged(lab, ["ses_a"] * 6)
    assert await lab.store.prune(events_before_ms=NOW_MS + 2) == 2
    assert _numbers(await lab.store.events()) == numbers[2:]
    assert await lab.store.prune(events_before_ms=NOW_MS + 2) == 0


@chapter("pruning by number keeps so many of the newest")
async def _by_number(lab: StoreLab) -> None:
    numbers = await _aged(lab, ["ses_a", "ses_b"] * 3)
    assert await lab.store.prune(keep_events=10) == 0
    assert await lab.store.prune(keep_events=2) == 4
    assert _numbers(await lab.store.events()) == numbers[4:]
    assert await lab.store.prune(keep_events=0) == 2


@chapter("pruning by both drops what is beyond either, and by neither nothing")
async def _by_both(lab: StoreLab) -> None:
    numbers = await _aged(lab, ["ses_a"] * 6)
    assert await lab.store.prune() == 0
    assert await lab.store.prune(events_before_ms=NOW_MS + 1, keep_events=4) == 2
    assert _numbers(await lab.store.events()) == numbers[2:]
    assert await lab.store.prune(events_before_ms=NOW_MS + 4, keep_events=3) == 2
    assert _numbers(await lab.store.events()) == numbers[4:]


@chapter("events of a session with live cells are not pruned, and count among the newest")
async def _live(lab: StoreLab) -> None:
    await put(lab.store, cell("cel_1", "ses_live"), cell("cel_2", "ses_over", live=False))
    numbers = await _aged(lab, ["ses_live", "ses_over", "ses_none", "ses_live", "ses_over", "ses_none", "ses_live"])
    assert await lab.store.prune(keep_events=2) == 3
    assert _numbers(await lab.store.events()) == [numbers[place] for place in (0, 3, 5, 6)]
    assert await lab.store.prune(events_before_ms=NOW_MS + 1000) == 1
    await put(lab.store, cell("cel_1", "ses_live", live=False))
    assert await lab.store.prune(events_before_ms=NOW_MS + 1000) == 3
