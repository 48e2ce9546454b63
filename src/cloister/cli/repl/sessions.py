"""The sessions of one repl: the one that is talked to, and those that it was forked from."""

import asyncio
import signal
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from cloister.cli.failures import UsageError
from cloister.cli.interrupt import leave
from cloister.cli.repl.cells import Conversation
from cloister.cli.terminal import ProgramOutput
from cloister.core.event import CALL_ENDS, Event
from cloister.sessions import Session

if TYPE_CHECKING:
    from cloister.app import Cloister

FIRST = "repl"
# Calls that are remembered for `:calls`.
_MOST_CALLS = 1000


class CallBook:
    """The calls of each session, as their records came. An event listener."""

    def __init__(self) -> None:
        self._records: dict[str, deque[Mapping[str, Any]]] = {}

    def __call__(self, event: Event) -> None:
        if event.kind in CALL_ENDS:
            self._records.setdefault(event.session_id, deque(maxlen=_MOST_CALLS)).append(event.data["record"])

    def of(self, session_id: str) -> list[Mapping[str, Any]]:
        return list(self._records.get(session_id, ()))


class Sessions:
    def __init__(self, cloister: "Cloister", first: Session, output: ProgramOutput, calls: CallBook) -> None:
        self.cloister = cloister
        self.output = output
        self.calls = calls
        self.current = Conversation(first, output)
        self.all = {first.id: self.current}
        self._busy: Conversation | None = None
        self._stopping: asyncio.Task[None] | None = None

    # -- work that Ctrl-C stops ------------------------------------------------------------------------------

    async def run(self, code: str) -> None:
        await self._attend(self.current, self.current.run(code))

    async def answered(self, session_id: str, cell_id: str) -> None:
        """A question was decided: its cell goes on, and what stands behind it."""
        asked = self.all[session_id]
        asked.answered(cell_id)
        await self._attend(asked, asked.settle())

    async def stop(self, cell_id: str) -> None:
        await self._attend(self.current, self.current.stop(cell_id))

    async def wait(self, cell_id: str) -> None:
        await self._attend(self.current, self.current.ask_again(cell_id))

    async def _attend(self, conversation: Conversation, work: Coroutine[Any, Any, None]) -> None:
        self._busy = conversation
        try:
            await work
        finally:
            self._busy = None
        if self._stopping is not None:
            await self._stopping
            self._stopping = None

    def interrupt(self, signum: int) -> bool:
        """What a signal does while a cell runs: the first stops the cell, the second stops us. False when none runs."""
        if signum != signal.SIGINT or self._busy is None:
            return False
        if self._stopping is not None and not self._stopping.done():
            leave(signum)
        self._stopping = asyncio.get_running_loop().create_task(self._busy.stop_running())
        return True

    async def adopt(self) -> None:
        """Take up the cells that the current session had when it came here."""
        await self._attend(self.current, self.current.adopt())

    # -- more than one ---------------------------------------------------------------------------------------

    async def fork(self, name: str | None) -> Conversation:
        """A copy of the current session under another name; from now on that one is talked to."""
        if name is None:
            number = 1
            while f"fork-{number}" in self.all:
                number += 1
            name = f"fork-{number}"
        snapshot = await self.current.session.snapshot()
        copy = await self.cloister.restore_session(snapshot, session_id=name)
        self.current = self.all[copy.id] = Conversation(copy, self.output)
        await self._attend(self.current, self.current.adopt())
        return self.current

    def switch(self, name: str) -> None:
        if name not in self.all:
            raise UsageError(f"there is no session {name!r}", f"there are {', '.join(self.all)}")
        self.current = self.all[name]
