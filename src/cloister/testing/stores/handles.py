"""Handles: what is left when one is closed, and what two on the same data see of each other."""

import asyncio
import gc
from collections.abc import Awaitable

from cloister.core.errors import LeaseLost, StoreConflict, StoreUnavailable
from cloister.ports.rows import Append, Batch, Decide, Intend, MoveHead, Put, Settle
from cloister.ports.store import Store
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.events import wakes, write_while_followed
from cloister.testing.stores.lab import (
    BLOBS,
    HARD,
    PATIENCE_S,
    StoreLab,
    append,
    approval,
    everything,
    intent,
    one_of_each,
    put,
    refused,
    session,
    settlement,
    value,
    write,
)
from cloister.testing.stores.owners import claim_against_a_write

chapter = Chapter[StoreLab]()
# Of stores that can be opened twice on the same data.
shared = Chapter[StoreLab]()
# Of those whose time can be made to pass as well.
shared_timed = Chapter[StoreLab]()


async def _close(store: Store) -> None:
    await store.__aexit__(None, None, None)


async def _unavailable(reading: Awaitable[object]) -> None:
    try:
        await reading
    except StoreUnavailable:
        return
    raise AssertionError("it was not refused")


@chapter("a store that was closed refuses everything as unavailable, and may be closed again")
async def _closed(lab: StoreLab) -> None:
    store = lab.store
    await put(store, session())
    await _close(store)
    await refused(StoreUnavailable, store, Put(value()))
    await refused(StoreUnavailable, store)
    await _unavailable(store.session("ses_a"))
    await _unavailable(store.events())
    await _unavailable(store.wait_for_events(0, 10))
    await _unavailable(store.join("one", 1000))
    await _unavailable(store.claim("one"))
    await _unavailable(store.check())
    await _close(store)


@chapter("what was written before a store is closed is acknowledged, though nobody had awaited it")
async def _flushed(lab: StoreLab) -> None:
    answers = [lab.store.write(Batch((Put(value(f"{n}")), Append("ses_a", "x", n)))) for n in range(50)]
    await _close(lab.store)
    numbers = [number for answer in answers for number in await answer]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 50


@chapter("a store that is closed lets go of those who wait for events")
async def _woken(lab: StoreLab) -> None:
    wait = asyncio.ensure_future(lab.store.wait_for_events(0, 600_000))
    for _ in range(20):
        await asyncio.sleep(0)
    await _close(lab.store)
    done, _ = await asyncio.wait([wait], timeout=PATIENCE_S)
    assert done
    if wait.exception() is None:
        assert wait.result() is False
    else:
        assert isinstance(wait.exception(), StoreUnavailable)


@chapter("a store says where it is")
async def _where(lab: StoreLab) -> None:
    assert "://" in lab.store.url or lab.store.url.partition(":")[2]


@shared("what was acknowledged is there when the store is opened again")
async def _reopened(lab: StoreLab) -> None:
    rows = [row for place, doc in enumerate(HARD) for row in one_of_each(f"ses_{place}", doc)]
    await write(lab.store, *BLOBS, *(Put(row) for row in rows))
    await write(lab.store, MoveHead("ses_0", 0), Intend(intent(5)), Settle(settlement(5)), Intend(intent(6)))
    numbers = await append(lab.store, 3)
    await lab.store.join("one", 600_000)
    fence = (await lab.store.claim("one", ["ses_1"]))[0].fence
    before = await everything(lab.store)
    await _close(lab.store)
    async with lab.open() as store:
        assert await everything(store) == before
        for one in BLOBS:
            assert await store.blob(one.name) == one.data
        assert min(await append(store)) > max(numbers)
        await write(store, Put(value()), fence=fence)
        await store.join("two", 600_000)
        assert "ses_1" not in [claim.row.id for claim in await store.claim("two")]
        assert list(await store.check()) == []


@shared("what nobody awaited before the store was closed is there when it is opened again")
async def _flushed_and_reopened(lab: StoreLab) -> None:
    answers = [lab.store.write(Batch((Put(value(f"{n:02}")),))) for n in range(50)]
    await _close(lab.store)
    del answers
    gc.collect()
    async with lab.open() as store:
        assert len(await store.values("ses_a")) == 50


@shared("a number is not used twice, though the store was closed and no event is left")
async def _numbers(lab: StoreLab) -> None:
    numbers = await append(lab.store, 3)
    await lab.store.prune(keep_events=0)
    await _close(lab.store)
    async with lab.open() as store:
        assert min(await append(store)) > max(numbers)


@shared("a fence is not given twice, though the store was closed and the session was released")
async def _fences(lab: StoreLab) -> None:
    await put(lab.store, session())
    await lab.store.join("one", 600_000)
    old = (await lab.store.claim("one"))[0].fence
    await lab.store.release("one")
    await _close(lab.store)
    async with lab.open() as store:
        await store.join("one", 600_000)
        new = (await store.claim("one"))[0].fence
        assert new != old
        await refused(LeaseLost, store, Put(value()), fence=old)


