"""Batches: their order, that each is written whole or not at all, and what refuses one."""

import asyncio
import gc
import logging
from dataclasses import replace

from cloister.core.errors import CloisterError, InvalidInput, LeaseLost, StoreConflict
from cloister.ports.journal import Entry
from cloister.ports.rows import (
    Append,
    Batch,
    Decide,
    Drop,
    Fence,
    Intend,
    MoveHead,
    Put,
    PutBlob,
    Settle,
    Write,
)
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.lab import (
    NOW_MS,
    PATIENCE_S,
    StoreLab,
    append,
    approval,
    blob,
    cell,
    everything,
    intent,
    name_of,
    put,
    refused,
    same,
    session,
    settlement,
    value,
    write,
)

chapter = Chapter[StoreLab]()


@chapter("a batch of nothing is written, and gives no numbers")
async def _nothing(lab: StoreLab) -> None:
    assert await write(lab.store) == ()


@chapter("the writes of a batch happen in their order")
async def _in_order(lab: StoreLab) -> None:
    await write(lab.store, Put(value(value=1)), Put(value(value=2)), Put(cell()), Drop("cells", ("cel_a",)))
    assert [row.value for row in await lab.store.values("ses_a")] == [2]
    assert await lab.store.cell("cel_a") is None
    writes = (
        Drop("cells", ("cel_b",)),
        Put(cell("cel_b")),
        Put(session()),
        MoveHead("ses_a", 0),
        MoveHead("ses_a", 1),
        Put(approval()),
        Decide(approval(state="allowed"), "pending"),
        Intend(intent()),
        Intend(intent()),
        Settle(settlement()),
    )
    await write(lab.store, *writes)
    assert await lab.store.cell("cel_b") == cell("cel_b")
    assert await lab.store.session("ses_a") == session(head=2)
    assert await lab.store.approval("apr_a") == approval(state="allowed")
    assert await lab.store.call("cel_a/1") == Entry(intent(), settlement(), attempts=2)


@chapter("a thousand writes are one batch")
async def _thousand(lab: StoreLab) -> None:
    writes: list[Write] = []
    for n in range(250):
        writes += [Put(value(f"{n:03}", value=n)), Append("ses_a", "x", n), Intend(intent(n)), Put(cell(f"cel_{n:03}"))]
    numbers = await write(lab.store, *writes)
    assert len(set(numbers)) == 250
    assert [row.value for row in await lab.store.values("ses_a")] == list(range(250))
    assert [row.at_ms for row in await lab.store.events()] == list(range(250))
    assert len(await lab.store.calls("cel_a")) == len(await lab.store.cells()) == 250


@chapter("batches are written in the order of their calls, whoever awaits which")
async def _not_awaited(lab: StoreLab) -> None:
    answers = [lab.store.write(Batch((Put(value(f"{n:03}")), Put(value("last", value=n))))) for n in range(200)]
    await answers[-1]
    rows = list(await lab.store.values("ses_a"))
    assert [row.key for row in rows] == [*(f"{n:03}" for n in range(200)), "last"]
    assert rows[-1].value == 199


@chapter("a batch sees those that were written before it, awaited or not")
async def _seen(lab: StoreLab) -> None:
    batches = [Batch((Put(session()),)), *(Batch((MoveHead("ses_a", n),)) for n in range(50))]
    batches += [Batch((Intend(intent()),)), Batch((Intend(intent()),)), Batch((Settle(settlement()),))]
    batches += [Batch((Put(approval()),)), Batch((Decide(approval(state="denied"), "pending"),))]
    answers = [lab.store.write(batch) for batch in batches]
    for answer in answers:
        await answer
    assert await lab.store.session("ses_a") == session(head=50)
    assert await lab.store.call("cel_a/1") == Entry(intent(), settlement(), attempts=2)
    assert await lab.store.approval("apr_a") == approval(state="denied")


