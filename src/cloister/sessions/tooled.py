"""What a session is asked about its tools: what there is, what one of them takes, and where they come from."""

from typing import Any, cast

from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.value import Json
from cloister.gate import Gate
from cloister.gate.refusal import Refusal
from cloister.sessions.catalog import SessionCatalog, SourceInfo
from cloister.sessions.overlay import Overlay
from cloister.sessions.plugins.attached import Plugins
from cloister.sessions.plugins.plugin import PluginInfo
from cloister.sessions.prompt import Preamble, PreambleWriter
from cloister.sessions.prompt.preamble import DEFAULT_BUDGET
from cloister.tools.registry import ToolRegistry


class Tooled:
    """A part of `Session`."""

    _catalog: SessionCatalog
    _gate: Gate
    _plugins: Plugins
    _preambles: PreambleWriter

    @property
    def language(self) -> Language:
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError

    @property
    def tools(self) -> ToolRegistry:
        return self._catalog.registry

    @property
    def stubs(self) -> str:
        """What a program may call, written in the session's language: for the prompt of whoever writes programs. Tools
        that are deferred are left out until somebody has asked for them."""
        return self._catalog.stubs(self.language)

    def preamble(self, token_budget: int = DEFAULT_BUDGET) -> Preamble:
        """What a model must know to write programs here, in at most so many tokens of four bytes each. The same bytes
        as long as nothing has changed; one more tool adds to its end."""
        return self._preambles.write(token_budget)

    async def search_tools(self, query: str, limit: int = 10) -> list[dict[str, Json]]:
        """The tools that have most to do with these words, the best first, as `search_tools` tells a program."""
        self._check_open()
        try:
            return cast("list[dict[str, Json]]", await self._gate.discovery.search(query, limit))
        except Refusal as refusal:
            raise _invalid(refusal) from None

    async def describe_tool(self, name: str) -> dict[str, Json]:
        """All that is known about one tool, as `describe_tool` tells a program. If it was deferred, it is part of the
        stubs and the preamble from now on."""
        self._check_open()
        try:
            return await self._gate.discovery.describe(name)
        except Refusal as refusal:
            raise _invalid(refusal) from None

    def count_with(self, other: "Tooled") -> None:
        """For the runtime: its calls and those of another session are counted together."""
        self._gate.count_with(other._gate)

    # -- plugins -------------------------------------------------------------------------------------------------

    @property
    def plugins(self) -> list[PluginInfo]:
        """Its plugins in their order, and why those that are disabled are."""
        return self._plugins.infos()

    @property
    def attached(self) -> Plugins:
        """For the runtime."""
        return self._plugins

    # -- sources -------------------------------------------------------------------------------------------------

    @property
    def sources(self) -> list[SourceInfo]:
        """Where its tools come from that are not functions of this process: the host's sources, and its own."""
        return self._catalog.infos()

    @property
    def own_overlays(self) -> tuple[Overlay, ...]:
        """The sources that were given to this session alone, as they were given."""
        return self._catalog.own_overlays

    async def add_source(self, source: Any) -> SourceInfo:
        """Have the tools of one more source (`ToolSource` or `Overlay`), from the next cell on. The host enters it,
        and leaves it when the last session that has it is closed."""
        self._check_open()
        return await self._catalog.add(source)

    async def remove_source(self, name: str) -> None:
        """Take a source of this session away. A program that still calls its tools is refused by name."""
        self._check_open()
        await self._catalog.remove(name)

    async def refresh(self, name: str | None = None) -> list[SourceInfo]:
        """Ask all sources, or the one of that name, anew what they have, and try those that are missing again."""
        self._check_open()
        return await self._catalog.refresh(name)


def _invalid(refusal: Refusal) -> InvalidInput:
    error = refusal.error
    return InvalidInput(error.message, hint=error.hint)
