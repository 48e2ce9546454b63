"""The threads of a host with a store: opened and closed with it, their sessions among its own."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from cloister.core.errors import (
    CodeExecutionUnavailable,
    ConfinementUnavailable,
    EngineUnavailable,
    NotKept,
    SessionExists,
    SessionNotFound,
    within,
)
from cloister.core.file import Mount
from cloister.core.ids import IdSource, check_session_id
from cloister.core.language import Language
from cloister.core.thread import DriverKind
from cloister.core.turn import TurnEnvironmentParams
from cloister.ports.clock import Clock
from cloister.ports.model import Models
from cloister.sessions.environments import base_of, check_for_new_session, check_known
from cloister.sessions.events import Events
from cloister.sessions.ledger import Ledger
from cloister.sessions.session import Session
from cloister.threads import ClientTools, Threads
from cloister.threads.drivers import CodeDriver, NativeDriver
from cloister.threads.rows import threads_of

if TYPE_CHECKING:
    from cloister.app.cloister import Cloister

log = logging.getLogger("cloister.app")
# Whoever answers a question for a host that has ended has its session for a moment.
_WAIT_MS = 2_000


class Conversing:
    """A part of `Cloister`."""

    _ledger: Ledger | None
    _events: Events
    _clock: Clock
    _ids: IdSource
    _environments: Mapping[str, Mount]
    _threads: Threads | None = None
    _models: Models | None
    _model: str | None

    @property
    def environments(self) -> Mapping[str, Mount]:
        """What threads may work in beside their own files, by id."""
        return self._environments

    @property
    def threads(self) -> Threads:
        """Conversations: threads, their turns and events. They are kept in a store."""
        if self._ledger is None:
            raise NotKept("threads are kept in a store", hint="give one to the Cloister: store='sqlite:///...'")
        if self._threads is None:
            host = _Host(cast("Cloister", self))
            self._threads = Threads(self._ledger, self._events, self._clock, self._ids, host)
            if self._models is not None:
                self._threads.drive(DriverKind.CODE, CodeDriver(self._models, self._model))
                self._threads.drive(DriverKind.NATIVE, NativeDriver(self._models, self._model))
        return self._threads

    async def _open_threads(self) -> None:
        if self._ledger is not None:
            await self.threads.open()

    async def _destroy_stored(self, session_id: str) -> bool:
        """A session that is closed here, with all that is in the store of it, its threads too."""
        assert self._ledger is not None
        thread_ids = await threads_of(self._ledger.store, session_id)
        destroyed = await self._ledger.destroy(session_id)
        if destroyed and self._threads is not None:
            await self._threads.destroyed(session_id, thread_ids)
        return destroyed

    async def _close_threads(self) -> None:
        """Before anything else: what ends from now on has only been left."""
        if self._threads is not None:
            await self._threads.close()


class _Host:
    def __init__(self, cloister: "Cloister") -> None:
        self._cloister = cloister

    def find(self, session_id: str) -> Session | None:
        return self._cloister.find(session_id)

    def check_environments(self, wanted: Sequence[TurnEnvironmentParams], *, is_new: bool) -> None:
        """Refuse what there is not here and, for a session that is yet to be made, what it would not have."""
        known = self._cloister.environments
        for place, one in enumerate(wanted):
            with within("environments", place):
                check_known(one.environment_id, known)
                base_of(one.environment_id, one.cwd)
        if is_new:
            check_for_new_session(wanted, known)

    async def open_for_thread(
        self, session_id: str, tenant: str, source: ClientTools | None, language: Language | None = None
    ) -> Session:
        """The session of that id, new or as it is in the store, with the tools of its client if it can be given any."""
        # Of one that is there already, Python says nothing.
        speaks = language or Language.PYTHON
        try:
            session = await self._open(check_session_id(session_id), tenant, source, speaks)
        except (EngineUnavailable, ConfinementUnavailable) as error:
            log.error("session %s of a thread found no worker: %s", session_id, error)
            raise CodeExecutionUnavailable(
                f"no {speaks} programs can be run here now: no worker starts",
                hint="the log of the host says why; then ask again",
            ) from error
        if session.meta().tenant != tenant:
            await session.close()
            raise SessionNotFound(f"there is no session {session_id!r}")
        return session

    async def _open(self, session_id: str, tenant: str, source: ClientTools | None, language: Language) -> Session:
        if source is not None:
            try:
                return await self._cloister.open_session(
                    session_id, language=language, tenant=tenant, sources=[source], wait_ms=_WAIT_MS
                )
            except SessionExists:
                # It may go on already, with what it had: then it is given them now.
                pass
        return await self._cloister.open_session(session_id, language=language, tenant=tenant, wait_ms=_WAIT_MS)
