"""What a server answers that has no type in the core: pages, files with their bytes, what became of a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from cloister.core.approval import Approval
from cloister.core.thread import Thread
from cloister.core.turn import Turn

T = TypeVar("T")


def _extra() -> Any:
    return field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of them. `next_after` is the `after` of those that come next, None where there are no more."""

    items: tuple[T, ...]
    next_after: str | None = None


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    service: str
    runtime_api_version: str
    version: str
    bind_host: str
    port: int
    auth_required: bool
    transports: tuple[str, ...]
    # `threads`, `turns`, `turn_steer`, …: true where it works.
    capabilities: Mapping[str, bool]
    experimental: Mapping[str, Any]
    languages: tuple[str, ...]
    confinement: Mapping[str, str]
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class Catalog:
    """What programs of a session may call; `stubs` and `preamble` are for the prompt of whoever writes them."""

    tools: tuple[Mapping[str, Any], ...]
    sources: tuple[Mapping[str, Any], ...]
    stubs: str
    preamble: str
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`hash` is what `if_match` takes."""

    path: str
    data: bytes
    hash: str
    read_only: bool
    modified_at: datetime

    @property
    def text(self) -> str:
        return self.data.decode()


@dataclass(frozen=True, slots=True)
class FileAt:
    """A file that was written."""

    path: str
    hash: str | None = None
    size_bytes: int | None = None
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class Attachment:
    id: str
    media_type: str
    created_at: datetime
    data: bytes
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a decision: `executed`, `denied`, `expired`, `already_decided`; and of one among many also
    `not_found` and `refused`, with the `error`."""

    id: str
    outcome: str
    approval: Approval | None = None
    error: Mapping[str, str] | None = None
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn that was asked for. `again`: its `operation_key` was known, and this is what was begun before."""

    thread: Thread
    turn: Turn
    again: bool = False
