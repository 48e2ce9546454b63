"""A thread: a conversation, with the session that its programs live in.

What may be asked for (`ThreadParams`), what may be changed (`parse_patch`), what it is (`Thread`), and all of it at one
moment (`ThreadDetail`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from cloister.core.approval import Approval
from cloister.core.dynamic import DynamicToolCallParams, DynamicToolSpec, check_specs
from cloister.core.errors import InvalidInput
from cloister.core.ids import check_session_id
from cloister.core.item import Item
from cloister.core.language import Language
from cloister.core.turn import Turn, TurnEnvironmentParams
from cloister.core.value import Bounds, ValueRefused, plain

MAX_TITLE = 500
MAX_LABELS = 64
MAX_LABEL = 256
MAX_PROMPT_BYTES = 1 << 20
MAX_METADATA_BYTES = 64 << 10
_METADATA = Bounds(depth=32, size=4 * MAX_METADATA_BYTES)
_CHANGEABLE = ("title", "labels", "metadata", "archived", "model", "system_prompt", "wake")


class DriverKind(StrEnum):
    """How a model's answer becomes work: it writes programs, or each tool is a plain call."""

    CODE = "code"
    NATIVE = "native"


class Wake(StrEnum):
    """What the end of a background cell does, or a question of its, while no turn is in progress."""

    # It is told with the next turn.
    NOTIFY = "notify"
    # It begins a turn by itself.
    TURN = "turn"


def check_title(title: object) -> str | None:
    if title is not None and (not isinstance(title, str) or len(title) > MAX_TITLE or "\x00" in title):
        raise InvalidInput(f"title must be a text of up to {MAX_TITLE} characters without NUL, or null")
    return title


def check_labels(labels: object) -> Mapping[str, str]:
    if not isinstance(labels, Mapping):
        raise InvalidInput(f"labels are an object of texts, not {type(labels).__name__}")
    given = cast("Mapping[object, object]", labels)
    if len(given) > MAX_LABELS:
        raise InvalidInput(f"there are {len(given)} labels; there may be {MAX_LABELS}")
    for name, value in given.items():
        if (
            not isinstance(name, str)
            or not isinstance(value, str)
            or not name
            or max(len(name), len(value)) > MAX_LABEL
        ):
            raise InvalidInput(f"the label {name!r:.80} must be a text of up to {MAX_LABEL} characters, and named")
        if not (name + value).isprintable():
            raise InvalidInput(f"the label {name!r:.80} has characters in it that cannot be printed")
    return cast("Mapping[str, str]", given)


def check_metadata(metadata: object) -> Mapping[str, Any]:
    import json

    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata is an object, not {type(metadata).__name__}")
    try:
        plain(cast("Any", metadata), _METADATA)
    except ValueRefused as refusal:
        raise InvalidInput(f"metadata: {refusal.message}", hint=refusal.hint) from None
    size = len(json.dumps(dict(cast("Mapping[str, Any]", metadata))))
    if size > MAX_METADATA_BYTES:
        raise InvalidInput(f"metadata has {size} bytes; there may be {MAX_METADATA_BYTES}")
    return cast("Mapping[str, Any]", metadata)


def check_prompt(text: object) -> str | None:
    if text is not None and (not isinstance(text, str) or len(text.encode("utf-8", "replace")) > MAX_PROMPT_BYTES):
        raise InvalidInput(f"system_prompt must be a text of up to {MAX_PROMPT_BYTES} bytes, or null")
    return text


@dataclass(frozen=True, slots=True)
class ThreadParams:
    """What is asked for when a thread is made. Without `session_id` it gets a session of its own, in `language`; with
    one, that session must speak it."""

    title: str | None = None
    session_id: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    driver: DriverKind = DriverKind.CODE
    # None: Python, or whatever the session speaks.
    language: Language | None = None
    wake: Wake = Wake.NOTIFY
    dynamic_tools: tuple[DynamicToolSpec, ...] = ()
    environments: tuple[TurnEnvironmentParams, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        check_title(self.title)
        check_prompt(self.system_prompt)
        check_labels(self.labels)
        check_metadata(self.metadata)
        check_specs(self.dynamic_tools)
        if self.session_id is not None:
            check_session_id(self.session_id)
        seen: set[str] = set()
        for environment in self.environments:
            if environment.environment_id in seen:
                raise InvalidInput(f"environments has {environment.environment_id!r} twice")
            seen.add(environment.environment_id)


def parse_patch(patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """What may be changed of a thread, checked; null takes a title, a model or a prompt away."""
    unknown = sorted(patch.keys() - set(_CHANGEABLE))
    if unknown:
        raise InvalidInput(
            f"of a thread, {', '.join(map(repr, unknown)):.200} cannot be changed: only {', '.join(_CHANGEABLE)}"
        )
    checks = {"title": check_title, "labels": check_labels, "metadata": check_metadata, "system_prompt": check_prompt}
    for name, value in patch.items():
        if name in checks:
            checks[name](value)
        elif name == "archived" and not isinstance(value, bool):
            raise InvalidInput("archived must be true or false")
        elif name == "model" and value is not None and not isinstance(value, str):
            raise InvalidInput("model must be a text, or null")
        elif name == "wake" and value not in list(Wake):
            raise InvalidInput(f"wake must be one of {', '.join(Wake)}, not {value!r:.80}")
    return dict(patch)


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    thread_id: str
    # The last turn that it has in common with that thread; None for none.
    turn_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Thread:
    id: str
    session_id: str
    created_at: datetime
    updated_at: datetime
    title: str | None = None
    tenant: str = ""
    driver: DriverKind = DriverKind.CODE
    wake: Wake = Wake.NOTIFY
    model: str | None = None
    # Who serves the model: a thread does not change it in silence.
    provider: str | None = None
    system_prompt: str | None = None
    dynamic_tools: tuple[DynamicToolSpec, ...] = ()
    environments: tuple[TurnEnvironmentParams, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    archived: bool = False
    forked_from: ForkedFrom | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ThreadDetail:
    """All of a thread at one moment: who replays its events from `latest_seq` on misses nothing."""

    thread: Thread
    turns: tuple[Turn, ...] = ()
    items: tuple[Item, ...] = ()
    latest_seq: int = 0
    pending_approvals: tuple[Approval, ...] = ()
    pending_tool_calls: tuple[DynamicToolCallParams, ...] = ()
