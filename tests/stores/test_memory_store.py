"""What the store in memory does that its port does not ask for, and the rules that it shares with all others."""

import asyncio
import json
from collections.abc import Sized
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.call import CallStatus
from cloister.core.diagnostic import ErrorObject, Span
from cloister.core.errors import InvalidInput, StoreUnavailable
from cloister.ports.journal import Entry
from cloister.ports.rows import KEYS, Append, Batch, Drop, MoveHead, Put, PutBlob
from cloister.stores.json_docs import (
    MAX_DOC_BYTES,
    dumps,
    dumps_intent,
    dumps_settled,
    loads,
    loads_intent,
    loads_settled,
)
from cloister.stores.memory_data import MemoryData
from cloister.stores.memory_store import MemoryStore
from cloister.stores.rules import blobs_of, check_batch, check_key, check_row_key, key_of, table_of
from cloister.testing.stores.lab import (
    HARD,
    NOT_JSON,
    cell,
    event,
    everything,
    file,
    intent,
    one_of_each,
    put,
    session,
    settlement,
    snapshot,
    value,
    write,
)

pytestmark = pytest.mark.anyio


# -- the store ------------------------------------------------------------------------------------------------------


async def test_write_is_done_when_it_returns() -> None:
    async with MemoryStore() as store:
        answer = store.write(Batch((Append("ses_a", "x", 1),)))
        assert isinstance(answer, asyncio.Future)
        assert answer.done()
        assert await answer == (1,)
        # It may be awaited as often as one likes.
        assert await answer == (1,)


async def test_store_that_was_never_opened_is_unavailable() -> None:
    store = MemoryStore()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.session("ses_a")
    with pytest.raises(StoreUnavailable):
        await store.write(Batch(()))


async def test_store_that_is_opened_again_has_what_it_had() -> None:
    store = MemoryStore()
    async with store:
        await put(store, session())
    async with store:
        assert await store.session("ses_a") == session()


async def test_stores_with_data_of_their_own_share_nothing() -> None:
    async with MemoryStore() as one, MemoryStore() as other:
        await put(one, session())
        assert await other.session("ses_a") is None


async def test_nobody_is_left_in_line_after_waiting() -> None:
    data = MemoryData()
    async with MemoryStore(data=data) as store:
        assert await store.wait_for_events(0, 1) is False
        waiting = asyncio.ensure_future(store.wait_for_events(0, 600_000))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        waiting = asyncio.ensure_future(store.wait_for_events(0, 600_000))
        await asyncio.sleep(0)
        await write(store, Append("ses_a", "x", 1))
        assert await waiting is True
        await asyncio.sleep(0)
    assert _sizes(data)["_waits"] == 0


async def test_nothing_is_left_of_what_was_dropped() -> None:
    data = MemoryData()
    async with MemoryStore(data=data) as store:
        await put(store, *one_of_each(), event(1))
        await store.join("one", 1000)
        await store.claim("one")
        await write(store, Drop("sessions", ("ses_a",)), Drop("events", (1,)))
        await store.release("one")
        assert await everything(store) == {table: [] for table in KEYS}
    assert not any(_sizes(data).values())
    for table in KEYS:
        assert not any(_sizes(data.table(table)).values())


def _sizes(thing: object) -> dict[str, int]:
    held: dict[str, Sized] = {name: part for name, part in vars(thing).items() if isinstance(part, Sized)}
    # What can be grouped at all is no content.
    return {name: len(part) for name, part in held.items() if name != "_groupings"}


async def test_refused_batch_is_taken_back_in_the_right_order() -> None:
    async with MemoryStore() as store:
        await put(store, value(value="first"), cell())
        changes = (
            Put(value(value="second")),
            Drop("values", ("ses_a", "key")),
            Put(value(value="third")),
            Drop("cells", ("cel_a",)),
            Put(cell(session_id="ses_b")),
        )
        with pytest.raises(Exception, match="'ses_nobody'"):
            await write(store, *changes, MoveHead("ses_nobody", 0))
        assert [row.value for row in await store.values("ses_a")] == ["first"]
        assert [row.id for row in await store.cells("ses_a")] == ["cel_a"]
        assert list(await store.cells("ses_b")) == []


async def test_check_finds_a_blob_that_is_not_what_its_name_says() -> None:
    async with MemoryStore() as store:
        await write(store, PutBlob("f" * 64, b"something else"))
        assert await store.check() == [f"blob {'f' * 64} is not what its name says"]


