"""Histories: random batches, claims and reads, which a store and the one in memory must take alike.

    @given(histories())
    async def test_store_is_like_its_model(history: list[Step]) -> None:
        async with an_empty_store() as store:
            await compare(store, history)

The numbers of events and the tokens of fences are a store's own, so they are compared by their order. Needs
hypothesis, which the suite itself does not.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from hypothesis import strategies as st

from cloister.core.call import CallStatus
from cloister.core.errors import CloisterError
from cloister.ports.journal import Entry
from cloister.ports.rows import (
    KEYS,
    Append,
    Batch,
    Decide,
    Drop,
    EventRow,
    Fence,
    Intend,
    MoveHead,
    Put,
    Row,
    Settle,
    Table,
    Write,
)
from cloister.ports.store import Store
from cloister.stores.memory_store import MemoryStore
from cloister.testing.stores.lab import (
    HARD,
    approval,
    attachment,
    blob,
    cell,
    everything,
    file,
    intent,
    name_of,
    scanned,
    secret,
    session,
    settlement,
    snapshot,
    value,
)


@dataclass(frozen=True, slots=True)
class WriteStep:
    """A batch; with the fence of the claim that was made so many claims ago, if there was one."""

    writes: tuple[Write, ...]
    claims_ago: int | None = None


@dataclass(frozen=True, slots=True)
class TogetherStep:
    """Batches of which none is awaited before all are written."""

    batches: tuple[tuple[Write, ...], ...]


@dataclass(frozen=True, slots=True)
class ClaimStep:
    owner: str
    session_ids: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    owner: str
    session_ids: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class PruneStep:
    events_before_ms: int | None
    keep_events: int | None


@dataclass(frozen=True, slots=True)
class PageStep:
    """Everything there is, so many at a time."""

    limit: int
    session_id: str | None


Step: TypeAlias = WriteStep | TogetherStep | ClaimStep | ReleaseStep | PruneStep | PageStep

# Few, so that they meet.
_SESSIONS = ["ses_a", "ses_b", "ses_\u00e9"]
_CELLS = ["cel_a", "cel_b", "cel_c"]
_STATES = ["pending", "allowed"]
_DATA = [b"", b"one", b"two"]
_OWNERS = ["one", "two"]


def _rows() -> st.SearchStrategy[Row]:
    sessions, docs = st.sampled_from(_SESSIONS), st.sampled_from(HARD)
    names, states = st.sampled_from(["a", "b"]), st.sampled_from(_STATES)
    images = st.sampled_from([None, *map(name_of, _DATA)])
    blobs = st.sampled_from([name_of(data) for data in _DATA])
    whole = st.integers(0, 5)
    makers: list[st.SearchStrategy[Row]] = [
        st.builds(session, sessions, doc=docs, image=images, used_ms=whole, head=whole),
        st.builds(cell, st.sampled_from(_CELLS), sessions, doc=docs, image=images, live=st.booleans(), state=states),
        st.builds(approval, names, sessions, doc=docs, state=states),
        st.builds(snapshot, names, sessions, doc=docs, image=blobs, blobs=st.lists(blobs, max_size=2)),
        st.builds(value, names, sessions, value=docs),
        st.builds(file, names, sessions, doc=docs, blob=blobs),
        st.builds(secret, names, sessions, doc=docs, sealed=st.binary(max_size=3)),
        st.builds(attachment, st.sampled_from(_DATA), sessions, doc=docs),
        st.builds(Entry, _intents(), attempts=st.integers(1, 3)),
    ]
    return st.one_of(makers)


def _intents() -> st.SearchStrategy[Any]:
    return st.builds(
        intent,
        st.integers(1, 2),
        st.sampled_from(_CELLS),
        st.sampled_from(_SESSIONS),
        idempotent=st.booleans(),
        arguments=st.sampled_from(HARD),
        name=st.sampled_from(["shop.refund", "shop.pay"]),
    )


def _keys(table: Table) -> st.SearchStrategy[tuple[str | int, ...]]:
    match table:
        case "sessions":
            return st.tuples(st.sampled_from(_SESSIONS))
        case "cells":
            return st.tuples(st.sampled_from(_CELLS))
        case "calls":
            return st.tuples(st.sampled_from([f"{name}/{number}" for name in _CELLS for number in (1, 2)]))
        case "approvals" | "snapshots":
            return st.tuples(st.sampled_from(["a", "b"]))
        case "attachments":
            return st.tuples(st.sampled_from(_SESSIONS), st.sampled_from([name_of(data) for data in _DATA]))
        case _:
            return st.tuples(st.sampled_from(_SESSIONS), st.sampled_from(["a", "b"]))


def _writes() -> st.SearchStrategy[Write]:
    sessions, docs = st.sampled_from(_SESSIONS), st.sampled_from(HARD)
    statuses = st.sampled_from([CallStatus.OK, CallStatus.UNKNOWN, CallStatus.APPROVAL_PENDING])
    settlements = st.builds(settlement, st.integers(1, 2), st.sampled_from(_CELLS), status=statuses, value=docs)
    decided = st.builds(approval, st.sampled_from(["a", "b"]), sessions, doc=docs, state=st.sampled_from(_STATES))
    drops = [st.builds(Drop, st.just(table), _keys(table)) for table in KEYS if table != "events"]
    kinds: list[st.SearchStrategy[Write]] = [
        st.builds(Put, _rows()),
        st.builds(Put, _rows()),
        st.one_of(drops),
        st.builds(blob, st.sampled_from(_DATA)),
        st.builds(Intend, _intents()),
        st.builds(Settle, settlements),
        st.builds(Append, sessions, st.sampled_from(["x", "y"]), st.integers(0, 5), docs),
        st.builds(Decide, decided, st.sampled_from(_STATES)),
        st.builds(MoveHead, sessions, st.integers(0, 2)),
        st.builds(Put, st.builds(value, st.sampled_from(["a\x00", "k" * 1025]))),
    ]
    return st.one_of(kinds)


def histories(max_steps: int = 30) -> st.SearchStrategy[list[Step]]:
    """What may happen to a store."""
    batches = st.lists(_writes(), max_size=4).map(tuple)
    owners = st.sampled_from(_OWNERS)
    some = st.none() | st.lists(st.sampled_from([*_SESSIONS, "ses_nobody"]), max_size=2).map(tuple)
    bound = st.none() | st.integers(0, 6)
    kinds: list[st.SearchStrategy[Step]] = [
        st.builds(WriteStep, batches),
        st.builds(WriteStep, batches, st.integers(0, 3)),
        st.builds(TogetherStep, st.lists(batches, min_size=2, max_size=5).map(tuple)),
        st.builds(ClaimStep, owners, some),
        st.builds(ReleaseStep, owners, some),
        st.builds(PruneStep, bound, bound),
        st.builds(PageStep, st.integers(1, 4), st.none() | st.sampled_from(_SESSIONS)),
    ]
    return st.lists(st.one_of(kinds), max_size=max_steps)


async def compare(store: Store, history: list[Step]) -> None:
    """Raises `AssertionError` where `store`, which is open and empty, does other than the store in memory."""
    async with MemoryStore() as model:
        one, other = _Side(store), _Side(model)
        for owner in _OWNERS:
            await one.store.join(owner, 3_600_000)
            await other.store.join(owner, 3_600_000)
        for step in history:
            seen, expected = await one.take(step), await other.take(step)
            assert seen == expected, f"{step!r:.1000}: {seen!r:.1000} and not {expected!r:.1000}"
        assert await one.all() == await other.all()


class _Side:
    """One of the two, and its own fences."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._fences: list[Fence] = []

    async def take(self, step: Step) -> object:
        match step:
            case WriteStep(writes=writes, claims_ago=ago):
                return await _outcome(self._write(Batch(writes, self._fence(ago))))
            case TogetherStep(batches=batches):
                answers = [self._write(Batch(writes)) for writes in batches]
                return [await _outcome(answer) for answer in answers]
            case ClaimStep(owner=owner, session_ids=names):
                claims = sorted(await self.store.claim(owner, names), key=lambda claim: claim.row.id)
                self._fences += [claim.fence for claim in claims]
                return [_exactly(claim.row) for claim in claims]
            case ReleaseStep(owner=owner, session_ids=names):
                await self.store.release(owner, names)
                # It left, and comes back.
                await self.store.join(owner, 3_600_000)
                return None
            case PruneStep(events_before_ms=before, keep_events=keep):
                return await self.store.prune(events_before_ms=before, keep_events=keep)
            case PageStep(limit=limit, session_id=name):
                return await self._pages(limit, name)

    def _fence(self, claims_ago: int | None) -> Fence | None:
        if claims_ago is None or not self._fences:
            return None
        return self._fences[-1 - claims_ago % len(self._fences)]

    def _write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        return self.store.write(batch)

    async def _pages(self, limit: int, session_id: str | None) -> object:
        store = self.store
        by_id: list[Callable[..., Awaitable[Any]]] = [
            store.sessions,
            partial(store.cells, session_id),
            partial(store.cells, session_id, live=True),
            partial(store.approvals, session_id=session_id, state="pending"),
        ]
        seen: list[object] = []
        for read in by_id:
            after: str | None = None
            while rows := await read(after=after, limit=limit):
                seen.append([_exactly(row) for row in rows])
                after = rows[-1].id
        since = 0
        while events := await store.events(session_id=session_id, since=since, limit=limit):
            assert [row.seq for row in events] == sorted({row.seq for row in events})
            assert events[0].seq > since
            seen.append([_exactly(row) for row in events])
            since = events[-1].seq
        for table in KEYS:
            seen.append([_exactly(row) for row in await scanned(store, table, limit)])
        return seen

    async def all(self) -> object:
        store = self.store
        held: dict[str, Any] = {table: list(map(_exactly, rows)) for table, rows in (await everything(store)).items()}
        held["blobs"] = [await store.blob(name_of(data)) for data in _DATA]
        for name in _SESSIONS:
            own = (store.values, store.files, store.secrets, store.attachments, store.snapshots)
            held[name] = [list(map(_exactly, await read(name))) for read in own]
        for name in _CELLS:
            held[name] = list(map(_exactly, await store.calls(name)))
        return held


def _exactly(row: Row) -> str:
    return repr(replace(row, seq=0) if isinstance(row, EventRow) else row)


async def _outcome(answer: Awaitable[tuple[int, ...]]) -> object:
    """How many events were written, or the kind of the refusal."""
    try:
        numbers = await answer
    except CloisterError as refusal:
        return type(refusal).__name__
    assert list(numbers) == sorted(set(numbers))
    return len(numbers)