@chapter("a batch that is refused does not keep those around it from being written")
async def _between(lab: StoreLab) -> None:
    await put(lab.store, session())
    batches = [Batch((Put(value(f"{n}")), MoveHead("ses_a", 7 if n % 2 else n // 2))) for n in range(10)]
    answers = [lab.store.write(batch) for batch in batches]
    outcomes = [await _outcome(answer) for answer in answers]
    assert outcomes == [None, StoreConflict] * 5
    assert [row.key for row in await lab.store.values("ses_a")] == ["0", "2", "4", "6", "8"]
    assert await lab.store.session("ses_a") == session(head=5)


async def _outcome(answer: object) -> type[CloisterError] | None:
    try:
        await answer  # type: ignore[misc]
    except CloisterError as refusal:
        return type(refusal)
    return None


_GOOD: tuple[Write, ...] = (
    Put(session("ses_new")),
    Put(value("new")),
    Put(value("old", value="changed")),
    Drop("cells", ("cel_old",)),
    blob(b"new"),
    Intend(intent(1, "cel_new")),
    Settle(settlement(1, "cel_new")),
    Intend(intent(2, "cel_old")),
    Settle(settlement(1, "cel_old")),
    Append("ses_a", "new", NOW_MS),
    Decide(approval(state="allowed"), "pending"),
    MoveHead("ses_a", 0),
)
# One that is refused, of each kind.
_BAD: tuple[tuple[type[CloisterError], Write], ...] = (
    (InvalidInput, Put(session("a\x00"))),
    (InvalidInput, Drop("cells", ("a\x00",))),
    (InvalidInput, PutBlob("a\x00", b"")),
    (InvalidInput, Intend(intent(1, "cel_old", name="another.request"))),
    (InvalidInput, Settle(settlement(1, "cel_nobody"))),
    (InvalidInput, Append("ses_a", "a\x00", NOW_MS)),
    (StoreConflict, Decide(approval("apr_decided", state="allowed"), "pending")),
    (StoreConflict, Decide(approval("apr_nobody", state="allowed"), "pending")),
    (StoreConflict, MoveHead("ses_b", 3)),
    (StoreConflict, MoveHead("ses_nobody", 0)),
)


async def _prepare(lab: StoreLab) -> None:
    await put(lab.store, session(), session("ses_b"), value("old"), cell("cel_old"), approval())
    await put(lab.store, approval("apr_decided", state="denied"), Entry(intent(1, "cel_old")))


@chapter("a batch with one write in it that is refused leaves nothing behind, whichever it is and wherever it stands")
async def _all_or_nothing(lab: StoreLab) -> None:
    await _prepare(lab)
    before = await everything(lab.store)
    for kind, bad in _BAD:
        for place in (0, len(_GOOD) // 2, len(_GOOD)):
            await refused(kind, lab.store, *_GOOD[:place], bad, *_GOOD[place:])
            assert await everything(lab.store) == before, bad
            assert await lab.store.blob(name_of(b"new")) is None
    assert len(await write(lab.store, *_GOOD)) == 1
    assert await everything(lab.store) != before


@chapter("a batch with an old fence leaves nothing behind")
async def _fenced(lab: StoreLab) -> None:
    await _prepare(lab)
    before = await everything(lab.store)
    await refused(LeaseLost, lab.store, *_GOOD, fence=Fence("ses_a", 12345))
    assert await everything(lab.store) == before
    assert await lab.store.blob(name_of(b"new")) is None


@chapter("a session's head is not touched when its row is written, and begins at 0")
async def _head_untouched(lab: StoreLab) -> None:
    await put(lab.store, session(head=7))
    same(await lab.store.session("ses_a"), session(head=0))
    await write(lab.store, MoveHead("ses_a", 0))
    for head in (0, 1, 9):
        await put(lab.store, session(head=head, used_ms=head))
        same(await lab.store.session("ses_a"), session(head=1, used_ms=head))


@chapter("a head is moved from where it is, and only from there")
async def _head_moved(lab: StoreLab) -> None:
    await put(lab.store, session(), session("ses_b"))
    for was in range(3):
        await write(lab.store, MoveHead("ses_a", was))
    for was in (0, 2, 4, -1):
        refusal = await refused(StoreConflict, lab.store, MoveHead("ses_a", was))
        assert "'ses_a'" in refusal.message
    assert [row.head for row in await lab.store.sessions()] == [3, 0]


@chapter("of a hundred moves of one head at once, one is made")
async def _head_race(lab: StoreLab) -> None:
    await put(lab.store, session())
    answers = [lab.store.write(Batch((MoveHead("ses_a", 0), Put(value("won", value=n))))) for n in range(100)]
    outcomes = [await _outcome(answer) for answer in answers]
    assert outcomes.count(None) == 1
    assert outcomes.count(StoreConflict) == 99
    assert [row.value for row in await lab.store.values("ses_a")] == [outcomes.index(None)]


@chapter("an approval is decided while it is in the state that it was seen in, and only once")
async def _decide(lab: StoreLab) -> None:
    await put(lab.store, approval())
    decided = approval(state="allowed", doc={"by": "me"})
    await write(lab.store, Decide(decided, "pending"))
    same(await lab.store.approval("apr_a"), decided)
    refusal = await refused(StoreConflict, lab.store, Decide(approval(state="denied"), "pending"))
    assert "'apr_a'" in refusal.message
    await refused(StoreConflict, lab.store, Decide(decided, "pending"))
    await refused(StoreConflict, lab.store, Decide(approval("apr_nobody"), "pending"))
    same(await lab.store.approval("apr_a"), decided)
    await write(lab.store, Decide(replace(decided, state="used"), "allowed"))
    same(await lab.store.approval("apr_a"), replace(decided, state="used"))


@chapter("of a hundred decisions at once, one is made")
async def _decide_race(lab: StoreLab) -> None:
    await put(lab.store, approval())
    decisions = [Decide(approval(state="allowed", doc={"n": n}), "pending") for n in range(100)]
    answers = [lab.store.write(Batch((decision,))) for decision in decisions]
    outcomes = [await _outcome(answer) for answer in answers]
    assert (outcomes.count(None), outcomes.count(StoreConflict)) == (1, 99)
    assert await lab.store.approval("apr_a") == decisions[outcomes.index(None)].row


@chapter("fifty tasks write at once, each in its own order, and nothing is lost")
async def _fifty(lab: StoreLab) -> None:
    async def task(me: int) -> list[int]:
        numbers: list[int] = []
        for n in range(10):
            writes = (Put(value(f"{me:02}/{n}", value=[me, n])), Append(f"ses_{me}", "x", n), Put(session(f"ses_{me}")))
            numbers += await write(lab.store, *writes, MoveHead(f"ses_{me}", n))
        return numbers

    given = await asyncio.gather(*(task(me) for me in range(50)))
    assert len({number for numbers in given for number in numbers}) == 500
    assert len(await lab.store.values("ses_a")) == 500
    assert {row.head for row in await lab.store.sessions()} == {10}
    for me, numbers in enumerate(given):
        assert [(row.seq, row.at_ms) for row in await lab.store.events(session_id=f"ses_{me}")] == [
            (number, n) for n, number in enumerate(numbers)
        ]


@chapter("whoever stops waiting for a write has not taken it back")
async def _cancelled(lab: StoreLab) -> None:
    async def one(n: int) -> None:
        await write(lab.store, Put(value(f"{n}")))

    tasks = [asyncio.ensure_future(one(n)) for n in range(20)]
    # Each has come to its write, and few of them further.
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await asyncio.wait_for(append(lab.store), PATIENCE_S)
    assert len(await lab.store.values("ses_a")) == 20


@chapter("a refusal that nobody awaits is logged, and nothing else comes of it")
async def _unheard(lab: StoreLab) -> None:
    heard: list[object] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    ear, loop = Ear(), asyncio.get_running_loop()
    before = loop.get_exception_handler()
    # A future's own complaint goes to the loop's handler, which may do other than log under a test runner.
    loop.set_exception_handler(lambda _, context: heard.append(context))
    logging.getLogger().addHandler(ear)
    try:
        answer = lab.store.write(Batch((MoveHead("ses_nobody", 0),)))
        await write(lab.store, Put(value()))
        del answer
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)
    finally:
        logging.getLogger().removeHandler(ear)
        loop.set_exception_handler(before)
    assert heard
    assert len(await lab.store.values("ses_a")) == 1
