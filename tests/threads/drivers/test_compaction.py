"""A conversation is summarised by its own model: asked for, or when it has become too long."""

from pathlib import Path

import pytest

from cloister.core.errors import ContextExceeded, InvalidInput
from cloister.core.item import ContextCompaction
from cloister.core.turn import Status
from cloister.ports.model import Asked
from tests.threads.drivers.lab import Heard, host, scripted, talk

pytestmark = pytest.mark.anyio

TALK = """
answers:
  - exec: "'alpha'"
  - text: First.
  - text: Second.
  - expect: alpha
    text: They began with alpha.
    usage: {input_tokens: 7}
  - text: Third.
"""


async def test_model_summarises_all_but_the_last_turns_and_goes_on_with_that(tmp_path: Path) -> None:
    model = scripted(TALK)
    async with host(tmp_path / "a.db", model) as cloister:
        threads = cloister.threads
        turn, _ = await talk(threads, "one")
        thread = (await threads.get(turn.thread_id)).thread
        await talk(threads, "two", thread=thread)
        before = (await threads.get(thread.id)).items
        made = await threads.compact(thread.id, keep_last=1)
        assert isinstance(made.detail, ContextCompaction)
        assert made.detail.summary == "They began with alpha."
        assert (made.detail.extra["model"], made.detail.extra["usage"]["input_tokens"]) == ("demo", 7)
        turn, _ = await talk(threads, "three", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error
        told = model.told()
        assert "They began with alpha." in told
        assert "two" in told
        assert "'alpha'" not in told
        # The log stays whole.
        assert (await threads.get(thread.id)).items[: len(before)] == before
        with pytest.raises(InvalidInput, match="nothing"):
            await threads.compact(thread.id, keep_last=2)
        with pytest.raises(InvalidInput, match="keep_last"):
            await threads.compact(thread.id, through_item_id=before[0].id, keep_last=1)


class Narrow(Heard):
    """It takes so many messages and no more."""

    most = 5

    def request(self, asked: Asked):
        if len(asked.messages) > self.most:
            raise ContextExceeded("too long", provider="scripted", model="demo")
        return super().request(asked)


async def test_conversation_that_became_too_long_is_summarised_once_and_the_turn_goes_on(tmp_path: Path) -> None:
    model = Narrow(scripted(TALK).model)
    async with host(tmp_path / "a.db", model) as cloister:
        threads = cloister.threads
        turn, _ = await talk(threads, "one")
        thread = (await threads.get(turn.thread_id)).thread
        await talk(threads, "two", thread=thread)
        turn, items = await talk(threads, "three", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error
        assert [item.detail.summary for item in items if isinstance(item.detail, ContextCompaction)] == [
            "They began with alpha."
        ]
        # The summary is a request of that turn.
        assert (turn.usage.requests, turn.usage.input_tokens) == (2, 7)
        model.most = 0
        turn, _ = await talk(threads, "four", thread=thread)
        assert turn.error is not None
        assert turn.error.code == "context_exceeded"
