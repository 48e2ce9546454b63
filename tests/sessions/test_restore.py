"""A snapshot is taken only by what it belongs to: its session, its installation, its engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloister import Cloister, SessionClosed, SnapshotForeign, SnapshotVersionMismatch
from cloister.core.language import Language
from cloister.sessions.envelope import Envelope, seal, unseal

pytestmark = pytest.mark.anyio

KEY = b"k" * 32


@pytest.fixture
async def cloister() -> AsyncIterator[Cloister]:
    async with Cloister(snapshot_key=KEY) as entered:
        yield entered


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_session_goes_back_to_its_own_snapshot(cloister: Cloister, language: str) -> None:
    session = await cloister.open_session(language=language)
    await session.run("x = 1" if language == "python" else "var x = 1")
    blob = await session.snapshot()
    await session.run("x = 2")
    await session.restore(blob)
    assert (await session.run("x")).result == 1


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_snapshot_of_another_session_is_refused_and_nothing_changes(cloister: Cloister, language: str) -> None:
    mine = await cloister.open_session("mine", language=language)
    other = await cloister.open_session("other", language=language)
    await mine.run("x = 1" if language == "python" else "var x = 1")
    with pytest.raises(SnapshotForeign, match="'other'"):
        await mine.restore(await other.snapshot())
    assert (await mine.run("x")).result == 1


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_snapshot_made_with_another_key_is_refused(cloister: Cloister, language: str) -> None:
    session = await cloister.open_session(language=language)
    blob = await session.snapshot()
    async with Cloister(snapshot_key=b"z" * 32) as elsewhere:
        assert not elsewhere.can_restore(blob)
        with pytest.raises(SnapshotForeign, match="another key"):
            await elsewhere.restore_session(blob)


@pytest.mark.parametrize("language", list(Language))
async def test_snapshot_of_another_release_of_the_engine_is_refused(cloister: Cloister, language: Language) -> None:
    session = await cloister.open_session(language=language)
    real = unseal(await session.snapshot(), KEY)
    older = Envelope(
        session_id=real.session_id,
        language=real.language,
        engine=real.engine,
        engine_version="an older release",
        limits=real.limits,
        capabilities=real.capabilities,
        created_at=real.created_at,
        state=real.state,
        seed=real.seed,
    )
    blob = seal(older, KEY)
    assert not cloister.can_restore(blob)
    with pytest.raises(SnapshotVersionMismatch, match="an older release"):
        await session.restore(blob)
    with pytest.raises(SnapshotVersionMismatch):
        await cloister.restore_session(blob, session_id="copy")


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_every_error_of_a_run_says_what_to_do(cloister: Cloister, language: str) -> None:
    session = await cloister.open_session(language=language)
    for code in (
        "nowhere",
        "1 +",
        "(((",
        "'x'.nope()",
        "throw 1" if language == "typescript" else "raise KeyError('k')",
    ):
        result = await session.run(code)
        assert result.error is not None
        assert result.error.hint, result.error


async def test_session_that_goes_back_has_the_values_of_then_and_no_others(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/s.db"
    async with Cloister(store=store, snapshot_key=KEY) as cloister:
        session = await cloister.open_session("s")
        await session.values.set("stays", 1)
        await session.values.set("goes", "then")
        blob = await session.snapshot()
        await session.values.delete("goes")
        await session.values.set("stays", 2)
        await session.run("store('came', 3)")
        await session.restore(blob)
        assert await session.values.all() == {"stays": 1, "goes": "then"}
        assert (await session.run("[load('stays'), load('goes'), load('came')]")).result == [1, "then", None]
        assert [info.key for info in await session.values.list()] == ["goes", "stays"]
    async with Cloister(store=store, snapshot_key=KEY) as again:
        assert await (await again.open_session("s")).values.all() == {"stays": 1, "goes": "then"}


async def test_values_that_are_given_up_do_not_count_against_the_bounds(cloister: Cloister) -> None:
    session = await cloister.open_session()
    blob = await session.snapshot()
    for _ in range(4):
        # Four times as much as there is room for, were it not given up in between.
        for number in range(60):
            await session.values.set(f"big.{number}", "x" * 250_000)
        await session.restore(blob)
    assert await session.values.all() == {}


async def test_closed_session_changes_no_values(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/s.db"
    async with Cloister(store=store, snapshot_key=KEY) as cloister, Cloister(store=store, snapshot_key=KEY) as other:
        stale = await cloister.open_session("s")
        await stale.values.set("key", 1)
        await stale.close()
        session = await other.open_session("s", wait_ms=30_000)
        await session.values.set("key", 2)
        for change in (
            lambda: stale.values.set("key", 3),
            lambda: stale.values.delete("key"),
            lambda: stale.values.replace({"other": 3}),
        ):
            with pytest.raises(SessionClosed, match="closed"):
                await change()
        assert await session.values.all() == {"key": 2}
    async with Cloister(store=store, snapshot_key=KEY) as again:
        assert await (await again.open_session("s")).values.all() == {"key": 2}
