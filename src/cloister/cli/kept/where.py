"""Which store a command means, and how what it did is told."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from cloister.app.config import Config, load_config
from cloister.cli.failures import UsageError
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import ConfigFile
from cloister.cli.store import StoreUrl, existing_store
from cloister.cli.terminal import one_json_object

if TYPE_CHECKING:
    from cloister.ports.store import Store

T = TypeVar("T")
SessionId = Annotated[str, Parameter(help="The session: `cloister session list` shows them.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Place:
    store: StoreUrl = None
    config: ConfigFile = None

    def settings(self) -> Config:
        return load_config(self.config)

    @asynccontextmanager
    async def open(self) -> "AsyncGenerator[Store, None]":
        async with existing_store(self.store, self.settings()) as store:
            yield store

    def do(self, work: "Callable[[Store], Awaitable[T]]") -> T:
        """Do something with the store."""

        async def done() -> T:
            async with self.open() as store:
                return await work(store)

        return run_interruptibly(done())


HERE = Place()


def tell(as_json: bool, data: dict[str, Any], said: str) -> None:
    """What was done: as JSON, or in words."""
    from cloister.cli.terminal import safe

    if as_json:
        with one_json_object() as write:
            write({"ok": True, **data})
    elif said:
        print(safe(said))


def sure(question: str, yes: bool) -> None:
    """Whoever gives `--yes`, or says so at a terminal, is. Raises `UsageError` otherwise."""
    if yes:
        return
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("this cannot be undone, and there is no terminal to ask at", "give --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was done")


Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", show_default=False, help="Do not ask.")]
