"""The letterbox: answers that others have left in the store for questions of this host, taken as they come.

Somebody at a shell, or another host, cannot decide a question of a session that this host has; they write their answer
into its row, with an event. While no question is open here nothing is listened to. It decides nothing itself: whatever
it finds goes to the desk, which refuses what comes too late.
"""

import logging

from cloister.core.errors import StoreError
from cloister.gate import ApprovalDesk
from cloister.ports.clock import Clock
from cloister.ports.store import Store
from cloister.sessions.questions import ANSWERED, take_answer

log = logging.getLogger("cloister.app")
# Nothing depends on it: whoever waits is woken by the event of the answer.
_LONG_MS = 60_000
# A store that is in trouble is left alone for so long.
_TROUBLE_SECONDS = 5
_PAGE = 1000


class Letterbox:
    def __init__(self, store: Store, desk: ApprovalDesk, clock: Clock) -> None:
        self._store = store
        self._desk = desk
        self._clock = clock
        # Every answer up to this event was seen.
        self._seen = 0

    async def look(self) -> None:
        """Wait until there may be an answer, and take it. To be called again and again."""
        await self._desk.asked()
        try:
            await self._store.wait_for_events(self._seen, _LONG_MS)
            # First: what is written from here on is for the next look.
            self._seen = await self._store.last_event()
            await self._take_all()
        except StoreError as error:
            log.warning("answers that others have given are not seen: %s", error)
            await self._clock.sleep(_TROUBLE_SECONDS)

    async def _take_all(self) -> None:
        after: str | None = None
        while rows := await self._store.approvals(state=ANSWERED, after=after, limit=_PAGE):
            for row in rows:
                take_answer(self._desk, row)
            after = rows[-1].id
