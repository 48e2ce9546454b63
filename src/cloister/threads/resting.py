"""Which of the sessions that were opened for threads stay open: those in use, and the few that were needed last.

An idle thread holds nothing: its session is closed and its book put away, until somebody has something to say. Whoever
works with a session has it in hand, and it is not closed under them; whoever comes while one is being closed waits
until it is, and opens it anew.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import islice

from cloister.core.errors import CloisterError
from cloister.sessions.session import Session

log = logging.getLogger("cloister.threads")
# Sessions that were opened for a thread and have nothing to do stay open up to this number.
MOST_IDLE = 64


class Resting:
    """Of one host. Event loop only. `is_busy` says of a session whether one of its threads has something to do, and
    `forget` hears that it is about to be closed."""

    def __init__(
        self,
        find: Callable[[str], Session | None],
        is_busy: Callable[[str], bool],
        forget: Callable[[str], None],
    ) -> None:
        self._find = find
        self._is_busy = is_busy
        self._forget = forget
        # Opened here, the one that was needed longest ago first.
        self._own: dict[str, None] = {}
        self._in_hand: dict[str, int] = {}
        self._going: dict[str, asyncio.Task[None]] = {}
        # Looked at since one has come to rest, and found with something that goes on in them: they do not count.
        self._working: set[str] = set()
        self._left = False

    def own(self, session_id: str) -> None:
        """It was opened for a thread: closing it is ours."""
        self._own[session_id] = None

    def drop(self, session_id: str) -> None:
        """It is not there any more."""
        self._own.pop(session_id, None)
        self._working.discard(session_id)

    @contextmanager
    def in_hand(self, session_id: str) -> Generator[None]:
        """It stays open for as long."""
        self._in_hand[session_id] = self._in_hand.get(session_id, 0) + 1
        try:
            yield
        finally:
            self._in_hand[session_id] -= 1
            if not self._in_hand[session_id]:
                del self._in_hand[session_id]
            self.rest(session_id)

    def is_in_hand(self, session_id: str) -> bool:
        return session_id in self._in_hand

    async def gone(self, session_id: str) -> None:
        """Returns when it is not being closed any more. For who has it in hand, before it is opened."""
        while (going := self._going.get(session_id)) is not None:
            await asyncio.wait([going])

    def rest(self, session_id: str) -> None:
        """It has nothing to do for now. Of those that were opened here only so many stay open."""
        if self._left or session_id not in self._own:
            return
        self._own[session_id] = self._own.pop(session_id)
        self._working.clear()
        self._thin_out()

    async def close(self) -> None:
        """The host goes, and closes its sessions itself."""
        self._left = True
        tasks = list(self._going.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _thin_out(self) -> None:
        # One that is being closed is not ours any more from some moment on.
        going = len(self._own.keys() & self._going.keys())
        over = len(self._own) - going - len(self._working) - MOST_IDLE
        if over > 0 and not self._left:
            for name in list(islice(filter(self._may_go, self._own), over)):
                going = asyncio.get_running_loop().create_task(self._let_go(name), name=f"rest of {name}")
                self._going[name] = going

    def _may_go(self, session_id: str) -> bool:
        if session_id in self._in_hand or session_id in self._going or session_id in self._working:
            return False
        return not self._is_busy(session_id)

    async def _let_go(self, session_id: str) -> None:
        try:
            session = self._find(session_id)
            if session is not None and await session.cells():
                # Something goes on in it, or its end is yet to be read: another goes in its place.
                if session_id in self._own:
                    self._own[session_id] = self._own.pop(session_id)
                    self._working.add(session_id)
                return
            if session_id in self._in_hand or self._is_busy(session_id):
                return
            # Nothing is awaited in between: nobody has a book of a session that is on its way.
            self.drop(session_id)
            self._forget(session_id)
            if session is not None:
                await session.close()
        except CloisterError as error:
            log.warning("session %s could not be closed: %s", session_id, error)
        finally:
            del self._going[session_id]
            if session_id in self._working:
                self._thin_out()
