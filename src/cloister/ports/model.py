"""The model port: a request goes out, pieces come back, and the last of them is the whole answer.

What a caller may rely on:
- `request` is an async context manager. Inside, the pieces come in order: any number of deltas and `Retrying`s, then
  exactly one `Answer`, then nothing. A model that does not stream gives the answer alone. The answer has all that the
  deltas had, so whoever only wants the answer may skip them (`answered`).
- Leaving the block, or cancelling it, closes the connection: nothing of that request goes on.
- A model holds no conversation. Everything it is to know is in `Asked`; the same may be asked again after a crash.
- A request that failed is sent again at most before the first piece of an answer was handed out, and each time
  `Retrying` says so. After that an error is an error: a second answer would not be the one that was seen.
- Answers are hostile. Sizes, counts and depths are bounded by `AnswerLimits` while they come; texts are Unicode that
  can be written down; ids and names of calls are not empty and no two calls share an id. Arguments are the model's text
  and are *not* known to be JSON, or to fit any schema.
- Errors are those of `ModelError` in `core.errors`, each with its code. No key or header is in a text of theirs, and
  what a provider says about a failure is cut and scrubbed.
- What a model cannot do (`capabilities`) is refused with `InvalidInput` before anything is sent, never left out.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from cloister.core.answer import Answer, Piece
from cloister.core.errors import AnswerInvalid
from cloister.core.message import Message
from cloister.core.offer import OfferedTool

Effort: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    tools: bool = True
    freeform_tools: bool = False
    # In what users say; `images_in_results`: in the results of tools too.
    images: bool = True
    images_in_results: bool = True
    # It may think before it speaks, and is handed its reasoning back.
    reasoning: bool = True
    # Pieces come before the whole.
    streaming: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything that a model is told for one answer."""

    messages: tuple[Message, ...]
    # What holds for the whole conversation.
    instructions: str = ""
    tools: tuple[OfferedTool, ...] = ()
    # Whether it may, may not, or has to call something.
    tool_choice: Literal["auto", "none", "required"] = "auto"
    # None: as the model's configuration says, or the provider's default.
    max_output_tokens: int | None = None
    # Wishes: they are left out where a model has no such thing.
    temperature: float | None = None
    effort: Effort | None = None
    # How many answers the conversation has had that are not in `messages` any more, because it was compacted.
    answers_before: int = 0


class Model(Protocol):
    @property
    def provider(self) -> str:
        """Whose opaque data it understands: `anthropic`, `openai`, …; what a thread remembers of it."""
        ...

    @property
    def name(self) -> str:
        """How it was asked for: `anthropic:claude-…`, `scripted:demo.yaml`, or a name of the configuration."""
        ...

    @property
    def capabilities(self) -> ModelCapabilities: ...

    def request(self, asked: Asked) -> AbstractAsyncContextManager[AsyncIterator[Piece]]: ...


class Models(Protocol):
    """Where models come from, by name. Open as long as its models are used."""

    def get(self, name: str) -> Model:
        """Raises `InvalidInput` for a name that cannot be one, `ProviderUnconfigured` and `ProviderUnavailable`."""
        ...


async def answered(model: Model, asked: Asked) -> Answer:
    """The answer alone."""
    answer: Answer | None = None
    async with model.request(asked) as pieces:
        async for piece in pieces:
            if isinstance(piece, Answer):
                answer = piece
    if answer is None:
        raise AnswerInvalid(f"{model.name} ended without an answer", provider=model.provider, model=model.name)
    return answer
