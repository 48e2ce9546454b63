"""The plugins of one session: attached in order, and let go one by one when they fail.

A plugin that raises, in `attach`, in a hook or in `save`, is disabled for the session: its tools are gone, its texts
and hooks are asked no more, and the event `plugin.disabled` says so. The session goes on; only a call in whose hook it
failed is denied. What must hold whatever happens belongs in `hooks=`, which never go away.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from cloister.core.call import ExternalCallRecord
from cloister.core.errors import CloisterError, InvalidInput
from cloister.core.value import Bounds, Json, ValueRefused, plain
from cloister.gate import Hooks
from cloister.gate.hooks import Deny, HookedCall
from cloister.sessions.catalog import SessionCatalog, Tell
from cloister.sessions.overlay import Overlay, as_overlay
from cloister.sessions.plugins.plugin import Contribution, Plugin, PluginContext, PluginInfo
from cloister.sessions.prompt.parts import PromptPart
from cloister.sessions.values import Values
from cloister.tools.offered import Offer
from cloister.tools.registry import ToolRegistry

log = logging.getLogger("cloister.sessions")
_STATE = Bounds(nodes=20_000, size=64 << 10)
_LONGEST_REASON = 300


@dataclass(slots=True, eq=False)
class _Attached:
    plugin: Plugin
    context: PluginContext
    contribution: Contribution = field(default_factory=Contribution)
    offer: Offer | None = None
    reason: str | None = None


class Plugins:
    """`states` are by name, as `save` gave them. Of a plugin that is not here any more the state is kept."""

    def __init__(
        self,
        plugins: Iterable[Plugin],
        context: Callable[[Json], PluginContext],
        states: Mapping[str, Json],
        tell: Tell | None = None,
    ) -> None:
        self._tell = tell
        self._states = dict(states)
        self._catalog: SessionCatalog | None = None
        self._attached = [_Attached(plugin, context(self._states.get(plugin.name))) for plugin in plugins]
        for one in self._attached:
            self._attach(one)

    # -- what they contribute --------------------------------------------------------------------------------------

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        return tuple(one.plugin for one in self._attached)

    def overlays(self, taken: Iterable[str]) -> list[Overlay]:
        """Their sources, none of which is needed to open the session. `taken` are the names of others."""
        names = set(taken)
        found: list[Overlay] = []
        for one in self._alive():
            own = [as_overlay(source) for source in one.contribution.sources]
            twice = [overlay.name for overlay in own if overlay.name in names]
            if twice:
                self._disable(one, f"there is a source {twice[0]!r} already")
                continue
            names.update(overlay.name for overlay in own)
            found += [Overlay(overlay.source, overlay.namespace, optional=True) for overlay in own]
        return found

    def offer_to(self, catalog: SessionCatalog) -> None:
        """Add their tools to the session's."""
        self._catalog = catalog
        for one in self._alive():
            if not one.contribution.tools:
                continue
            try:
                tools = ToolRegistry(one.contribution.tools)
                one.offer = Offer(f"plugin {one.plugin.name!r}", tuple(tools))
                catalog.offer_plugins(self._offers(), strict=True)
            # Containment: a plugin is somebody else's code; no session fails because one does.
            except Exception as error:  # noqa: BLE001
                one.offer = None
                self._failed(one, "its tools", error)

    @property
    def hooks(self) -> Hooks:
        return Hooks([self._guard(one, hook) for one in self._alive() for hook in one.contribution.hooks])

    def parts(self) -> tuple[PromptPart, ...]:
        return tuple(part for one in self._alive() for part in one.contribution.prompt)

    def bind(self, values: Values) -> None:
        for one in self._attached:
            one.context.bind(values)

    def infos(self) -> list[PluginInfo]:
        return [PluginInfo(one.plugin.name, one.reason) for one in self._attached]

    def states(self) -> dict[str, Json]:
        """What they want to keep. That of a plugin that fails here stays as it was."""
        for one in list(self._alive()):
            save = one.contribution.save
            if save is None:
                continue
            try:
                self._states[one.plugin.name] = plain(save(), _STATE)
            except ValueRefused as refusal:
                self._disable(one, f"its state cannot be kept: {refusal.message}")
            # Containment: see above.
            except Exception as error:  # noqa: BLE001
                self._failed(one, "save", error)
        return dict(self._states)

    def close(self) -> None:
        """The session is over. One that fails now disturbs nobody."""
        for one in self._attached:
            close, one.reason = one.contribution.close, one.reason or "the session is closed"
            if close is None:
                continue
            try:
                close()
            # Containment: see above.
            except Exception:
                log.exception("plugin %s failed in close", one.plugin.name)

    # -- inside --------------------------------------------------------------------------------------------------

    def _alive(self) -> Sequence[_Attached]:
        return [one for one in self._attached if one.reason is None]

    def _offers(self) -> list[Offer]:
        return [one.offer for one in self._alive() if one.offer is not None]

    def _attach(self, one: _Attached) -> None:
        try:
            contribution = cast("object", one.plugin.attach(one.context))
            if not isinstance(contribution, Contribution):
                raise InvalidInput(f"attach() gave {type(contribution).__name__}, and not a Contribution")
            for part in cast("Sequence[object]", contribution.prompt):
                if not isinstance(part, PromptPart):
                    raise InvalidInput(f"prompt has {type(part).__name__}, and not a PromptPart")
            for source in contribution.sources:
                as_overlay(source)
            Hooks(contribution.hooks)
            one.contribution = contribution
        # Containment: see above.
        except Exception as error:  # noqa: BLE001
            self._failed(one, "attach", error)

    def _guard(self, one: _Attached, hook: object) -> object:
        return _Guarded(hook, lambda: one.reason is None, lambda where, error: self._failed(one, where, error))

    def _failed(self, one: _Attached, where: str, error: Exception) -> None:
        log.error("plugin %s failed in %s", one.plugin.name, where, exc_info=error)
        # Our own texts say what is wrong; of another exception only its kind is told.
        said = f"{where}: {error.message}" if isinstance(error, CloisterError) else f"{where}: {type(error).__name__}"
        self._disable(one, said)

    def _disable(self, one: _Attached, reason: str) -> None:
        if one.reason is not None:
            return
        one.reason = reason[:_LONGEST_REASON]
        one.offer = None
        if self._catalog is not None:
            self._catalog.offer_plugins(self._offers())
        if self._tell is not None:
            self._tell("plugin.disabled", {"plugin": one.plugin.name, "reason": one.reason})


