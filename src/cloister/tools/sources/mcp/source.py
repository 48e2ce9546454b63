"""An MCP server as a tool source: kept, lost, and found again.

One task owns the connection from end to end and opens the next one when it is lost, after a pause that grows. What was
known of the tools stays meanwhile. A call under way fails by name; a later one waits a moment and then fails as gone.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from cloister.core.capability import Capability
from cloister.core.value import Json
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.source import Manifest, SourceCall, SourceFailed
from cloister.tools.sources.held import Veil, given
from cloister.tools.sources.listeners import Listeners
from cloister.tools.sources.mcp.servers import McpServer, McpStdio

if TYPE_CHECKING:
    from cloister.tools.sources.mcp.link import Link
    from cloister.tools.sources.mcp.listing import Listing

log = logging.getLogger("cloister.sources")

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 30.0
# A server that ends sooner after it came up is not taken for well again.
_WELL_SECONDS = 10.0
# However often a server says that its tools have changed.
_LIST_PAUSE = 0.5


class McpSource:
    """`async with McpSource(McpStdio(name="time", command="mcp-server-time")) as source:`"""

    def __init__(self, server: McpServer, *, clock: Clock | None = None, chance: random.Random | None = None) -> None:
        self.server = server
        self._clock = clock or SystemClock()
        # So that many hosts do not come back to one server all at once.
        self._chance = chance or random.Random()  # noqa: S311 - no secret depends on it
        self._keeper: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._listing: Listing | None = None
        self._reason = "it was not opened"
        self._was_up = False
        self._up = asyncio.Event()
        # Somebody wants it back now; and it was tried since somebody has asked.
        self._wanted = asyncio.Event()
        self._tried = asyncio.Event()
        self._changed = asyncio.Event()
        self._listeners = Listeners(server.what)
        self._veil = Veil()

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def revision(self) -> str:
        return self._known().revision

    @property
    def connected(self) -> bool:
        return self._link is not None

    # -- open and closed -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "McpSource":
        if self._keeper is not None:
            raise RuntimeError(f"{self.server.what} is open already")
        await asyncio.to_thread(_load)
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep(first), name=f"cloister: {self.server.what}")
        try:
            await first
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        keeper.cancel()
        cancelled = False
        while not keeper.done():
            try:
                await asyncio.wait([keeper])
            except asyncio.CancelledError:
                # It ends in bounded time, and must not be left behind.
                cancelled = True
        self._reason = "it was closed"
        self._tried.set()
        if cancelled:
            raise asyncio.CancelledError

    async def _keep(self, first: "asyncio.Future[None]") -> None:
        failures = 0
        while True:
            came_up, self._was_up = self._clock.monotonic(), False
            try:
                await self._serve(first)
            # Containment: whatever breaks in the SDK costs this connection, and not the source.
            except Exception as error:  # noqa: BLE001 - told in `_failure`
                failed = self._failure(error)
                if not first.done():
                    first.set_exception(failed)
                    return
                if not self._was_up:
                    # Otherwise it is known already why it was lost.
                    self._reason = failed.message.removeprefix(f"{self.server.what} ").removeprefix("is gone: ")
            if self._clock.monotonic() - came_up > _WELL_SECONDS:
                failures = 0
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures) * self._chance.uniform(0.5, 1.0)
            log.warning("%s is gone: %s; trying again in %.1f s", self.server.what, self._reason, pause)
            failures = min(failures + 1, 20)
            self._wanted.clear()
            self._tried.set()
            await self._rest(pause)

    async def _rest(self, seconds: float) -> None:
        """The pause before it is tried again, or less if somebody asks for that."""
        ends = [asyncio.ensure_future(one) for one in (self._clock.sleep(seconds), self._wanted.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def _serve(self, first: "asyncio.Future[None]") -> None:
        """One connection, from its beginning to its end."""
        from cloister.tools.sources.mcp.link import open_link

        self._changed.clear()
        values = self._values()
        async with open_link(self.server, values, self._clock, self._changed.set) as link:
            self._take(await link.list())
            self._link, self._was_up = link, True
            self._up.set()
            self._tried.set()
            if not first.done():
                first.set_result(None)
            try:
                await self._listen(link)
            finally:
                self._drop(link)

    async def _listen(self, link: "Link") -> None:
        """Until it is lost; lists the tools anew whenever the server says so."""
        lost = asyncio.ensure_future(link.lost())
        try:
            while await self._first_of(lost, self._changed.wait()):
                self._changed.clear()
                await self._relist(link)
                if not await self._first_of(lost, self._clock.sleep(_LIST_PAUSE)):
                    break
        finally:
            lost.cancel()

    async def _first_of(self, lost: "asyncio.Task[None]", other: Coroutine[Any, Any, object]) -> bool:
        """Whether `other` came to its end before the line was lost."""
        waiting = asyncio.ensure_future(other)
        try:
            await asyncio.wait([lost, waiting], return_when=asyncio.FIRST_COMPLETED)
            return not lost.done()
        finally:
            waiting.cancel()

    def _drop(self, link: "Link") -> None:
        if self._link is link:
            self._link = None
            self._reason = self._veil.text(link.reason)
            self._up.clear()

    async def _relist(self, link: "Link") -> None:
        try:
            self._take(await link.list())
        except SourceFailed as failed:
            log.warning("%s; what was known of its tools is kept", failed.message)

    def _failure(self, error: Exception) -> SourceFailed:
        found = _first(error)
        if isinstance(found, SourceFailed):
            # Whatever it was, there is no source without it.
            return SourceFailed(self._veil.text(found.message), hint=found.hint, gone=True)
        log.warning("%s: the connection broke", self.server.what, exc_info=error)
        return SourceFailed(self._veil.text(f"{self.server.what} cannot be used: {_kind(error)}"), gone=True)

    def _values(self) -> dict[str, str]:
        """What the server is told, and a veil over what of it is secret."""
        server = self.server
        place, sent = ("env", server.env) if isinstance(server, McpStdio) else ("headers", server.headers)
        texts = {
            name: given(value, f"{server.what}: the value of {name!r} in `{place}`") for name, value in sent.items()
        }
        self._veil = Veil.over(sent, texts)
        return texts

    # -- what there is ---------------------------------------------------------------------------------------------

    async def manifests(self) -> Sequence[Manifest]:
        return self._known().manifests

    async def contract(self, full_name: str) -> Capability:
        # In a thread: a schema that is as large as it may be takes a second to compile.
        found = await asyncio.to_thread(self._known().contract, full_name)
        if found is None:
            raise self._no_tool(full_name)
        return found

    def original(self, full_name: str) -> str | None:
        """What the server itself calls a tool."""
        entry = self._known().by_name.get(full_name)
        return entry.original if entry else None

    async def refresh(self) -> None:
        if self._keeper is not None and (self._link is None or self._link.is_lost):
            # However long its pauses have become by now. An attempt has its end: see `connect_timeout_ms`.
            self._tried.clear()
            self._wanted.set()
            await self._tried.wait()
        link = await self._reach(self.server.patience_ms)
        self._take(await link.list())

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listeners.add(changed)

    def _known(self) -> "Listing":
        if self._listing is None:
            raise SourceFailed(f"{self.server.what} was not opened", gone=True)
        return self._listing

    def _take(self, listing: "Listing") -> None:
        before, self._listing = self._listing, listing
        if before is not None and before.revision != listing.revision:
            self._listeners.tell()

    # -- calls -----------------------------------------------------------------------------------------------------

    async def call(self, full_name: str, arguments: Json, about: SourceCall) -> Json:
        entry = self._known().by_name.get(full_name)
        if entry is None:
            raise self._no_tool(full_name)
        if not isinstance(arguments, dict):
            raise SourceFailed(f"{full_name} takes its arguments by name")
        from cloister.tools.sources.mcp.link import NotTaken

        patience_ms = min(float(self.server.patience_ms), about.remaining_ms)
        try:
            try:
                value = await (await self._reach(patience_ms)).call(entry, arguments, about)
            except NotTaken:
                # Once: over HTTP this is how a server that was started anew is noticed.
                value = await (await self._reach(patience_ms)).call(entry, arguments, about)
            return self._veil.json(value)
        except SourceFailed as failed:
            message, hint = self._veil.text(failed.message), failed.hint and self._veil.text(failed.hint)
            raise SourceFailed(message, hint=hint, gone=failed.gone) from None

    async def _reach(self, patience_ms: float) -> "Link":
        if self._link is not None and self._link.is_lost:
            # Its keeper has not heard of it yet.
            self._drop(self._link)
        if self._link is None and self._keeper is not None:
            try:
                async with asyncio.timeout(max(patience_ms, 0.0) / 1000):
                    await self._up.wait()
            except TimeoutError:
                pass
        if self._link is None:
            hint = "it is tried again and again; call later" if self._keeper is not None else None
            raise SourceFailed(f"{self.server.what} is gone: {self._reason}", hint=hint, gone=True)
        return self._link

    def _no_tool(self, full_name: str) -> SourceFailed:
        return SourceFailed(f"{self.server.what} has no tool {full_name!r} (any more)")


def _first(error: BaseException) -> BaseException:
    """The SDK's task groups wrap whatever passes through them."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _load() -> None:
    """Import the SDK, which takes a second: in a thread, so that nobody has to wait for it."""
    try:
        import_module("cloister.tools.sources.mcp.link")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("mcp", "mcp_types", "httpx2"):
            raise
        raise SourceFailed(
            f"MCP servers need the package {error.name!r}, which is not installed",
            hint="pip install 'cloister[mcp]'",
            gone=True,
        ) from None


def _kind(error: BaseException) -> str:
    error = _first(error)
    return f"{type(error).__name__}: {error}"[:300]
