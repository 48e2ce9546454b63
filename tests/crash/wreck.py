"""A crash inside one process: what the store's files are at this moment, as another host would find them.

Killing a process leaves what it had handed to the system, and so does a copy of its files.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cloister.core.errors import StoreUnavailable
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Batch
from cloister.stores.sqlite import SqliteStore
from tests.crash.points import kind_of


class Fragile(SqliteStore):
    """A store that can be made to fail, or to be slow, for batches of some kinds: see `points.kind_of`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, clock=SystemClock())
        self.path = path
        self.failing: Callable[[str], bool] = lambda _kind: False
        self.hold: Callable[[str], asyncio.Event | None] = lambda _kind: None
        # The end of a cell was handed over.
        self.ending = asyncio.Event()

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        kind = kind_of(batch)
        if kind == "ended":
            self.ending.set()
        if self.failing(kind):
            return _fail(f"the store {self.path} cannot be written: the disk is full")
        held = self.hold(kind)
        return super().write(batch) if held is None else self._later(batch, held)

    def _later(self, batch: Batch, held: asyncio.Event) -> Awaitable[tuple[int, ...]]:
        async def go() -> tuple[int, ...]:
            await held.wait()
            return await super(Fragile, self).write(batch)

        return asyncio.ensure_future(go())


class _Failed:
    """Like a receipt: may be awaited or not."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        raise StoreUnavailable(self._message)


def _fail(message: str) -> Awaitable[Any]:
    return _Failed(message)


async def wreck(path: Path, to: Path) -> Path:
    """What a kill at this moment would leave. Nobody owns it."""
    for end in ("", "-wal"):
        if (source := Path(f"{path}{end}")).exists():
            shutil.copyfile(source, f"{to}{end}")
    async with SqliteStore(to, clock=SystemClock()) as store:
        for owner in await store.owners():
            await store.release(owner)
    return to
