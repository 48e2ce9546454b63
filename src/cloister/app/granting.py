"""What all sessions of a host are granted, and how one session's share of it is put together.

What holds for all was checked when the host was made, so a session costs only what it has of its own: a thousand tools
of the host are neither looked at nor copied one by one when a session opens.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cloister.app.terms import Terms
from cloister.core.capability import Capability
from cloister.core.errors import InvalidInput, SourceUnavailable
from cloister.core.value import Json
from cloister.gate import Policy
from cloister.ports.clock import Clock
from cloister.ports.rows import SessionRow
from cloister.sessions.catalog import SessionCatalog, Shared, Tell
from cloister.sessions.envelope import Envelope
from cloister.sessions.grounds import SessionOptions
from cloister.sessions.overlay import Overlay
from cloister.sessions.plugins.attached import Plugins
from cloister.sessions.plugins.finding import check_plugin_names
from cloister.sessions.plugins.plugin import Plugin, PluginContext
from cloister.sessions.session import Session
from cloister.sessions.shelf import Shelf, Shelves, at_once
from cloister.tools.catalog import CatalogCache
from cloister.tools.offered import MergeCache
from cloister.tools.registry import ToolRegistry
from cloister.tools.tool import Tool, as_tool

log = logging.getLogger("cloister.app")


@dataclass(frozen=True, slots=True)
class Share:
    """What one session has of it."""

    catalog: SessionCatalog
    plugins: Plugins

    async def close(self) -> None:
        self.plugins.close()
        await self.catalog.close()


class Granting:
    def __init__(
        self,
        tools: ToolRegistry,
        policy: Policy,
        overlays: tuple[Overlay, ...],
        plugins: tuple[Plugin, ...],
        clock: Clock,
    ) -> None:
        self._tools = tools
        self._plugins = plugins
        self._policy = policy
        self._overlays = overlays
        self._shelves = Shelves(clock)
        self._shared = Shared(self._shelves, CatalogCache(), MergeCache())
        self._taken: list[Shelf] = []
        if not overlays and not plugins:
            # Otherwise a policy may name a tool that is not known yet.
            policy.check(_by_name(tools))

    async def open(self) -> None:
        """Have the host's sources. Raises `SourceUnavailable` for one that is needed."""
        await at_once(self._take(overlay) for overlay in self._overlays)
        if self._overlays and not self._plugins:
            catalog = await self._catalog(Terms.none(), [], None)
            try:
                if not any(info.missing for info in catalog.infos()):
                    self._policy.check(_by_name(catalog.registry))
            finally:
                await catalog.close()

    async def _take(self, overlay: Overlay) -> None:
        try:
            self._taken.append(await self._shelves.take(overlay))
        except (SourceUnavailable, InvalidInput) as error:
            if not overlay.optional:
                raise
            log.warning("%s", error.message)
            self._shelves.seek(overlay, self._taken.append, error.message)

    async def close(self) -> None:
        await self._shelves.close()
        while self._taken:
            await self._shelves.give_back(self._taken.pop())

    async def share(self, terms: Terms, options: SessionOptions, states: Mapping[str, Json], tell: Tell) -> Share:
        """One session's; whoever has it closes it."""
        every = (*self._plugins, *terms.plugins) if terms.include_base else terms.plugins
        check_plugin_names(every)
        plugins = _attach(every, options, states, tell)
        try:
            taken = [overlay.name for overlay in (*self._overlays, *terms.overlays)]
            catalog = await self._catalog(terms, plugins.overlays(taken), tell)
        except BaseException:
            plugins.close()
            raise
        plugins.offer_to(catalog)
        return Share(catalog, plugins)

    def defaults(
        self,
        original: Session | None,
        tools: Iterable[object] | None,
        sources: Iterable[object] | None,
        plugins: Iterable[object] | None,
    ) -> tuple[Iterable[object], Iterable[object], Iterable[object]]:
        """What is given, and where nothing is, what the original was given that not every session has."""
        if tools is None:
            tools = [tool for tool in original.tools.own() if tool.full_name not in self._tools] if original else ()
        if sources is None:
            sources = original.own_overlays if original else ()
        if plugins is None:
            every = original.attached.plugins if original else ()
            plugins = [plugin for plugin in every if plugin not in self._plugins]
        return tools, sources, plugins

    async def fork(self, share: Share, options: SessionOptions, tell: Tell) -> Share:
        """The same for a session that is to be like another."""
        plugins = _attach(share.plugins.plugins, options, share.plugins.states(), tell)
        catalog = share.catalog.fork(plugins.overlays([]), tell)
        try:
            await catalog.open()
        except BaseException:
            plugins.close()
            raise
        plugins.offer_to(catalog)
        return Share(catalog, plugins)

    async def _catalog(self, terms: Terms, added: Sequence[Overlay], tell: Tell | None) -> SessionCatalog:
        registry = self._tools.copy() if terms.include_base else ToolRegistry()
        for tool in terms.tools:
            registry.register(tool)
        base = self._overlays if terms.include_base else ()
        catalog = SessionCatalog(registry, self._shared, base=base, overlays=terms.overlays, added=added, tell=tell)
        await catalog.open()
        return catalog

    def policy(self, terms: Terms, catalog: SessionCatalog) -> Policy:
        """What is in force for a session. Raises `InvalidInput` for what names a tool that is not there, or would
        loosen."""
        # Of a source that is missing nobody knows what it has.
        complete = not any(info.missing for info in catalog.infos())
        if not terms.policy:
            if terms.tools and complete:
                known = _by_name(catalog.registry)
                own = [as_tool(tool).full_name for tool in terms.tools]
                self._policy.check_tools([known[name] for name in own], known)
            return self._policy
        policy, known = terms.policy.over(self._policy), _by_name(catalog.registry)
        if complete:
            terms.policy.check(known)
            policy.check_tools(known.values(), known)
        return policy


def plugin_states(origin: Envelope | None, kept: SessionRow | None) -> Mapping[str, Json]:
    """What the plugins of a session have kept."""
    if kept is not None:
        return kept.doc.get("plugins", {})
    return origin.plugins if origin is not None else {}


def _attach(plugins: Sequence[Plugin], options: SessionOptions, states: Mapping[str, Json], tell: Tell) -> Plugins:
    def context(state: Json) -> PluginContext:
        return PluginContext(options.id, options.language, options.labels, state)

    return Plugins(plugins, context, states, tell)


def _by_name(tools: Iterable[Tool]) -> Mapping[str, Capability]:
    return {tool.full_name: tool.capability for tool in tools}