class _Guarded:
    """A plugin's hook, with the methods that it has."""

    def __init__(self, hook: Any, alive: Callable[[], bool], failed: Callable[[str, Exception], None]) -> None:
        self._alive = alive
        self._failed = failed
        # As attributes of this one: a method that a hook does not have is not asked at all.
        if hasattr(hook, "before_call"):
            self.before_call = self._before(hook.before_call)
        if hasattr(hook, "after_call"):
            self.after_call = self._after(hook.after_call)

    def _before(self, method: Callable[..., Any]) -> Callable[[HookedCall], Awaitable[Any]]:
        return lambda call: self._ask("before_call", method, call)

    def _after(self, method: Callable[..., Any]) -> Callable[[HookedCall, ExternalCallRecord], Awaitable[Any]]:
        return lambda call, record: self._ask("after_call", method, call, record)

    async def _ask(self, where: str, method: Callable[..., Any], *given: HookedCall | ExternalCallRecord) -> Any:
        if not self._alive():
            return None
        try:
            answer = method(*given)
            return await answer if inspect.isawaitable(answer) else answer
        # Containment: see above. This call is denied, because the hook may have been there to deny it.
        except Exception as error:  # noqa: BLE001
            self._failed(where, error)
            return Deny("a plugin failed while it looked at the call")
