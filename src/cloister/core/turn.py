"""A turn: one step of a conversation, from what somebody said to the answer.

What may be asked of one (`TurnParams`, `SteerParams`), what it is (`Turn`), what it may use (`TurnBudget`) and has used
(`TurnUsage`), and what became of words that came in its middle (`SteerReceipt`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from cloister.core.cell import Content
from cloister.core.content import parse_content
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import digest_json
from cloister.core.dynamic import DynamicToolSpec, check_specs
from cloister.core.errors import InvalidInput, InvalidLimits

MAX_OPERATION_KEY_BYTES = 128
LOCAL = "local"
_CEILING = 1 << 53


class Status(StrEnum):
    """Of turns and of items; `threads.turn` has the ways of a turn from one to the next."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self not in (Status.QUEUED, Status.IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class TurnBudget:
    """What a turn may use. None is for no bound of its own."""

    # Requests to the model.
    iterations: int = 50
    # Of all requests together, those in and those out.
    tokens: int | None = None
    # From the moment that it was started.
    wall_ms: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        for name in ("iterations", "tokens", "wall_ms"):
            value = getattr(self, name)
            if value is None and name != "iterations":
                continue
            if type(value) is not int or not 1 <= value < _CEILING:
                raise InvalidLimits(f"a turn's {name} must be a whole number of at least 1, not {value!r:.80}")


@dataclass(frozen=True, slots=True)
class TurnUsage:
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    # Of the input, what the provider had in its cache, and what it put there.
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    # The time that requests took.
    model_ms: int = 0
    # Millionths of a dollar, where a price is known.
    cost_micros: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "TurnUsage") -> "TurnUsage":
        names = [one.name for one in fields(self) if one.name != "extra"]
        return TurnUsage(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True)
class TurnEnvironmentParams:
    """Which workspace a turn's files and commands target. `local` is the session's own files."""

    environment_id: str = LOCAL
    cwd: str = "/"
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TurnParams:
    """What is asked of a thread. `input` is a text, or a list of parts."""

    input: Any
    model: str | None = None
    dynamic_tools: tuple[DynamicToolSpec, ...] = ()
    environment_id: str | None = None
    operation_key: str | None = None
    budget: TurnBudget = field(default_factory=TurnBudget)
    # Whether the thread may go over to another provider of models with it.
    switch_provider: bool = False
    # Whether a program may end it, and say its answer: `finish(value)`.
    accepts_finish: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "input", parse_content(self.input))
        check_specs(self.dynamic_tools)
        key = self.operation_key
        if key is not None and not 1 <= len(key.encode("utf-8", "surrogatepass")) <= MAX_OPERATION_KEY_BYTES:
            raise InvalidInput(f"operation_key must have 1 to {MAX_OPERATION_KEY_BYTES} bytes")

    def digest(self) -> str:
        """Of the content: two that ask for the same have the same, whatever their keys."""
        from cloister.core.wire import to_json

        asked = {name: part for name, part in to_json(self).items() if name != "operation_key"}
        for switch in ("switch_provider", "accepts_finish"):
            # As those who do not know of it: what they asked for before is still the same.
            if not asked[switch]:
                del asked[switch]
        return digest_json(asked)


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    thread_id: str
    # In the order of their thread, from 1.
    number: int
    status: Status
    created_at: datetime
    input: Content
    started_at: datetime | None = None
    ended_at: datetime | None = None
    model: str | None = None
    environment_id: str = LOCAL
    dynamic_tools: tuple[DynamicToolSpec, ...] = ()
    operation_key: str | None = None
    budget: TurnBudget = field(default_factory=TurnBudget)
    switch_provider: bool = False
    accepts_finish: bool = False
    usage: TurnUsage = field(default_factory=TurnUsage)
    # The cell for whose news it began by itself: then it has no input of its own.
    woken_by: str | None = None
    # Why it failed, or was interrupted.
    error: ErrorObject | None = None
    # With a value that a program gave to `finish`; `answer` is that value.
    finished: bool = False
    answer: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Receipt(StrEnum):
    """What became of words that came in the middle of a turn."""

    # They went into a request to the model.
    DELIVERED = "delivered"
    # They are in line for the next one.
    QUEUED = "queued"
    # The turn ended before.
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class SteerParams:
    """`id` is the client's own, unique in its thread: what comes again with the same one is not delivered again."""

    input: Any
    id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "input", parse_content(self.input))
        if self.id is not None:
            check_client_id(self.id)


def check_client_id(name: str) -> str:
    if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= MAX_OPERATION_KEY_BYTES:
        raise InvalidInput(f"the id of an input must have 1 to {MAX_OPERATION_KEY_BYTES} bytes")
    return name


@dataclass(frozen=True, slots=True)
class SteerReceipt:
    turn_id: str
    input_id: str
    receipt: Receipt
    # The client's own, if it gave one.
    id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
