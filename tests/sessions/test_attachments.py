"""`session.attachments`: bytes under the digest of what they are, for those who refer to them and nobody else."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import AttachmentNotFound, Cloister, InvalidInput, QuotaExceeded, Session, SessionClosed, StoreUnusable
from cloister.ports.clock import SystemClock
from cloister.sessions.attachments import AttachmentBounds, Attachments
from cloister.sessions.envelope import unseal
from cloister.stores.memory_data import MemoryData
from cloister.stores.memory_store import MemoryStore
from cloister.stores.sqlite import SqliteStore
from tests.stores.sqlite_lab import HandClock, sql

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
ID = hashlib.sha3_256(PNG).hexdigest()


def host(path: Path, **options: Any) -> Cloister:
    given: dict[str, Any] = {"workers": 1, "store": f"sqlite://{path}"}
    return Cloister(**(given | options))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=["memory", "sqlite", "memory store"])
async def cloister(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[Cloister]:
    stores: dict[str, Any] = {"memory": "memory:", "memory store": MemoryStore(SystemClock(), MemoryData())}
    options = {"store": stores[request.param]} if request.param in stores else {}
    async with host(path, **options) as made:
        yield made


@pytest.fixture
async def session(cloister: Cloister) -> Session:
    return await cloister.open_session("s")


async def blobs(path: Path) -> int:
    """How many are left once what nobody refers to was collected, a day later."""
    clock = HandClock()
    clock.at_ms = SystemClock().now_ms() + 86_400_000
    async with SqliteStore(path, clock=clock) as store:
        await store.collect()
    return sql(path, "SELECT count(*) FROM blobs")[0][0]


async def test_attachment_is_read_as_it_was_added(session: Session) -> None:
    info = await session.attachments.add(PNG, "image/PNG", name="a picture.png")
    assert (info.id, info.media_type, info.size_bytes, info.name) == (ID, "image/png", len(PNG), "a picture.png")
    assert await session.attachments.get(ID) == PNG
    assert await session.attachments.stat(ID) == info
    assert await session.attachments.list() == [info]


async def test_empty_attachment_is_one(session: Session) -> None:
    info = await session.attachments.add(b"", "text/plain")
    assert (await session.attachments.get(info.id), info.size_bytes, info.name) == (b"", 0, None)


async def test_what_is_added_again_is_the_same_with_its_last_name(session: Session) -> None:
    first = await session.attachments.add(PNG, "image/png", name="a")
    second = await session.attachments.add(bytearray(PNG), "image/x-png")
    assert (second.id, second.created_at) == (first.id, first.created_at)
    assert [(info.media_type, info.name) for info in await session.attachments.list()] == [("image/x-png", None)]


async def test_what_was_deleted_is_not_there(session: Session) -> None:
    await session.attachments.add(PNG, "image/png")
    assert await session.attachments.delete(ID)
    assert not await session.attachments.delete(ID)
    with pytest.raises(AttachmentNotFound):
        await session.attachments.get(ID)
    assert await session.attachments.list() == []


async def test_session_cannot_read_what_another_refers_to(cloister: Cloister, session: Session) -> None:
    other = await cloister.open_session("other")
    await other.attachments.add(PNG, "image/png")
    for read in (session.attachments.get, session.attachments.stat):
        with pytest.raises(AttachmentNotFound) as refusal:
            await read(ID)
    unknown = "0" * 64
    with pytest.raises(AttachmentNotFound) as other_refusal:
        await session.attachments.get(unknown)
    # Nor can it find out that there is one.
    assert refusal.value.message.replace(ID, unknown) == other_refusal.value.message
    assert not await session.attachments.delete(ID)
    assert await other.attachments.get(ID) == PNG


@pytest.mark.parametrize("bad", ["", "x", ID.upper(), f"{ID}\n", "../" + ID, None, 5, b"bytes"])
async def test_id_that_is_none_is_not_found(session: Session, bad: Any) -> None:
    await session.attachments.add(PNG, "image/png")
    with pytest.raises(AttachmentNotFound):
        await session.attachments.get(bad)


@pytest.mark.parametrize(
    "media_type",
    [
        "a" * 128 + "/b",
        ".a/b",
        "*/*",
        "",
        "image",
        "image/",
        "/png",
        "image/png/x",
        "image png",
        "image/png; q=1",
        "image/png\n",
        "ímage/png",
        None,
        5,
    ],
)
async def test_what_is_no_media_type_is_refused(session: Session, media_type: Any) -> None:
    with pytest.raises(InvalidInput, match="media type"):
        await session.attachments.add(PNG, media_type)
    assert await session.attachments.list() == []


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a\\b", "a\0b", "a\nb", "\u202eexe.png", "x" * 256, "\ud800", 5])
async def test_what_is_no_name_is_refused(session: Session, name: Any) -> None:
    with pytest.raises(InvalidInput, match="name of an attachment"):
        await session.attachments.add(PNG, "image/png", name=name)


@pytest.mark.parametrize("data", ["text", None, 5, [1]])
async def test_what_is_not_bytes_is_refused(session: Session, data: Any) -> None:
    with pytest.raises(InvalidInput, match="is bytes"):
        await session.attachments.add(data, "image/png")


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}", fullmatch=True))
async def test_every_media_type_of_the_registry_s_form_is_taken(media_type: str) -> None:
    made = Attachments("s", SystemClock())
    assert (await made.add(b"x", media_type)).media_type == media_type.lower()


async def test_bounds_hold_and_what_is_refused_changes_nothing() -> None:
    made = Attachments("s", SystemClock(), bounds=AttachmentBounds(max_bytes=8, max_total_bytes=12, max_count=3))
    with pytest.raises(QuotaExceeded, match="at most 8 bytes"):
        await made.add(b"123456789", "text/plain")
    first = await made.add(b"12345678", "text/plain")
    with pytest.raises(QuotaExceeded, match="at most 12 bytes together"):
        await made.add(b"abcdefgh", "text/plain")
    await made.add(b"a", "text/plain")
    await made.add(b"b", "text/plain")
    with pytest.raises(QuotaExceeded, match="at most 3 attachments"):
        await made.add(b"c", "text/plain")
    # What is there already takes no more room.
    await made.add(b"a", "text/html")
    assert len(await made.list()) == 3
    await made.delete(first.id)
    await made.add(b"abcdefgh", "text/plain")


# -- kept ------------------------------------------------------------------------------------------------------------


async def test_attachments_are_there_when_a_session_is_opened_again(path: Path) -> None:
    async with host(path) as cloister:
        info = await (await cloister.open_session("s")).attachments.add(PNG, "image/png", name="a.png")
    async with host(path) as cloister:
        session = await cloister.open_session("s")
        assert await session.attachments.list() == [info]
        assert await session.attachments.get(ID) == PNG


async def test_one_content_is_in_the_store_once_and_goes_with_its_last_reference(path: Path) -> None:
    async with host(path) as cloister:
        one, two = [await cloister.open_session(name) for name in ("one", "two")]
        for session in (one, two):
            await session.attachments.add(PNG, "image/png")
    assert await blobs(path) == 1
    async with host(path) as cloister:
        await cloister.open_session("one")
        await cloister.destroy_session("one")
        assert await (await cloister.open_session("two")).attachments.get(ID) == PNG
    assert await blobs(path) == 1
    async with host(path) as cloister:
        await (await cloister.open_session("two")).attachments.delete(ID)
    assert await blobs(path) == 0


async def test_fork_refers_to_what_the_original_did(cloister: Cloister, session: Session) -> None:
    await session.attachments.add(PNG, "image/png", name="a.png")
    fork = await session.fork(session_id="fork")
    await session.attachments.delete(ID)
    assert await fork.attachments.get(ID) == PNG
    assert [info.name for info in await fork.attachments.list()] == ["a.png"]
    await fork.attachments.delete(ID)
    assert await session.attachments.list() == []


async def test_fork_keeps_alive_what_the_original_refers_to_no_more(path: Path) -> None:
    async with host(path) as cloister:
        session = await cloister.open_session("s")
        await session.attachments.add(PNG, "image/png")
    async with host(path) as cloister:
        session = await cloister.open_session("s")
        cell = await session.exec("1")
        await session.fork(cell.cell_id, session_id="fork")
        await cloister.destroy_session("s")
    assert await blobs(path) >= 1
    async with host(path) as cloister:
        assert await (await cloister.open_session("fork")).attachments.get(ID) == PNG


async def test_snapshot_says_that_it_has_no_attachments(cloister: Cloister) -> None:
    session = await cloister.open_session("s")
    await session.attachments.add(PNG, "image/png")
    result = await session.run("1", return_snapshot=True)
    ring = await getattr(cloister, "_keys").ring()  # noqa: B009 - nobody but a test looks into it
    for snapshot in (result.snapshot or b"", await session.snapshot()):
        assert unseal(snapshot, ring).left_out == (f"attachment {ID}",)
        assert PNG not in snapshot


async def test_session_that_was_closed_takes_no_attachments(path: Path) -> None:
    async with host(path) as cloister:
        session = await cloister.open_session("s")
        await session.close()
        with pytest.raises(SessionClosed):
            await session.attachments.add(PNG, "image/png")
    assert await blobs(path) == 0


async def test_attachment_that_was_changed_in_the_store_is_not_given_out(path: Path) -> None:
    async with host(path) as cloister:
        session = await cloister.open_session("s")
        await session.attachments.add(PNG, "image/png")
    sql(path, "UPDATE contents SET data = x'00'")
    async with host(path) as cloister:
        session = await cloister.open_session("s")
        with pytest.raises(StoreUnusable):
            await session.attachments.get(ID)
