"""What people call a session and how they sort it: its title and labels, which may change while it lives."""

from collections.abc import Mapping
from dataclasses import replace

from cloister.core.errors import InvalidInput
from cloister.core.session import SessionMeta
from cloister.core.wire import to_json
from cloister.gate import Gate
from cloister.ports.rows import SessionRow
from cloister.sessions.envelope import Envelope
from cloister.sessions.events import Events
from cloister.sessions.grounds import SessionOptions
from cloister.sessions.keeper import Keeper
from cloister.sessions.portrait import Portrait

_MOST_LABELS = 64
_LONGEST = 256


class Described:
    """A part of `Session`."""

    _options: SessionOptions
    _portrait: Portrait
    _gate: Gate
    _keeper: Keeper | None
    _events: Events
    _used_ms: int

    def row(self, image: str | None) -> SessionRow:
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError

    def meta(self) -> SessionMeta:
        return self._portrait.meta(self._used_ms)

    def tell_of_itself(self, origin: Envelope | None = None, *, forked: bool = False) -> None:
        """That it is here: opened, or made of `origin`, which may be its own of before."""
        session_id = self._options.id
        if not self._events.heard(session_id):
            return
        said = {"session": to_json(self.meta())}
        if origin is None:
            self._events.emit("session.opened", session_id, said)
        elif forked:
            self._events.emit("session.forked", session_id, {**said, "forked_from": origin.session_id})
        else:
            self._events.emit("session.restored", session_id, {**said, "restored_from": origin.session_id})

    @property
    def is_kept(self) -> bool:
        """Whether it is written down."""
        return self._keeper is not None

    @property
    def title(self) -> str | None:
        return self._options.title

    @property
    def labels(self) -> Mapping[str, str]:
        return self._options.labels

    @property
    def tenant(self) -> str:
        """Whose it is, where one host serves several; "" where it serves one."""
        return self._options.tenant

    async def describe(self, *, title: str | None = None, labels: Mapping[str, str] | None = None) -> None:
        """Give it another title, or other labels in place of all that it has. What is None stays as it is. Rules of
        policies see the new labels from the next call on."""
        self._check_open()
        options = self._options
        if title is not None:
            options = replace(options, title=_short(title, "a title"))
        if labels is not None:
            options = replace(options, labels=check_labels(labels))
        self._options = options
        self._portrait = replace(self._portrait, options=options)
        self._gate.relabel(options.labels)
        if self._keeper is not None:
            await self._keeper.session(self.row(self._keeper.image))


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Raises `InvalidInput`."""
    if len(labels) > _MOST_LABELS:
        raise InvalidInput(f"a session has at most {_MOST_LABELS} labels, not {len(labels)}")
    return {_short(name, "the name of a label"): _short(value, "a label") for name, value in labels.items()}


def _short(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is text, not {type(text).__name__}")
    if len(text) > _LONGEST:
        raise InvalidInput(f"{what} has at most {_LONGEST} characters, not {len(text)}")
    return text