async def test_negative_number_of_events_to_keep_is_refused() -> None:
    async with MemoryStore() as store:
        with pytest.raises(InvalidInput, match="keep_events"):
            await store.prune(keep_events=-1)


# -- docs -----------------------------------------------------------------------------------------------------------

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
async def test_json_comes_back_as_it_was(value: Any) -> None:
    text = dumps(value)
    assert repr(loads(text)) == repr(value)
    assert "\x00" not in text
    text.encode()


def test_largest_integer_that_may_cross_the_boundary_comes_back() -> None:
    for number in (2**14_000 - 1, -(2**14_000) + 1):
        assert loads(dumps([number])) == [number]


@pytest.mark.parametrize("bad", NOT_JSON, ids=lambda bad: type(bad).__name__)
def test_what_is_not_json_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput):
        dumps({"held": [bad]})


def test_value_that_holds_itself_and_one_that_is_too_deep_are_refused() -> None:
    circular: list[Any] = []
    circular.append(circular)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for bad in (circular, deep):
        with pytest.raises(InvalidInput):
            dumps(bad)


def test_doc_is_measured_in_bytes() -> None:
    assert len(dumps("x" * (MAX_DOC_BYTES - 2))) == MAX_DOC_BYTES
    for text in ("x" * (MAX_DOC_BYTES - 1), "é" * (MAX_DOC_BYTES // 2)):
        with pytest.raises(InvalidInput, match="over the bound"):
            dumps(text)


def test_any_mapping_is_a_doc() -> None:
    assert loads(dumps(MappingProxyType({"a": MappingProxyType({"b": 1})}))) == {"a": {"b": 1}}


def test_call_comes_back_as_it_was() -> None:
    for span in (None, Span(1, 2), Span(1, 2, 3, 4)):
        for hint in (None, "do this"):
            settled = settlement(status=CallStatus.ERROR, error=ErrorObject("NO", "no\x00", hint, span))
            assert loads_settled(dumps_settled(settled)) == settled
    for arguments in HARD:
        asked = intent(arguments=arguments, idempotent=False)
        assert repr(loads_intent(dumps_intent(asked))) == repr(asked)
    # Stored text is plain JSON, which others may read.
    assert json.loads(dumps_settled(settlement()))[1] == "ok"


# -- rules ----------------------------------------------------------------------------------------------------------


def test_row_is_found_by_its_keys() -> None:
    for row in [*one_of_each(), event(3)]:
        key = key_of(row)
        check_row_key(table_of(row), key)
        assert len(key) == len(KEYS[table_of(row)])
    assert key_of(Entry(intent(2))) == ("cel_a/2",)
    assert key_of(value("k", "s")) == ("s", "k")
    assert key_of(event(3)) == (3,)


def test_row_names_the_blobs_that_it_keeps() -> None:
    named = {table_of(row): blobs_of(row) for row in [*one_of_each(), event(1)]}
    assert {table for table, names in named.items() if names} == {"snapshots", "files", "attachments"}
    assert blobs_of(session(image="i")) == blobs_of(cell(image="i")) == blobs_of(snapshot(image="i")) == ("i",)
    assert blobs_of(file(blob="b")) == ("b",)


@pytest.mark.parametrize("bad", ["a\x00", "\ud800", "k" * 1025, "é" * 513, 7, None, b"k"])
def test_key_that_cannot_be_is_refused_by_its_name(bad: object) -> None:
    with pytest.raises(InvalidInput, match=r"SessionRow\.id"):
        check_batch(Batch((Put(session(bad)),)))  # type: ignore[arg-type]


def test_key_of_another_table_is_refused() -> None:
    for drop in (Drop("values", ("a",)), Drop("events", ("a",)), Drop("sessions", (1,)), Drop("cells", ("a", "b"))):
        with pytest.raises(InvalidInput):
            check_batch(Batch((drop,)))


def test_number_beyond_64_bits_is_refused() -> None:
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(InvalidInput, match="64 bits"):
            check_batch(Batch((Put(session(used_ms=number)),)))
    check_batch(Batch((Put(session(used_ms=2**63 - 1, created_ms=-(2**63))),)))


def test_entry_with_the_settlement_of_another_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not that of"):
        check_batch(Batch((Put(Entry(intent(1), replace(settlement(2)))),)))


def test_empty_key_is_a_key() -> None:
    check_key("", "a key")
