"""The tool source port: where tools come from that are not Python functions of this process.

A source tells cheaply which tools there are (`manifests`) and what one of them looks like when somebody wants to know
(`contract`). It is opened as an async context manager, belongs to one event loop, and may be shared by sessions.

What a caller may rely on:
- `manifests` are complete, in a stable order, without two of one name; `revision` changes whenever they or a contract
  do, and whoever subscribed is told then, on the event loop.
- Names can be written in programs: a source renames what cannot, and remembers how its own side calls it.
- `call` is given arguments that fit the contract; what it returns is JSON and is held to the contract by the gate.
- A source whose other side is gone keeps its manifests. Its calls raise `SourceFailed` until it has come back.
- Cancelling `call` cancels the work on the other side, as far as that can be.
- Nothing that the other side says is trusted: schemas are bounded, texts are bounded, frames are bounded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cloister.core.capability import Capability
from cloister.core.value import Json


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is known of a tool before its contract is asked for."""

    name: str
    namespace: str | None = None
    description: str = ""
    # For finding it; empty where only the contract knows.
    parameters: tuple[str, ...] = ()
    # Left out of prompts until somebody looks for it.
    defer_loading: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class SourceCall:
    """What a source may know about the call that it answers."""

    session_id: str
    cell_id: str
    call_id: str
    idempotency_key: str
    # Before the gate gives up on it.
    remaining_ms: float
    progress: Callable[[str, float | None], None]


class SourceFailed(Exception):
    """The call failed, and the program may be told `message`. With `gone` nothing of the source can be had now."""

    def __init__(self, message: str, *, hint: str | None = None, gone: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.gone = gone


class ToolSource(Protocol):
    @property
    def name(self) -> str:
        """What people call it: in errors, events and lists."""
        ...

    @property
    def revision(self) -> str: ...

    async def __aenter__(self) -> "ToolSource":
        """Raises `SourceFailed` when it cannot be reached and nothing is known of it."""
        ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def manifests(self) -> Sequence[Manifest]: ...

    async def contract(self, full_name: str) -> Capability:
        """Everything the gate must know of it. Raises `SourceFailed` for one that is not there (any more)."""
        ...

    async def call(self, full_name: str, arguments: Json, about: SourceCall) -> Json:
        """By name if the contract's input schema is an object, in order if it is an array. Raises `SourceFailed`."""
        ...

    async def refresh(self) -> None:
        """Ask the other side anew what there is."""
        ...

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Be told when the revision has changed; what is returned ends that."""
        ...
