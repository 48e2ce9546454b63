"""Cloister: the object a host holds. Opens sessions, restores them, closes everything behind it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from cloister.app import options as given
from cloister.app.address import make_store
from cloister.app.approving import Approving
from cloister.app.conversing import Conversing
from cloister.app.engines import EngineRoom, engine_version
from cloister.app.granting import Granting, Share, plugin_states
from cloister.app.keys import Keys
from cloister.app.letterbox import Letterbox
from cloister.app.oneshot import OneShot
from cloister.app.recovering import Recovering
from cloister.app.recovery import Recovery
from cloister.app.runtime import LanguageRuntime
from cloister.app.spawning import Spawning
from cloister.app.stored import Stored
from cloister.app.terms import Terms
from cloister.app.untold import Untold
from cloister.app.upkeep import Upkeep
from cloister.cells.supervisor import Supervisor
from cloister.core import errors
from cloister.core.approval import Approver
from cloister.core.cell import CellLimits
from cloister.core.durability import Durability
from cloister.core.errors import CloisterError, SessionExists, SessionNotFound, SnapshotError
from cloister.core.event import EventRetention
from cloister.core.file import FileLimits
from cloister.core.ids import IdSource, check_session_id
from cloister.core.inside import CompleteOptions, SpawnOptions
from cloister.core.language import Language, parse_language
from cloister.core.limits import SessionLimits
from cloister.core.session import SessionMeta
from cloister.gate import ApprovalDesk, Hooks, Policy, Wiring
from cloister.gate.secrets import MemorySecrets
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.engine import TypeCheck
from cloister.ports.journal import Journal
from cloister.ports.keys import Purpose
from cloister.ports.model import Models
from cloister.ports.rows import Batch, Put, SessionRow
from cloister.ports.telemetry import Telemetry
from cloister.sessions.belongings import Belongings
from cloister.sessions.envelope import Envelope, unseal
from cloister.sessions.environments import parse_environments
from cloister.sessions.events import EventListener, Events
from cloister.sessions.files import check_file_limits, parse_files
from cloister.sessions.grounds import Grounds, SessionOptions
from cloister.sessions.journal import StoreJournal
from cloister.sessions.ledger import Ledger
from cloister.sessions.overlay import parse_overlays
from cloister.sessions.plugins.finding import parse_plugins
from cloister.sessions.questions import QuestionBook
from cloister.sessions.session import Session
from cloister.sessions.vault import Vault
from cloister.stores.memory import MemoryJournal
from cloister.tools.registry import ToolRegistry


class Cloister(Approving, Stored, Conversing, Recovering, Spawning, OneShot):
    """A runtime in this process. Use it as `async with Cloister(...) as cloister`.

    tools, sources, plugins: given to every session, besides its own; a source is a `ToolSource`, or an `Overlay` around
    one; a plugin is a `Plugin`, its name, or its name with options. limits, type_check: the defaults of its sessions.
    workers: how many programs of one language run at once (default: one per core, at least two).
    require_confinement: refuse to run anything unless every layer of the operating system is around the workers.
    snapshot_key, secret_key: authenticate snapshots, and seal what `session.secrets` keeps in a store: a key, or
    several, the newest first. Otherwise they come from the environment, or are made and kept in the data directory.

    approvals: policies that tighten those of the tools, by name: `{"shop.refund": "manual"}`. deny: rules of what may
    never be called. approver: answers questions inside this process; without it they wait for `decide`.
    approval_ttl_ms: how long a question stays open. hooks: see `Hook`. secrets: what programs may use and never see.
    on_event: hears of what happens in all sessions; called on the event loop, so it must be quick. cells: how many
    there may be, how long they may take and how much of their output is told; see `CellLimits`. files: how many and how
    large they may be in a session; see `FileLimits`. store: where sessions are written down; durability: how much of
    them; event_retention: for how long their events. models: what drives threads, opened and closed by whoever made
    them; model: the name of the one that is meant when neither a turn nor its thread names one. telemetry: an
    `OpenTelemetry` of `cloister.telemetry`. environments: the directories of this machine that threads may work in, by
    id; see `Mount`. complete: let programs ask a model; see `CompleteOptions`. spawn: let them start
    sessions of their own; see `SpawnOptions`.
    """

    def __init__(
        self,
        *,
        tools: Iterable[object] = (),
        sources: Iterable[object] = (),
        plugins: Iterable[object] = (),
        limits: SessionLimits | None = None,
        type_check: str | TypeCheck = TypeCheck.WARN,
        workers: int | None = None,
        require_confinement: bool = False,
        snapshot_key: bytes | Sequence[bytes] | None = None,
        secret_key: bytes | Sequence[bytes] | None = None,
        clock: Clock | None = None,
        approvals: Mapping[str, object] | None = None,
        deny: Iterable[object] = (),
        approver: Approver | None = None,
        approval_ttl_ms: int | None = None,
        hooks: Sequence[object] = (),
        secrets: Mapping[str, object] | None = None,
        on_event: EventListener | None = None,
        cells: CellLimits | None = None,
        store: object = "memory:",
        durability: str | Durability | None = None,
        files: FileLimits | None = None,
        event_retention: EventRetention | None = None,
        models: Models | None = None,
        model: str | None = None,
        environments: Mapping[str, object] | None = None,
        telemetry: Telemetry | None = None,
        complete: CompleteOptions | None = None,
        spawn: SpawnOptions | None = None,
    ) -> None:
        self._models, self._model = given.check_models(models, model, telemetry)
        journals: list[Journal] = []
        self._tools = ToolRegistry([*tools, *self._inside(complete, spawn, journals)])
        self._clock = clock or SystemClock()
        policy, added = Policy(overrides=approvals, deny=deny), parse_plugins(plugins)
        self._granting = Granting(self._tools, policy, parse_overlays(sources), added, self._clock)
        self._hooks = Hooks.parse(hooks)
        self.telemetry = given.check_telemetry(telemetry)
        self._secrets = MemorySecrets.parse(secrets or {})
        self._limits = given.check_limits(limits) or SessionLimits()
        self._type_check = given.parse_type_check(type_check)
        given.check_workers(workers)
        self._ids = IdSource(self._clock.now_ms)
        made = make_store(store, self._clock)
        level = given.level_for(durability, made) or Durability.CALL
        self._durability = level if made is not None else Durability.NONE
        self._retention = given.check_retention(event_retention, made)
        self._ledger = Ledger(made, level, self._clock, self._ids, telemetry=telemetry) if made is not None else None
        event_log = self._ledger.event_log() if self._ledger is not None else None
        self._events = Events(self._clock, on_event, event_log, telemetry)
        emit, heard = self._events.emit, self._events.heard
        self._questions = QuestionBook(self._ledger, self._events)
        self._desk = ApprovalDesk(
            self._clock,
            self._ids,
            approver=approver,
            ttl_ms=approval_ttl_ms,
            emit=emit,
            heard=heard,
            record=self._questions.record,
        )
        journal = StoreJournal(self._ledger.store, self._ledger.ink) if self._ledger is not None else MemoryJournal()
        self._wiring = Wiring(self._clock, self._ids, self._desk, journal, emit, heard, telemetry=telemetry)
        # For sessions whose calls are not written down.
        self._light_wiring = given.without_journal(self._wiring)
        journals += (self._wiring.journal, self._light_wiring.journal)
        self._journaled = Durability.CALL if self._ledger is not None else Durability.NONE
        self._keys = Keys(Purpose.SNAPSHOT, snapshot_key)
        self._vault = Vault(Keys(Purpose.SECRET, secret_key))
        self._environments = parse_environments(environments)
        self._recovery: Recovery | None = None
        self._upkeep: Upkeep | None = None
        if self._ledger is not None:
            self._recovery = Recovery(
                self._ledger,
                self._desk,
                self._tools,
                self._events,
                self._clock,
                self._revive,
                self._vault,
                self._environments,
            )
        self._file_limits = check_file_limits(files)
        self._supervisor = Supervisor(given.check_cells(cells), self._clock)
        self._room = EngineRoom(workers=workers, require_confinement=require_confinement)
        self._sessions: dict[str, Session] = {}
        self._grounds: dict[str, Grounds] = {}
        self._taking: dict[str, asyncio.Task[Session]] = {}
        self._untold = Untold(emit, self._sessions)
        self._entered = False
        self._left = False

    async def __aenter__(self) -> "Cloister":
        if self._entered:
            raise CloisterError("a Cloister is entered once; make another")
        self._entered = True
        if self._ledger is not None:
            await self._ledger.open()
        try:
            await self._granting.open()
            if self._ledger is not None and self._recovery is not None:
                self._events.last = await self._ledger.store.last_event()
                await self._recovery.run()
                await self._open_threads()
                await self._sweep_children()
                letterbox = Letterbox(self._ledger.store, self._desk, self._clock)
                also = self._look_around
                self._upkeep = Upkeep(self._ledger, self._recovery, letterbox, self._retention, self._clock, also)
                self._upkeep.start()
            self._ready.set()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._left = True
        if self._upkeep is not None:
            await self._upkeep.close()
        await self._close_threads()
        await self._close_children()
        try:
            await self._supervisor.shut_down()
            if self._ledger is not None:
                await self._events.flush()
                self._events.leave()
                self._ledger.leaving = True
            for session in list(self._sessions.values()):
                await session.close()
        finally:
            self._events.close_all()
            await self._desk.close()
            await self._granting.close()
            await self._room.close()
            if self._ledger is not None:
                await self._events.flush()
                await self._ledger.close()

    # -- sessions --------------------------------------------------------------------------------------------

    async def open_session(
        self,
        session_id: str = "default",
        *,
        language: str | Language = Language.PYTHON,
        tools: Iterable[object] = (),
        sources: Iterable[object] = (),
        plugins: Iterable[object] = (),
        include_base_tools: bool = True,
        limits: SessionLimits | None = None,
        type_check: str | TypeCheck | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        tenant: str = "",
        approvals: Mapping[str, object] | None = None,
        deny: Iterable[object] = (),
        hooks: Sequence[object] = (),
        secrets: Mapping[str, object] | None = None,
        files: Mapping[str, object] | None = None,
        mounts: Mapping[str, object] | None = None,
        durability: str | Durability | None = None,
        wait_ms: int = 0,
    ) -> Session:
        """A new, empty session; or, in a store, the one of that id that is there. An id that is in use is refused.
        Without `include_base_tools` it has none of the runtime's tools, sources and plugins, only those given here.

        `approvals` and `deny` can only tighten what the runtime and the tools themselves say; `hooks` come after the
        runtime's; `secrets` come before those of the runtime with the same names. `files` are what a new session begins
        with, as text, bytes or `InitialFile`; `mounts` are real directories among its files: see `Mount`. `durability`
        is the runtime's unless it is given. `wait_ms`: how long to wait for a session that is open in another process.
        """
        initial, bounds = parse_files(files), given.check_limits(limits)
        terms = Terms.parse(tools, approvals, deny, hooks, secrets, sources, include_base_tools, plugins, mounts)
        wait_ms = given.check_wait(wait_ms)
        level, reopen = given.level_for(durability, self._ledger and self._ledger.store), None
        if self._recovery is not None:
            checked = check_session_id(session_id)
            if (waiting := await self._recovery.going(checked, terms)) is not None:
                return waiting
            self._free_id(checked)
            reopen = partial(self._recovery.reopen, checked, language, bounds, terms, level, wait_ms)
            if reopened := await reopen():
                return reopened
        options = SessionOptions(
            id=self._free_id(session_id),
            language=parse_language(language),
            limits=bounds or self._limits,
            type_check=self._type_check if type_check is None else given.parse_type_check(type_check),
            title=title,
            tenant=tenant,
            labels=dict(labels or {}),
            durability=level or self._durability,
            files=initial,
        )
        return await self._made_or_waited_for(options.id, self._add(options, None, terms), reopen if wait_ms else None)

    async def restore_session(
        self,
        snapshot: bytes,
        *,
        session_id: str | None = None,
        tools: Iterable[object] | None = None,
        sources: Iterable[object] | None = None,
        plugins: Iterable[object] | None = None,
        include_base_tools: bool = True,
        limits: SessionLimits | Mapping[str, int] | None = None,
        type_check: str | TypeCheck | None = None,
        approvals: Mapping[str, object] | None = None,
        deny: Iterable[object] = (),
        hooks: Sequence[object] = (),
        secrets: Mapping[str, object] | None = None,
        mounts: Mapping[str, object] | None = None,
        tenant: str | None = None,
    ) -> Session:
        """A session as it was. `session_id` names the copy; `limits` may only narrow what it had; with `tenant`, one
        of another is refused.

        `tools`, `sources` and `plugins` default to those of the session the snapshot was taken of, if it is still open
        here. Policies, hooks, secrets and mounts are the host's and in no snapshot: give them again.
        """
        envelope = unseal(snapshot, await self._keys.ring())
        if tenant is not None and envelope.tenant != tenant:
            raise errors.SnapshotForeign("the snapshot is another tenant's")
        options = SessionOptions(
            id=self._free_id(envelope.session_id if session_id is None else session_id),
            language=envelope.language,
            limits=envelope.limits.narrowed_by(limits),
            type_check=self._type_check if type_check is None else given.parse_type_check(type_check),
            title=envelope.title,
            labels=envelope.labels,
            tenant=envelope.tenant,
            durability=self._durability,
        )
        original = self._sessions.get(envelope.session_id)
        tools, sources, plugins = self._granting.defaults(original, tools, sources, plugins)
        terms = Terms.parse(tools, approvals, deny, hooks, secrets, sources, include_base_tools, plugins, mounts)
        return await self._add(options, envelope, terms)

    def can_restore(self, snapshot: bytes, *, tools: Iterable[object] | None = None) -> bool:
        """Whether `restore_session` would take these bytes, as far as can be told without an engine."""
        try:
            envelope = unseal(snapshot, self._keys.ring_now())
        except SnapshotError:
            return False
        original = self._sessions.get(envelope.session_id)
        if tools is None:
            tools = original.tools if original is not None else ()
        try:
            envelope.check_capabilities(self._tools.digests() | ToolRegistry(tools).digests())
        except SnapshotError:
            return False
        return envelope.engine_version == engine_version(envelope.language)

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
        if session is not None:
            await session.close()
        if self._ledger is not None and self._recovery is not None:
            self._recovery.forget(session_id)
            return await self._destroy_stored(session_id) or session is not None
        return session is not None

    # -- inside ----------------------------------------------------------------------------------------------

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        self._grounds.pop(session.id, None)
        if self._recovery is not None:
            self._recovery.forget(session.id)
        if self._ledger is not None and not self._ledger.leaving:
            self._ledger.let_go(session.id)

    def _check_usable(self) -> None:
        if not self._entered:
            raise CloisterError("enter the Cloister first: async with Cloister() as cloister")
        if self._left:
            raise CloisterError("this Cloister is closed: make another")

    def _free_id(self, session_id: object) -> str:
        self._check_usable()
        checked = check_session_id(session_id)
        if checked in self._sessions:
            raise SessionExists(f"there is a session {checked!r} already: close it, or choose another id")
        return checked

    async def _revive(self, row: SessionRow, terms: Terms, limits: SessionLimits | None) -> Session:
        """A session as it was written down."""
        return await self._add(given.options_of(row, limits), None, terms, row)

    async def _add(
        self, options: SessionOptions, origin: Envelope | None, terms: Terms, kept: SessionRow | None = None
    ) -> Session:
        share: Share | None = None
        try:
            tell = partial(self._untold.tell, options.id)
            share = await self._granting.share(terms, options, plugin_states(origin, kept), tell)
            grounds = Grounds(
                catalog=share.catalog,
                plugins=share.plugins,
                # A tool that cannot be described is refused now, not in the middle of a run.
                policy=self._granting.policy(terms, share.catalog),
                hooks=self._hooks.then(terms.hooks),
                secrets=self._secrets,
                own_secrets=terms.secrets,
                vault=self._vault,
                wiring=self._wiring if options.durability is self._journaled else self._light_wiring,
                snapshot_keys=self._keys,
                supervisor=self._supervisor,
                events=self._events,
                ledger=self._ledger,
                own_terms=terms.own,
                file_limits=self._file_limits,
                mounts=terms.mounts,
                environments=self._environments,
            )
            session = await self._make(options, self._under(terms, grounds), origin, kept)
            if terms.parent is not None:
                session.count_with(terms.parent)
            return session
        except BaseException:
            self._untold.drop(options.id)
            if share is not None:
                await share.close()
            raise

    async def _fork(
        self, grounds: Grounds, level: Durability, origin: Envelope, session_id: str | None, parent: Belongings
    ) -> Session:
        options = SessionOptions(
            id=self._free_id(self._ids.new("ses_") if session_id is None else session_id),
            language=origin.language,
            limits=origin.limits,
            type_check=self._type_check,
            title=origin.title,
            tenant=parent.tenant,
            labels=origin.labels,
            durability=level,
            environments=tuple(parent.environments.names),
        )
        share = Share(grounds.catalog, grounds.plugins)
        share = await self._granting.fork(share, options, partial(self._untold.tell, options.id))
        try:
            grounds = replace(grounds, catalog=share.catalog, plugins=share.plugins)
            return await self._make(options, grounds, origin, parent=parent)
        except BaseException:
            self._untold.drop(options.id)
            await share.close()
            raise

    async def _make(
        self,
        options: SessionOptions,
        grounds: Grounds,
        origin: Envelope | None,
        kept: SessionRow | None = None,
        parent: Belongings | None = None,
    ) -> Session:
        seats = await self._room.seats(options.language)
        seats.engine.check_limits(options.limits)
        fork = partial(self._fork, grounds, options.durability)
        session = Session(
            options, grounds, seats, origin=origin, kept=kept, fork=fork, parent=parent, on_close=self._forget
        )
        if origin is not None and parent is None:
            session.check_origin(origin)
        await self._register(session, options, grounds, kept)
        session.tell_of_itself(origin, forked=parent is not None)
        self._untold.release(options.id)
        return session

    async def _register(
        self, session: Session, options: SessionOptions, grounds: Grounds, kept: SessionRow | None
    ) -> None:
        # Somebody may have taken the id while the engine started.
        self._free_id(options.id)
        self._sessions[options.id], self._grounds[options.id] = session, grounds
        if self._ledger is not None and options.durability is not Durability.NONE:
            try:
                await self._enter(session, kept)
            except BaseException:
                del self._sessions[options.id]
                raise

    async def _enter(self, session: Session, kept: SessionRow | None) -> None:
        """From now on the session is in the store, and ours."""
        assert self._ledger is not None
        self._events.keep(session.id)
        if kept is not None:
            row = session.row(kept.image)
            await self._ledger.store.write(Batch((Put(row),), self._ledger.fences.get(session.id)))
        elif not await self._ledger.enter(session.id, session.first_writes()):
            raise SessionExists(f"session {session.id!r} is open in another process")
