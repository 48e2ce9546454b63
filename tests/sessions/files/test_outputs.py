"""Outputs too large to tell, and programs that put something else where they are saved."""

import pytest

from cloister import Cloister, Completed
from tests.sessions.files.programs import ask, through_load

pytestmark = pytest.mark.anyio
LOUD = "text('x' * 60_000)"


@pytest.mark.parametrize(
    "obstacle",
    [
        ask("write", "/outputs", "a file", "text", "w"),
        ask("write", "/outputs/x", "a file", "text", "w"),
    ],
    ids=["a file in the way", "a file beside"],
)
async def test_output_that_cannot_be_saved_is_told_all_the_same(
    cloister: Cloister, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    through_load(monkeypatch.setattr)
    session = await cloister.open_session("loud")
    seen = await session.exec(f"{obstacle}\n{LOUD}", max_output_tokens=100)
    assert isinstance(seen, Completed)
    if "/outputs/x" in obstacle:
        assert seen.saved_output is not None
        assert len(await session.files.read(seen.saved_output)) >= 60_000
    else:
        assert seen.saved_output is None
        assert await session.files.read_text("/outputs") == "a file"