@shared("two handles see what the other was told is written")
async def _both_see(lab: StoreLab) -> None:
    async with lab.open() as other:
        for n in range(10):
            here, there = (lab.store, other) if n % 2 else (other, lab.store)
            await put(here, *one_of_each(f"ses_{n}", {"n": n}))
            [number] = await append(here)
            assert await there.session(f"ses_{n}") == session(f"ses_{n}", doc={"n": n})
            assert [row.seq for row in await there.events(since=number - 1)] == [number]
        assert await everything(lab.store) == await everything(other)


@shared("of two handles that move one head at once, one does, each time")
async def _heads(lab: StoreLab) -> None:
    await put(lab.store, session())
    async with lab.open() as other:
        for was in range(10):
            answers = [store.write(Batch((MoveHead("ses_a", was),))) for store in (lab.store, other, lab.store, other)]
            outcomes = await asyncio.gather(*(_try(answer) for answer in answers))
            assert sorted(outcomes) == [False, False, False, True]
    assert await lab.store.session("ses_a") == session(head=10)


async def _try(answer: Awaitable[object]) -> bool:
    try:
        await answer
    except StoreConflict:
        return False
    return True


@shared("of two handles that decide at once, one does")
async def _decisions(lab: StoreLab) -> None:
    async with lab.open() as other:
        for n in range(10):
            await put(lab.store, approval(f"apr_{n}"))
            decisions = [Decide(approval(f"apr_{n}", state=state), "pending") for state in ("allowed", "denied")]
            answers = [store.write(Batch((one,))) for store, one in zip((lab.store, other), decisions, strict=True)]
            won = await asyncio.gather(*(_try(answer) for answer in answers))
            assert sorted(won) == [False, True]
            assert await other.approval(f"apr_{n}") == decisions[won.index(True)].row


@shared("an answer to a question of a session that another has needs no fence, wakes who has it, and gives way to them")
async def _answers(lab: StoreLab) -> None:
    await put(lab.store, session(), approval())
    await lab.store.join("host", 600_000)
    [claim] = await lab.store.claim("host")
    async with lab.open() as other:
        seen = await lab.store.last_event()
        woken = asyncio.ensure_future(lab.store.wait_for_events(seen, 600_000))
        answers = [approval(state="answered", doc={"answer": n}) for n in range(100)]
        told = [Append("ses_a", "approval.answered", n) for n in range(100)]
        batches = [Batch((Decide(row, "pending"), one)) for row, one in zip(answers, told, strict=True)]
        stores = [other, lab.store] * 50
        outcomes = await asyncio.gather(
            *(_try(store.write(batch)) for store, batch in zip(stores, batches, strict=True))
        )
        assert outcomes.count(True) == 1
        assert await asyncio.wait_for(woken, PATIENCE_S)
        # Of those that were refused there is no event either.
        assert [row.at_ms for row in await lab.store.events()] == [outcomes.index(True)]
        assert list(await lab.store.approvals(state="pending")) == []
        assert await lab.store.approvals(state="answered") == [answers[outcomes.index(True)]]
        await write(lab.store, Put(approval(state="denied")), fence=claim.fence)
        assert await _try(other.write(batches[0])) is False
        assert await other.approval("apr_a") == approval(state="denied")


@shared("two handles that write at once lose nothing, and whoever reads on from the last event misses none")
async def _followed(lab: StoreLab) -> None:
    async with lab.open() as other:
        await write_while_followed([lab.store, other] * 4, lab.store)
        await append(other)
        assert len(await lab.store.events(limit=10_000)) == len(await other.events(limit=10_000)) == 241


@shared("an event wakes those who wait at another handle")
async def _wakes(lab: StoreLab) -> None:
    async with lab.open() as other:
        await wakes(lab.store, other)
        await wakes(other, lab.store)


@shared("owners at two handles never own the same session")
async def _owners(lab: StoreLab) -> None:
    await put(lab.store, *(session(f"ses_{n}") for n in range(10)))
    async with lab.open() as other:
        await lab.store.join("one", 600_000)
        await other.join("two", 600_000)
        ones, twos = await asyncio.gather(lab.store.claim("one"), other.claim("two"))
        assert sorted(claim.row.id for claim in [*ones, *twos]) == [f"ses_{n}" for n in range(10)]
        for claim in ones:
            # A fence is good at whichever handle.
            await write(other, Put(value()), fence=claim.fence)


@shared("a handle that is closed leaves the other open, and its owner an owner")
async def _one_closed(lab: StoreLab) -> None:
    await put(lab.store, session())
    async with lab.open() as other:
        await other.join("two", 600_000)
        [claim] = await other.claim("two")
    await lab.store.join("one", 600_000)
    assert list(await lab.store.claim("one")) == []
    await write(lab.store, Put(value()), fence=claim.fence)


@shared_timed("a write at one handle and a claim at another: whichever is first, never both")
async def _claim_and_write(lab: StoreLab) -> None:
    async with lab.open() as other:
        await claim_against_a_write(lab, lab.store, other)
