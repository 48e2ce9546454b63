"""The catalog of one session: its own tools, and over them what its sources and plugins offer.

Nothing that others have rendered is rendered again, and nothing is read again that has not changed. When a source
changes, the session has it at once; a cell that has begun goes on with the offers that it began with. A source that was
needed to open the session may be gone later: its tools stay, and their calls say so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cloister.core.errors import InvalidInput, SourceUnavailable
from cloister.core.language import Language
from cloister.ports.engine import Catalog
from cloister.ports.source import SourceFailed
from cloister.sessions.overlay import Overlay, as_overlay, check_names
from cloister.sessions.shelf import Shelf, Shelves, at_once
from cloister.tools.catalog import CatalogCache, render_stubs
from cloister.tools.offered import NOTHING_OFFERED, MergeCache, Offer, Offered, merge
from cloister.tools.registry import ToolRegistry

# kind and data of an event of this session.
Tell: TypeAlias = Callable[[str, Mapping[str, Any]], None]
# So many names are told in one event.
_MOST_TOLD = 100


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """What is known of a source. `missing` says why an optional one is not here; `notes` what was left out of it."""

    name: str
    tools: int
    optional: bool = False
    missing: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """What the catalogs of all sessions share."""

    shelves: Shelves
    rendered: CatalogCache
    merged: MergeCache


@dataclass(slots=True)
class _Held:
    overlay: Overlay
    # None while it is missing, for this reason.
    shelf: Shelf | None = None
    missing: str | None = None
    stop: Callable[[], object] = lambda: None


class SessionCatalog:
    """`base` are the host's sources, `added` those of plugins. One that is optional and missing is here as soon as it
    can be reached; those of the host that could not be reached are not waited for."""

    def __init__(
        self,
        registry: ToolRegistry,
        shared: Shared,
        *,
        base: Iterable[Overlay] = (),
        overlays: Iterable[Overlay] = (),
        added: Iterable[Overlay] = (),
        tell: Tell | None = None,
    ) -> None:
        self.registry = registry
        self._shared = shared
        self._base = [_Held(overlay) for overlay in base]
        self._own = [_Held(overlay) for overlay in overlays]
        self._added = [_Held(overlay) for overlay in added]
        self._tell = tell
        self._plugins: tuple[Offer, ...] = ()
        self._made: tuple[int, Catalog] | None = None
        self._closed = False
        check_names(self.overlays)

    async def open(self) -> None:
        """Have the sources. Raises `SourceUnavailable` for one that is needed, and `InvalidInput` for names that mean
        two things; then nothing is held."""
        try:
            for held in self._base:
                if held.overlay.optional and self._shared.shelves.held(held.overlay) is None:
                    self._seek(held, "it could not be reached when the host opened")
            await at_once(self._take(held) for held in self._all() if held.missing is None)
            self._apply(strict=True)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._closed = True
        for held in reversed(self._all()):
            await self._give_back(held)

    @property
    def overlays(self) -> tuple[Overlay, ...]:
        return tuple(held.overlay for held in self._all())

    @property
    def own_overlays(self) -> tuple[Overlay, ...]:
        return tuple(held.overlay for held in self._own)

    def _all(self) -> list[_Held]:
        return [*self._base, *self._own, *self._added]

    def infos(self) -> list[SourceInfo]:
        found: list[SourceInfo] = []
        for held in self._all():
            overlay, shelf = held.overlay, held.shelf
            tools = len(shelf.offer(overlay).tools) if shelf is not None else 0
            notes = shelf.notes if shelf is not None else ()
            missing = held.missing and (self._shared.shelves.why_missing(overlay) or held.missing)
            found.append(SourceInfo(overlay.name, tools, overlay.optional, missing, notes))
        return found

    def fork(self, added: Iterable[Overlay], tell: Tell | None) -> "SessionCatalog":
        """One like it, not open yet, for another session; `added` are the sources of its plugins."""
        registry = self.registry.copy()
        registry.offer(NOTHING_OFFERED)
        base = [held.overlay for held in self._base]
        own = self.own_overlays
        return SessionCatalog(registry, self._shared, base=base, overlays=own, added=added, tell=tell)

    # -- changes -------------------------------------------------------------------------------------------------

    async def add(self, candidate: object) -> SourceInfo:
        overlay = as_overlay(candidate)
        check_names([*self.overlays, overlay])
        held = _Held(overlay)
        await self._take(held)
        self._own.append(held)
        try:
            self._apply(strict=True)
        except InvalidInput:
            self._own.remove(held)
            await self._give_back(held)
            raise
        return next(info for info in self.infos() if info.name == overlay.name)

    async def remove(self, name: str) -> None:
        held = next((held for held in self._own if held.overlay.name == name), None)
        if held is None:
            names = ", ".join(overlay.name for overlay in self.own_overlays)
            raise InvalidInput(f"this session has no source {name!r} of its own", hint=f"it has {names or 'none'}")
        self._own.remove(held)
        self._apply(strict=False)
        await self._give_back(held)

    async def refresh(self, name: str | None = None) -> list[SourceInfo]:
        """Ask all sources, or the one of that name, anew what there is, and try those that are missing again."""
        asked = [held for held in self._all() if name in (None, held.overlay.name)]
        await at_once(self._ask_anew(held) for held in asked)
        self._apply(strict=False)
        return self.infos()

    async def _ask_anew(self, held: _Held) -> None:
        if held.shelf is None:
            await self._take(held)
            return
        try:
            await held.shelf.refresh()
        except (SourceFailed, InvalidInput) as failed:
            self._say("source.failed", {"source": held.overlay.name, "reason": failed.message})

    def offer_plugins(self, offers: Sequence[Offer], *, strict: bool = False) -> None:
        """What plugins offer from now on."""
        before, self._plugins = self._plugins, tuple(offers)
        try:
            self._apply(strict=strict)
        except InvalidInput:
            self._plugins = before
            raise

    # -- what is rendered ------------------------------------------------------------------------------------------

    def current(self, language: Language, mark: str) -> Catalog:
        """As an engine needs it."""
        generation = self.registry.generation
        if self._made is None or self._made[0] != generation:
            made = self._shared.rendered.get(self.registry, language)
            self._made = (generation, replace(made, mark=mark))
        return self._made[1]

    def stubs(self, language: Language) -> str:
        return render_stubs(self.registry, language)

    # -- inside --------------------------------------------------------------------------------------------------

    async def _take(self, held: _Held) -> None:
        # One that is sought is tried now, and by nobody else.
        held.stop()
        try:
            shelf = await self._shared.shelves.take(held.overlay)
        except (SourceUnavailable, InvalidInput) as error:
            if not held.overlay.optional:
                raise
            self._seek(held, error.message)
            self._say("source.failed", {"source": held.overlay.name, "reason": error.message})
            return
        self._has(held, shelf)

    def _has(self, held: _Held, shelf: Shelf) -> None:
        was_missing, held.missing = held.missing, None
        held.shelf, held.stop = shelf, shelf.listen(self._heard)
        if was_missing is not None:
            tools = len(shelf.offer(held.overlay).tools)
            self._say("source.opened", {"source": held.overlay.name, "tools": tools})

    def _seek(self, held: _Held, why: str) -> None:
        def came(shelf: Shelf) -> None:
            self._has(held, shelf)
            self._apply(strict=False, late=True)

        held.missing = why
        held.stop = self._shared.shelves.seek(held.overlay, came, why)

    async def _give_back(self, held: _Held) -> None:
        held.stop()
        shelf, held.shelf = held.shelf, None
        if shelf is not None:
            await self._shared.shelves.give_back(shelf)

    def _heard(self) -> None:
        if not self._closed:
            self._apply(strict=False)

    def _apply(self, *, strict: bool, late: bool = False) -> None:
        """Offer what there is now to the session. What it begins with is no change of it, unless it comes `late`."""
        shelves = [(held.shelf, held.overlay) for held in self._all()]
        offers = [shelf.offer(overlay) for shelf, overlay in shelves if shelf is not None]
        offered = self._merged((*offers, *self._plugins), strict=strict)
        before = self.registry.offered
        if offered.offers == before.offers and offered.conflicts == before.conflicts:
            return
        self.registry.offer(offered.after(before))
        if before.offers or late:
            self._say_changed(before, offered)

    def _merged(self, offers: tuple[Offer, ...], *, strict: bool) -> Offered:
        try:
            offered = self._shared.merged.get(offers)
        except InvalidInput:
            if strict:
                raise
            return merge(offers, self.registry.own(), strict=False, before=self.registry.offered)
        if self.registry.clashes_with(offered):
            return merge(offers, self.registry.own(), strict=strict, before=self.registry.offered)
        return offered

    def _say_changed(self, before: Offered, now: Offered) -> None:
        added = [name for name in now.tools if name not in before.tools]
        removed = [name for name in before.tools if name not in now.tools]
        changed = [name for name, tool in now.tools.items() if before.tools.get(name, tool) is not tool]
        names = {"added": added, "removed": removed, "changed": changed, "conflicts": list(now.conflicts)}
        counts = {f"{what}_count": len(found) for what, found in names.items() if len(found) > _MOST_TOLD}
        self._say("catalog.changed", {**{what: found[:_MOST_TOLD] for what, found in names.items()}, **counts})

    def _say(self, kind: str, data: Mapping[str, Any]) -> None:
        if self._tell is not None:
            self._tell(kind, data)
