"""Sources as all sessions of a host share them: each is entered once, read once for each of its revisions, and left
when the last who has it gives it back.

A task of its own enters a source and leaves it, because what a source opens may belong to the task that opened it. When
the source says that something has changed, it is read again there, and whoever listens is told. What cannot be read is
left as it was: a source whose other side is gone keeps its tools, and their calls say so. One that could not be entered
and is not needed is tried again until it can (`seeking.py`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from cloister.core.capability import check_namespace, check_tool_name
from cloister.core.errors import InvalidInput, InvalidToolName, SourceUnavailable
from cloister.ports.clock import Clock
from cloister.ports.source import Manifest, SourceFailed, ToolSource
from cloister.sessions.overlay import Overlay
from cloister.sessions.seeking import Seeking
from cloister.tools.offered import Offer
from cloister.tools.sourced import SourcedTool

log = logging.getLogger("cloister.sessions")
MOST_TOOLS = 20_000
_LONGEST_DESCRIPTION = 20_000
_MOST_NOTES = 20
_LONGEST_NOTE = 300
# Seconds that a source has for leaving.
_GRACE = 10.0
# After so many tools others may go on.
_AT_ONCE = 25

Heard: TypeAlias = Callable[[], None]


class Shelf:
    """One source. `users` counts who has it."""

    def __init__(self, source: ToolSource) -> None:
        self.source = source
        self.users = 0
        # What was left out or cannot be used when it was read, and why.
        self.notes: tuple[str, ...] = ()
        self._tools: dict[str, SourcedTool] = {}
        self._offers: dict[tuple[str, str | None], Offer] = {}
        self._listeners: set[Heard] = set()
        self._reading = asyncio.Lock()
        self._bell = asyncio.Event()
        self._leaving = False
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._live())

    @property
    def is_open(self) -> bool:
        return self._opened.done() and self._opened.exception() is None

    async def opened(self) -> None:
        """Returns when there is something to offer. Raises what the source raised."""
        await asyncio.shield(self._opened)

    def offer(self, overlay: Overlay) -> Offer:
        """The same object as long as nothing has changed."""
        key = (overlay.whose, overlay.namespace)
        found = self._offers.get(key)
        if found is None:
            space = overlay.namespace
            tools = [tool if space is None else tool.in_namespace(space) for tool in self._tools.values()]
            found = self._offers[key] = Offer(overlay.whose, tuple(tools))
        return found

    def listen(self, heard: Heard) -> Callable[[], None]:
        """`heard` is called whenever the offer is another."""
        self._listeners.add(heard)
        return lambda: self._listeners.discard(heard)

    async def refresh(self) -> None:
        """Ask the other side anew. Raises `SourceFailed`."""
        await self.source.refresh()
        await self._read()

    async def close(self) -> None:
        self._leaving = True
        self._bell.set()
        _, late = await asyncio.wait([self._task], timeout=_GRACE)
        if late:
            log.warning("source %s does not leave and was cancelled", self.source.name)
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_GRACE)

    def abandon(self) -> None:
        """Nobody waits for it to open any more."""
        self._task.cancel()

    # -- inside --------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            async with self.source:
                stop = self.source.subscribe(self._bell.set)
                try:
                    await self._read()
                    self._opened.set_result(None)
                    await self._follow()
                finally:
                    stop()
        # Containment: a source is the host's code; whoever waits for it is told, and nobody else is harmed.
        except Exception as error:
            if self._opened.done():
                log.exception("source %s failed", self.source.name)
            else:
                self._opened.set_exception(error)
                # Whoever waited may have gone.
                self._opened.exception()
        finally:
            if not self._opened.done():
                self._opened.set_exception(SourceFailed("it was stopped while it was opened", gone=True))
                self._opened.exception()

    async def _follow(self) -> None:
        while True:
            await self._bell.wait()
            if self._leaving:
                return
            self._bell.clear()
            try:
                await self._read()
            # Containment: what was read before is still there.
            except Exception as error:  # noqa: BLE001
                log.warning("source %s could not be read again: %s", self.source.name, _said(error))

    async def _read(self) -> None:
        async with self._reading:
            tools, notes = await self._look()
            same = list(tools) == list(self._tools) and all(self._tools[name] is tool for name, tool in tools.items())
            self.notes = notes
            if same:
                return
            self._tools = tools
            self._offers.clear()
        for heard in list(self._listeners):
            heard()

    async def _look(self) -> tuple[dict[str, SourcedTool], tuple[str, ...]]:
        found: dict[str, SourcedTool] = {}
        notes: list[str] = []
        manifests = await self.source.manifests()
        if len(manifests) > MOST_TOOLS:
            notes.append(f"it has {len(manifests)} tools; those after the first {MOST_TOOLS} are left out")
        for count, manifest in enumerate(manifests[:MOST_TOOLS]):
            if count % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            reason = _unfit(manifest, found)
            if reason is not None:
                notes.append(reason)
                continue
            tool, known = SourcedTool(self.source, manifest), self._tools.get(manifest.full_name)
            # A deferred one is asked about when somebody needs it; then it has been needed.
            if not manifest.defer_loading or (known is not None and known.is_known):
                try:
                    await tool.load()
                except (SourceFailed, InvalidInput) as error:
                    # It stays hidden; a call of it asks again, and says what is wrong.
                    notes.append(f"{manifest.full_name}: {_said(error)}")
            found[manifest.full_name] = known if known is not None and known.is_same(tool) else tool
        if len(notes) > _MOST_NOTES:
            notes[_MOST_NOTES:] = [f"and {len(notes) - _MOST_NOTES} more"]
        return found, tuple(note[:_LONGEST_NOTE] for note in notes)


def _unfit(manifest: Manifest, found: dict[str, SourcedTool]) -> str | None:
    """Why a manifest cannot become a tool."""
    try:
        check_tool_name(manifest.name)
        if manifest.namespace is not None:
            check_namespace(manifest.namespace)
    except InvalidToolName as error:
        return error.message
    if manifest.full_name in found:
        return f"{manifest.full_name} is there twice; the second is left out"
    if len(manifest.description) > _LONGEST_DESCRIPTION:
        return f"{manifest.full_name} has a description of {len(manifest.description)} characters"
    return None


async def at_once(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of these at the same time, since each source may take seconds. The first that fails ends the others, and
    is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _said(error: BaseException) -> str:
    return str(getattr(error, "message", None) or type(error).__name__)


class Shelves:
    """The sources of one host."""

    def __init__(self, clock: Clock) -> None:
        self._shelves: dict[int, Shelf] = {}
        self._seeking: Seeking[Shelf] = Seeking(clock)

    async def take(self, overlay: Overlay) -> Shelf:
        """The source, entered and read. Raises `SourceUnavailable`."""
        shelf = self._shelves.get(id(overlay.source))
        if shelf is None:
            shelf = self._shelves[id(overlay.source)] = Shelf(overlay.source)
        shelf.users += 1
        try:
            await shelf.opened()
            # Two names of one tool may be the same under another namespace.
            shelf.offer(overlay)
        except SourceFailed as failed:
            await self.give_back(shelf)
            raise SourceUnavailable(f"{overlay.whose} cannot be reached: {failed.message}", hint=failed.hint) from None
        # Whatever else it raises is a mistake of its own, and the host should see it.
        except BaseException:
            await self.give_back(shelf)
            raise
        self._seeking.found(id(overlay.source), shelf)
        return shelf

    def seek(self, overlay: Overlay, came: Callable[[Shelf], None], why: str) -> Callable[[], None]:
        """Have a source that is missing tried again and again. `came` is given it once, with a use of its own; what is
        returned ends that."""

        async def attempt() -> None:
            await self.give_back(await self.take(overlay))

        def taken(shelf: Shelf) -> None:
            try:
                shelf.offer(overlay)
            except InvalidInput as error:
                # It is there under another namespace, where its tools have names of their own.
                log.warning("%s cannot be used: %s", overlay.whose, error.message)
                return
            shelf.users += 1
            came(shelf)

        return self._seeking.seek(id(overlay.source), attempt, taken, why)

    def why_missing(self, overlay: Overlay) -> str | None:
        return self._seeking.why(id(overlay.source))

    async def close(self) -> None:
        """Nothing is sought any more."""
        await self._seeking.close()

    def held(self, overlay: Overlay) -> Shelf | None:
        """The source, if somebody has it."""
        return self._shelves.get(id(overlay.source))

    async def give_back(self, shelf: Shelf) -> None:
        shelf.users -= 1
        if shelf.users == 0:
            self._shelves.pop(id(shelf.source), None)
            if not shelf.is_open:
                shelf.abandon()
            await shelf.close()
