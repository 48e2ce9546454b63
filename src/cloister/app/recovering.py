"""What a host is asked about what it has found in its store."""

from collections.abc import Awaitable, Callable

from cloister.app.recovery import RecoveredCell, Recovery, RecoveryReport
from cloister.core.errors import CellNotFound, SessionExists
from cloister.sessions import Session


class Recovering:
    """A part of `Cloister`."""

    _recovery: Recovery | None
    _sessions: dict[str, Session]

    async def recovery_report(self) -> RecoveryReport:
        """What this host has found in the store, when it opened and since then, and what became of it."""
        return self._recovery.report if self._recovery is not None else RecoveryReport()

    async def abandon(self, held: str) -> list[RecoveredCell]:
        """Give up what `recovery_report()` says is held: the cells of that session, or the cell of that id. They fail
        and say why, and the session can be opened. Raises `CellNotFound` if nothing of that id is held."""
        if self._recovery is None:
            raise CellNotFound(f"no session or cell {held!r} is held here: there is no store")
        return await self._recovery.abandon(held)

    async def _made_or_waited_for(
        self, session_id: str, making: Awaitable[Session], reopen: Callable[[], Awaitable[Session | None]] | None
    ) -> Session:
        """A new session; or the one that another process has made in the same moment, once that process is done."""
        try:
            return await making
        except SessionExists:
            # One that is open here is not to be waited for.
            if reopen is None or session_id in self._sessions or (theirs := await reopen()) is None:
                raise
            return theirs
