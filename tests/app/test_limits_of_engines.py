"""What no worker can give is refused when the session is opened, not in the middle of its first run."""

import pytest

from cloister import Cloister, InvalidLimits, SessionLimits

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("language", "limits"),
    [
        ("python", SessionLimits(memory_mb=100_000)),
        ("typescript", SessionLimits(memory_mb=100_000)),
        ("typescript", SessionLimits(max_stack_depth=100_000)),
    ],
)
async def test_session_is_not_opened_with_more_than_a_worker_can_give(language: str, limits: SessionLimits) -> None:
    async with Cloister() as cloister:
        with pytest.raises(InvalidLimits, match="at most"):
            await cloister.open_session(language=language, limits=limits)
        assert await cloister.list_sessions() == []
