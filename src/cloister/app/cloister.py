"""Cloister: the object a host holds. Opens sessions, restores them, closes everything behind it."""

from collections.abc import Iterable, Mapping
from typing import Any

from cloister.app.engines import EngineRoom
from cloister.app.keys import SnapshotKey
from cloister.app.runtime import LanguageRuntime
from cloister.core.errors import CloisterError, InvalidInput, SessionExists, SessionNotFound, SnapshotError
from cloister.core.ids import IdSource, check_session_id
from cloister.core.language import Language, parse_language
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult
from cloister.core.session import SessionMeta
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.engine import TypeCheck
from cloister.sessions.envelope import unseal
from cloister.sessions.session import Session, SessionOptions
from cloister.tools.registry import ToolRegistry


class Cloister:
    """A runtime in this process. Use it as `async with Cloister(...) as cloister`.

    tools: given to every session, besides its own. limits, type_check: the defaults of its sessions.
    workers: how many programs of one language run at once (default: one per core, at least two).
    require_confinement: refuse to run anything unless every layer of the operating system is around the workers.
    snapshot_key: authenticates snapshots; without it a key is made and kept in the user's data directory.
    """

    def __init__(
        self,
        *,
        tools: Iterable[object] = (),
        limits: SessionLimits | None = None,
        type_check: str | TypeCheck = TypeCheck.WARN,
        workers: int | None = None,
        require_confinement: bool = False,
        snapshot_key: bytes | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._tools = ToolRegistry(tools)
        self._limits = limits or SessionLimits()
        self._type_check = _parse_type_check(type_check)
        if workers is not None and (type(workers) is not int or workers < 1):
            raise InvalidInput(f"workers must be a whole number of at least 1, not {workers!r}")
        self._clock = clock or SystemClock()
        self._ids = IdSource(self._clock.now_ms)
        self._key = SnapshotKey(snapshot_key)
        self._room = EngineRoom(workers=workers, require_confinement=require_confinement)
        self._sessions: dict[str, Session] = {}
        self._entered = False
        self._left = False

    async def __aenter__(self) -> "Cloister":
        if self._entered:
            raise CloisterError("a Cloister is entered once; make another")
        self._entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._left = True
        try:
            for session in list(self._sessions.values()):
                await session.close()
        finally:
            await self._room.close()

    # -- sessions --------------------------------------------------------------------------------------------

    async def open_session(
        self,
        session_id: str = "default",
        *,
        language: str | Language = Language.PYTHON,
        tools: Iterable[object] = (),
        limits: SessionLimits | None = None,
        type_check: str | TypeCheck | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Session:
        """A new, empty session. An id that is in use is refused."""
        options = SessionOptions(
            id=self._free_id(session_id),
            language=parse_language(language),
            limits=limits or self._limits,
            type_check=self._type_check if type_check is None else _parse_type_check(type_check),
            title=title,
            labels=dict(labels or {}),
        )
        return await self._add(options, tools, None)

    async def restore_session(
        self,
        snapshot: bytes,
        *,
        session_id: str | None = None,
        tools: Iterable[object] | None = None,
        limits: SessionLimits | None = None,
        type_check: str | TypeCheck | None = None,
    ) -> Session:
        """A session as it was. `session_id` names the copy; `limits` may only narrow what the snapshot had.

        `tools` default to those of the session the snapshot was taken of, if it is still open here.
        """
        envelope = unseal(snapshot, self._key())
        options = SessionOptions(
            id=self._free_id(envelope.session_id if session_id is None else session_id),
            language=envelope.language,
            limits=envelope.limits.narrowed_by(limits),
            type_check=self._type_check if type_check is None else _parse_type_check(type_check),
            title=envelope.title,
            labels=envelope.labels,
        )
        if tools is None:
            original = self._sessions.get(envelope.session_id)
            tools = [t for t in original.tools if t.full_name not in self._tools] if original else ()
        return await self._add(options, tools, envelope)

    def can_restore(self, snapshot: bytes, *, tools: Iterable[object] | None = None) -> bool:
        """Whether `restore_session` would take these bytes, as far as can be told without an engine."""
        try:
            envelope = unseal(snapshot, self._key())
        except SnapshotError:
            return False
        known = self._tools.digests()
        original = self._sessions.get(envelope.session_id)
        if tools is not None:
            known |= ToolRegistry(tools).digests()
        elif original is not None:
            known |= original.tools.digests()
        try:
            envelope.check_capabilities(known)
        except SnapshotError:
            return False
        return envelope.engine_version == _engine_version(envelope.language)

    def session(self, session_id: str) -> Session:
        """The open session of that id; raises `SessionNotFound`."""
        found = self.find(session_id)
        if found is None:
            raise SessionNotFound(f"there is no session {session_id!r}")
        return found

    def find(self, session_id: str) -> Session | None:
        """The open session of that id, if there is one."""
        return self._sessions.get(check_session_id(session_id))

    def runtime(self, language: str | Language) -> LanguageRuntime:
        """One language's sessions behind `RunRequest` and `RunResult`."""
        return LanguageRuntime(self, parse_language(language))

    async def list_sessions(self) -> list[SessionMeta]:
        return [session.meta() for session in self._sessions.values()]

    async def destroy_session(self, session_id: str) -> bool:
        """Close a session and forget it. False if there was none to destroy, for example as it was closed."""
        session = self.find(session_id)
        if session is None:
            return False
        await session.close()
        return True

    @staticmethod
    async def run_once(
        code: str,
        *,
        language: str | Language = Language.PYTHON,
        tools: Iterable[object] = (),
        inputs: Mapping[str, Any] | None = None,
        limits: SessionLimits | None = None,
        type_check: str | TypeCheck = TypeCheck.WARN,
        require_confinement: bool = False,
    ) -> RunResult:
        """Run one program in a runtime of its own."""
        async with Cloister(
            tools=tools, limits=limits, type_check=type_check, require_confinement=require_confinement
        ) as cloister:
            session = await cloister.open_session(language=language)
            return await session.run(code, inputs=inputs)

    # -- inside ----------------------------------------------------------------------------------------------

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.id, None)

    def _free_id(self, session_id: object) -> str:
        if not self._entered:
            raise CloisterError("enter the Cloister first: async with Cloister() as cloister")
        if self._left:
            raise CloisterError("this Cloister is closed: make another")
        checked = check_session_id(session_id)
        if checked in self._sessions:
            raise SessionExists(f"there is a session {checked!r} already: close it, or choose another id")
        return checked

    async def _add(self, options: SessionOptions, tools: Iterable[object], origin: Any) -> Session:
        registry = ToolRegistry([*self._tools, *tools])
        for tool in registry:
            _ = tool.capability  # a tool that cannot be described is refused now, not in the middle of a run
        seats = await self._room.seats(options.language)
        seats.engine.check_limits(options.limits)
        session = Session(
            options,
            registry,
            seats,
            self._clock,
            self._ids,
            self._key,
            origin=origin,
            on_close=self._forget,
        )
        if origin is not None:
            session.check_origin(origin)
        # Somebody may have taken the id while the engine started.
        self._free_id(options.id)
        self._sessions[options.id] = session
        return session


def _engine_version(language: Language) -> str:
    from cloister.app.engines import make_engine

    return make_engine(language, workers=1, require_confinement=False).version


def _parse_type_check(value: object) -> TypeCheck:
    try:
        return TypeCheck(value)
    except ValueError:
        raise InvalidInput(f"type_check is 'strict', 'warn' or 'off', not {value!r}") from None
