"""The runtime of one language: requests and results as data."""

import pytest

from cloister import Cloister, InvalidLanguage, RunRequest, RunStatus, SessionExists, SessionLimits, SessionNotFound
from cloister.core.language import Language

pytestmark = pytest.mark.anyio


async def test_request_runs_in_the_session_it_names() -> None:
    async with Cloister() as cloister:
        runtime = cloister.runtime("python")
        await runtime.create_session("a", limits=SessionLimits(wall_ms=4000))
        await runtime.run(RunRequest("x = k", "a", inputs={"k": 5}))
        assert (await runtime.run(RunRequest("x", "a"))).result == 5
        assert [(meta.id, meta.limits.wall_ms) for meta in await runtime.list_sessions()] == [("a", 4000)]


async def test_session_that_is_not_open_is_opened() -> None:
    async with Cloister() as cloister:
        runtime = cloister.runtime("python")
        assert (await runtime.run(RunRequest("1"))).result == 1
        assert [meta.id for meta in await runtime.list_sessions()] == ["default"]


async def test_session_that_is_open_cannot_be_created_again() -> None:
    async with Cloister() as cloister:
        runtime = cloister.runtime("python")
        await runtime.create_session("a")
        with pytest.raises(SessionExists):
            await runtime.create_session("a")


async def test_request_in_another_language_is_refused() -> None:
    async with Cloister() as cloister:
        with pytest.raises(InvalidLanguage):
            await cloister.runtime("python").run(RunRequest("1", language=Language.TYPESCRIPT))
        assert await cloister.list_sessions() == []


async def test_request_s_limits_and_wishes_are_kept_to() -> None:
    async with Cloister() as cloister:
        runtime = cloister.runtime("python")
        stopped = await runtime.run(RunRequest("while True:\n    pass", limits={"cpu_ms": 20}))
        assert stopped.status is RunStatus.TIMEOUT
        checked = await runtime.run(RunRequest("x = 1", validate_only=True))
        assert checked.ok
        kept = await runtime.run(RunRequest("x = 2", return_snapshot=True))
        assert kept.snapshot is not None


async def test_session_is_snapshotted_restored_and_destroyed_by_its_id() -> None:
    async with Cloister() as cloister:
        runtime = cloister.runtime("python")
        await runtime.run(RunRequest("x = 1", "a"))
        blob = await runtime.snapshot_session("a")
        assert runtime.can_restore_snapshot(blob)
        assert not runtime.can_restore_snapshot(blob[:-1])
        assert (await runtime.restore_session(blob, session_id="b")).id == "b"
        assert (await runtime.run(RunRequest("x", "b"))).result == 1
        assert await runtime.destroy_session("a") is True
        assert await runtime.destroy_session("a") is False
        with pytest.raises(SessionNotFound):
            await runtime.snapshot_session("a")
