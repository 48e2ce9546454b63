"""What a plugin is: a name, and what it contributes to a session that it is attached to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.value import Json
from cloister.sessions.prompt.parts import PromptPart
from cloister.sessions.values import Values


@dataclass(slots=True)
class PluginContext:
    """What a plugin may know of a session. `state` is what `save` gave when the session was last written down; None if
    it never did."""

    session_id: str
    language: Language
    labels: Mapping[str, str]
    state: Json = None
    _values: Values | None = field(default=None, repr=False)

    @property
    def values(self) -> Values:
        """What the session's programs store. Not before the session is open, so not within `attach`."""
        if self._values is None:
            raise InvalidInput("the values of a session can be had once it is open, and not within attach()")
        return self._values

    def bind(self, values: Values) -> None:
        """For the session: it is open."""
        self._values = values


@dataclass(frozen=True, slots=True)
class Contribution:
    """`tools` as for `Cloister(tools=...)`, best made once and shared by all sessions; `hooks` come after the host's;
    `save` gives what the plugin wants to be told in `PluginContext.state` where the session goes on: JSON, at most
    64 KiB. `close` is called when the session is closed."""

    tools: Sequence[object] = ()
    sources: Sequence[object] = ()
    prompt: Sequence[PromptPart] = ()
    hooks: Sequence[object] = ()
    save: Callable[[], Json] | None = None
    close: Callable[[], object] | None = None


class Plugin(Protocol):
    @property
    def name(self) -> str: ...

    def attach(self, context: PluginContext) -> Contribution:
        """Called once for each session, new, reopened, restored or forked. Must be quick. If it raises, the session
        goes on without the plugin."""
        ...


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """`reason` says why it is disabled, if it is."""

    name: str
    reason: str | None = None

    @property
    def enabled(self) -> bool:
        return self.reason is None
