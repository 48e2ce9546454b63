"""Sessions that are written down and that nobody here has opened: found, and taken up when somebody wants one."""

import asyncio
from typing import TYPE_CHECKING, cast

from cloister.app.engines import EngineRoom
from cloister.app.options import check_since
from cloister.core.errors import InvalidInput, SessionExists, SessionNotFound
from cloister.core.ids import check_session_id
from cloister.core.language import parse_language
from cloister.core.limits import SessionLimits
from cloister.core.replay import ReplayReport
from cloister.core.session import SessionMeta
from cloister.core.wire import from_json
from cloister.ports.clock import moment
from cloister.ports.rows import CellRow, SessionRow
from cloister.sessions import Session
from cloister.sessions.events import Events, EventStream
from cloister.sessions.ledger import Ledger
from cloister.sessions.replay import replay_cell
from cloister.sessions.tail import EventTail

if TYPE_CHECKING:
    from cloister.app.cloister import Cloister


class Stored:
    """A part of `Cloister`."""

    _ledger: Ledger | None
    _sessions: dict[str, Session]
    _room: EngineRoom
    # Being taken up at this moment: whoever else wants one waits for the same.
    _taking: "dict[str, asyncio.Task[Session]]"
    _events: Events

    def _check_usable(self) -> None:
        raise NotImplementedError

    @property
    def is_kept(self) -> bool:
        """Whether there is a store."""
        return self._ledger is not None

    async def take_up(self, session_id: str, *, wait_ms: int = 0) -> Session:
        """The session of that id: the one that is open here, or the one in the store, as it was opened last. Raises
        `SessionNotFound` if there is neither, and what `open_session` raises."""
        checked = check_session_id(session_id)
        found = self._sessions.get(checked)
        if found is not None:
            return found
        if self._ledger is None or await self._ledger.store.session(checked) is None:
            raise SessionNotFound(f"there is no session {checked!r}")
        under_way = self._taking.get(checked)
        if under_way is None:
            under_way = self._taking[checked] = asyncio.ensure_future(self._take(checked, wait_ms))
            under_way.add_done_callback(lambda _: self._taking.pop(checked, None))
        # One who gives up waiting does not take it from the others.
        return await asyncio.shield(under_way)

    async def _take(self, session_id: str, wait_ms: int) -> Session:
        try:
            return await cast("Cloister", self).open_session(session_id, wait_ms=wait_ms)
        except SessionExists:
            # Somebody has opened it by that name meanwhile.
            found = self._sessions.get(session_id)
            if found is None:
                raise
            return found

    async def stored_session(self, session_id: str) -> SessionMeta | None:
        """What is written down of one session."""
        if self._ledger is None:
            return None
        row = await self._ledger.store.session(check_session_id(session_id))
        return _meta(row) if row is not None else None

    async def stored_sessions(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[SessionMeta]:
        """Sessions that are written down, whoever has them open, in the order of their ids; a tenant's, or all."""
        if self._ledger is None:
            return []
        return [_meta(row) for row in await self._ledger.store.sessions(tenant=tenant, after=after, limit=limit)]

    async def stored_cell(self, cell_id: str) -> CellRow | None:
        """What is written down of one cell, also after somebody has read its end."""
        return await self._ledger.store.cell(cell_id) if self._ledger is not None else None

    async def asked_before(self, session_id: str, operation_key: str) -> CellRow | None:
        """The cell of that session that a client has asked for by that key, if it is written down."""
        if self._ledger is None:
            return None
        found = await self._ledger.store.cells(session_id, operation_key=operation_key, limit=1)
        return found[0] if found else None

    async def last_event(self, session_id: str | None = None, upto: int | None = None) -> int:
        """The number of the last event that is in the log, of one session or of all, up to that one; 0 if there is
        none."""
        return await self._ledger.store.last_event(session_id=session_id, upto=upto) if self._ledger is not None else 0

    def events(self, *, since: int | None = None) -> EventTail | EventStream:
        """What happens in all sessions from now on: `async for event in cloister.events()`. With a store that is what
        all its hosts write down; with `since`, what happened after the event of that number comes first."""
        if self._ledger is None:
            if since is not None:
                raise InvalidInput("events of before are kept in a store", hint="give a store to the Cloister")
            return self._events.subscribe_to_all()
        return self._ledger.tail(self._events.last if since is None else check_since(since))

    async def replay(self, cell_id: str) -> ReplayReport:
        """Go over a finished cell again, held against its journal: nothing is called, asked or written. Raises
        `CellNotFound`, and `CannotReplay` for what has not ended or is not all on record."""
        if self._ledger is None:
            raise InvalidInput("what cells did is not written down here", hint="give a store to the Cloister")
        self._check_usable()
        return await replay_cell(self._ledger.store, self._room.seats, cell_id)


def _meta(row: SessionRow) -> SessionMeta:
    doc = row.doc
    return SessionMeta(
        id=row.id,
        created_at=moment(row.created_ms),
        last_used_at=moment(row.used_ms),
        language=parse_language(doc["language"]),
        limits=from_json(SessionLimits, doc["limits"]),
        title=doc["title"],
        labels=doc["labels"],
        tenant=row.tenant,
    )
