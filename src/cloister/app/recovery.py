"""Recovery: what a host finds in its store when it opens, and later of hosts that have ended; what becomes of it.

Sessions with cells that have not ended are claimed, unless another host has them. A session that needs nothing but what
every session of this host gets goes on at once. One that was given tools, sources or terms of its own waits until
it is opened again with them, and so does one whose tools are not there as they were; or until it is abandoned.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from cloister.app.engines import engine_version
from cloister.app.terms import Terms
from cloister.core.approval import ApprovalState
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.durability import Durability
from cloister.core.errors import (
    CellNotFound,
    CloisterError,
    InvalidInput,
    InvalidLanguage,
    SecretsLocked,
    SessionExists,
    SnapshotCapabilityMismatch,
    SnapshotVersionMismatch,
)
from cloister.core.language import Language, parse_language
from cloister.core.limits import SessionLimits
from cloister.core.strand import Strand
from cloister.gate import ApprovalDesk
from cloister.ports.clock import Clock
from cloister.ports.rows import ApprovalRow, CellRow, Claim, Put, SecretRow, SessionRow
from cloister.sessions import Session
from cloister.sessions.abandoned import ended_row, has_ended
from cloister.sessions.events import Events
from cloister.sessions.ledger import Ledger
from cloister.sessions.questions import ANSWERED, question_of, take_answer
from cloister.sessions.vault import Vault
from cloister.tools.registry import ToolRegistry

_PAGE = 10_000
# So many sessions are asked one by one.
_FEW = 64
# Those that mean something beyond their own cell: open to be seen, or allowed for good.
_OPEN = (ApprovalState.PENDING, ANSWERED)
_LASTING = (*_OPEN, ApprovalState.ALLOWED)
# How often somebody who waits for another host's session looks whether it is free.
_LOOK_SECONDS = 0.25
_NOT_KEPT = ErrorObject(
    Code.INTERRUPTED,
    "its host ended, and how far it had come was not written down",
    "run it again if that does no harm, or open the session with durability='call'",
)


@dataclass(frozen=True, slots=True)
class RecoveredCell:
    """`outcome`: "goes on", "waits" for a person, "sleeps" until it is resumed, "begins" anew as it had not waited yet,
    was "interrupted" as its calls were not written down, has "ended" and is unread, was "abandoned", or the session is
    "held" until it is opened again, for `reason`."""

    session_id: str
    cell_id: str
    outcome: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    cells: tuple[RecoveredCell, ...] = ()
    # Sessions with cells that have not ended and that another host had when this one looked last.
    elsewhere: tuple[str, ...] = ()


@dataclass(slots=True)
class Held:
    """A session that was claimed and waits to be opened."""

    claim: Claim
    cells: list[CellRow] = field(default_factory=list[CellRow])
    sealed: Sequence[SecretRow] = ()

    @property
    def unfinished(self) -> list[CellRow]:
        return [row for row in self.cells if not has_ended(row)]


# A session from its row: under these terms, and limits no wider than before.
Revive: TypeAlias = Callable[[SessionRow, Terms, SessionLimits | None], Awaitable[Session]]


class Recovery:
    def __init__(
        self,
        ledger: Ledger,
        desk: ApprovalDesk,
        tools: ToolRegistry,
        events: Events,
        clock: Clock,
        revive: Revive,
        vault: Vault,
        environments: Collection[str] = (),
    ) -> None:
        self._ledger = ledger
        self._vault = vault
        self._environments = environments
        self._desk = desk
        self._tools = tools
        self._events = events
        self._clock = clock
        self._revive = revive
        # Claimed, and waiting to be opened.
        self._held: dict[str, Held] = {}
        # Going on, though nobody has asked for them yet.
        self._going: dict[str, Session] = {}
        # Being taken over or opened at this moment: whoever else wants one waits until that is over.
        self._busy: dict[str, asyncio.Future[None]] = {}
        self._found: dict[str, RecoveredCell] = {}
        self._elsewhere: set[str] = set()

    @property
    def report(self) -> RecoveryReport:
        return RecoveryReport(tuple(self._found.values()), tuple(sorted(self._elsewhere)))

    async def run(self) -> None:
        cells = await self._live_cells()
        claims = list(await self._ledger.claim(list(cells))) if cells else list[Claim]()
        with _collector_at_rest():
            await self._take(Held(claim, cells[claim.row.id]) for claim in claims)
        self._elsewhere = set(cells) - {claim.row.id for claim in claims}

    async def take_over(self) -> int:
        """Go on with what other hosts have left. What this host could not go on with is left to those that can, and is
        in the report. How many sessions it took."""
        await self._ledger.bury()
        store, wanted = self._ledger.store, list[str]()
        for session_id in await store.orphans():
            row = None if self._is_here(session_id) else await store.session(session_id)
            if row is None:
                continue
            cells = list(await store.cells(session_id, live=True))
            if reason := self._why_held(row, cells) or await self._why_locked(await store.secrets(session_id)):
                self._elsewhere.discard(session_id)
                self._note([RecoveredCell(session_id, cell.id, "held", reason) for cell in cells])
            else:
                wanted.append(session_id)
        wanted = [session_id for session_id in wanted if not self._is_here(session_id)]
        if not wanted:
            return 0
        with self._busy_with(wanted):
            claims = await self._ledger.claim(wanted)
            # Once more: now that they are ours, nobody else changes them.
            await self._take([Held(claim, list(await store.cells(claim.row.id, live=True))) for claim in claims])
            self._elsewhere -= {claim.row.id for claim in claims}
            return len(claims)

    async def look(self) -> None:
        """Whether there is anything to go on with, now."""
        await self.retry()
        await self.take_over()

    async def retry(self) -> None:
        """Go on with those whose tools have come."""
        for session_id, held in list(self._held.items()):
            if session_id in self._busy or not held.unfinished or self._why_held(held.claim.row, held.cells):
                continue
            if await self._why_locked(held.sealed) or session_id in self._busy:
                continue
            with self._busy_with([session_id]):
                await self._take([held])

    async def going(self, session_id: str, terms: Terms) -> Session | None:
        """A session that goes on already, for whoever opens it first."""
        while (busy := self._busy.get(session_id)) is not None:
            await asyncio.wait([busy])
        if session_id in self._going and terms.own:
            raise SessionExists(
                f"session {session_id!r} goes on already, with what it had: it had no tools or terms of its own"
            )
        return self._going.pop(session_id, None)

    async def reopen(
        self,
        session_id: str,
        language: str | Language,
        limits: SessionLimits | None,
        terms: Terms,
        durability: Durability | None,
        wait_ms: int,
    ) -> Session | None:
        """The session of that id that is in the store; None if there is none. At once after `going`."""
        with self._busy_with([session_id]):
            if durability is Durability.NONE:
                await self._check_unwritten(session_id)
                return None
            was_held = session_id in self._held
            held = self._held.get(session_id) or await self._find(session_id, wait_ms)
            if held is None:
                return None
            # If it is refused, it is held for whoever comes with what it needs.
            self._held[session_id] = held
            self._check_fit(held, language, terms)
            try:
                # Before anything goes on: a session whose secrets are locked stays as it was written down.
                await self._vault.open(held.sealed)
            except CloisterError:
                if not was_held:
                    del self._held[session_id]
                    self._ledger.let_go(session_id)
                raise
            session = await self._wake(held, _at_level(held, durability), terms, limits)
            del self._held[session_id]
            return session

    async def abandon(self, name: str) -> list[RecoveredCell]:
        """Fail what is held of a session, or one cell of it; the session can be opened then."""
        held = next((one for one in self._held.values() if name in _names(one)), None)
        if held is None and (found := next((cell for cell in self._found.values() if name in _of(cell)), None)):
            # Left by another host, and not claimed as this one could not go on with it.
            held = await self._find(found.session_id, 0) if found.outcome == "held" else None
        if held is None or not (cells := [row for row in held.unfinished if name in (row.id, row.session_id)]):
            raise CellNotFound(
                f"no session or cell {name!r} is held here", hint="`recovery_report()` lists those that are"
            )
        row = held.claim.row
        self._held[row.id] = held
        error = self._failure(row)
        await self._end(held, cells, error)
        self._desk.cancel(
            [one.id for one in self._desk.list(session_id=row.id) if one.cell_id in {cell.id for cell in cells}]
        )
        abandoned = [RecoveredCell(row.id, cell.id, "abandoned", error.message) for cell in cells]
        self._note(abandoned)
        return abandoned

    def forget(self, session_id: str) -> None:
        self._going.pop(session_id, None)
        self._held.pop(session_id, None)

    # -- inside ----------------------------------------------------------------------------------------------

    def _is_here(self, session_id: str) -> bool:
        return session_id in self._busy or session_id in self._held or self._ledger.fences.get(session_id) is not None

    @contextmanager
    def _busy_with(self, session_ids: Sequence[str]) -> Generator[None, None, None]:
        over = asyncio.get_running_loop().create_future()
        self._busy |= dict.fromkeys(session_ids, over)
        try:
            yield
        finally:
            for session_id in session_ids:
                del self._busy[session_id]
            over.set_result(None)

    async def _take(self, claimed: Iterable[Held]) -> None:
        """Sessions that are ours now: they go on, or are held."""
        claimed = list(claimed)
        names = {held.claim.row.id for held in claimed}
        self._assign(row for held in claimed for row in held.cells)
        await self._restore_approvals(names, {row.id for held in claimed for row in held.unfinished})
        secrets = await self._secrets_of(names)
        for held in claimed:
            row = held.claim.row
            held.sealed = secrets.get(row.id, [])
            reason = self._why_held(row, held.cells) or await self._why_locked(held.sealed)
            # Whatever keeps it from going on, it can be opened later.
            self._held[row.id] = held
            if reason is not None:
                self._note([RecoveredCell(row.id, cell.id, "held", reason) for cell in held.cells])
            else:
                self._going[row.id] = await self._wake(held, row, Terms.none(), None)
                del self._held[row.id]

    async def _wake(self, held: Held, row: SessionRow, terms: Terms, limits: SessionLimits | None) -> Session:
        lost = held.unfinished if row.doc["durability"] != Durability.CALL else []
        session = await self._revive(row, terms, limits)
        if lost:
            await self._end(held, lost, _NOT_KEPT)
        outcomes = await session.take_up(held.cells, held.sealed)
        outcomes |= dict.fromkeys((cell.id for cell in lost), "interrupted")
        self._note([RecoveredCell(row.id, cell_id, outcome) for cell_id, outcome in outcomes.items()])
        return session

    def _check_fit(self, held: Held, language: str | Language, terms: Terms) -> None:
        row, doc = held.claim.row, held.claim.row.doc
        speaks = parse_language(doc["language"])
        # Python is also what is meant when nothing is said.
        if parse_language(language) not in (speaks, Language.PYTHON):
            raise InvalidLanguage(f"session {row.id!r} speaks {speaks}")
        base = self._tools if terms.include_base else ()
        if held.unfinished and (why := self._why_elsewhere(row)):
            raise InvalidInput(
                f"session {row.id!r} cannot go on yet: {why}",
                hint="give them to the host, or give its cells up: `await cloister.abandon(...)`",
            )
        if held.unfinished and (why := _mismatch(doc, ToolRegistry([*base, *terms.tools]).digests())):
            raise SnapshotCapabilityMismatch(
                f"session {row.id!r} cannot go on yet: {why}",
                hint="open it with all that it was opened with, or give its cells up: `await cloister.abandon(...)`",
            )
        if row.image is not None and doc["engine_version"] != (here := engine_version(speaks)):
            raise SnapshotVersionMismatch(
                f"the variables of session {row.id!r} were written by {doc['engine_version']!r}; this is {here!r}",
                hint="open it with the same release of the engine, or destroy it",
            )

    async def _check_unwritten(self, session_id: str) -> None:
        if await self._ledger.store.session(session_id) is not None:
            raise InvalidInput(
                f"session {session_id!r} is in the store, and durability='none' would leave it there as it is",
                hint="destroy it first, or choose another id",
            )

    async def _find(self, session_id: str, wait_ms: int) -> Held | None:
        """The session in the store, claimed; None if there is none. Another host's is waited for, for so long."""
        deadline = self._clock.monotonic() + wait_ms / 1000
        while await self._ledger.store.session(session_id) is not None:
            if claims := await self._ledger.claim([session_id]):
                cells = list(await self._ledger.store.cells(session_id, live=True))
                held = Held(claims[0], cells, await self._ledger.store.secrets(session_id))
                self._assign(cells)
                await self._restore_approvals({session_id}, {row.id for row in held.unfinished})
                self._elsewhere.discard(session_id)
                return held
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise SessionExists(
                    f"session {session_id!r} is open in another process",
                    hint="close it there, or wait for it: open_session(wait_ms=...)",
                )
            await self._clock.sleep(min(left, _LOOK_SECONDS))
            await self._ledger.bury()
        return None

    async def _end(self, held: Held, cells: Sequence[CellRow], error: ErrorObject) -> None:
        """Have these cells end with that error."""
        now_ms = self._clock.now_ms()
        ended = {row.id: ended_row(row, error, now_ms) for row in cells}
        await self._ledger.ink.write(held.claim.row.id, *map(Put, ended.values()))
        held.cells = [ended.get(row.id, row) for row in held.cells]

    def _failure(self, row: SessionRow) -> ErrorObject:
        """What cells are told that nobody goes on with."""
        missing = sorted(name for name in row.doc["capabilities"] if name not in self._tools)
        if missing:
            said = f"the cell was abandoned: it may call what is not there any more: {', '.join(missing)}"
            return ErrorObject(Code.UNKNOWN_TOOL, said, "give the tools to the host, and run the program again")
        return ErrorObject(Code.INTERRUPTED, "the cell was abandoned by its host", "run the program again")

    def _note(self, cells: Sequence[RecoveredCell]) -> None:
        """Into the report and, for whoever listens, now or later, into the events of the session."""
        for cell in cells:
            if self._found.get(cell.cell_id) == cell:
                continue
            self._found[cell.cell_id] = cell
            if self._ledger.fences.get(cell.session_id) is not None:
                self._events.keep(cell.session_id)
                reason = {"reason": cell.reason} if cell.reason is not None else {}
                data = {"cell_id": cell.cell_id, "outcome": cell.outcome, **reason}
                self._events.emit("cell.recovered", cell.session_id, data)

    async def _live_cells(self) -> dict[str, list[CellRow]]:
        """By session."""
        found: dict[str, list[CellRow]] = {}
        after: str | None = None
        while rows := await self._ledger.store.cells(live=True, after=after, limit=_PAGE):
            for row in rows:
                found.setdefault(row.session_id, []).append(row)
            after = rows[-1].id
        return found

    async def _restore_approvals(self, session_ids: Collection[str], cell_ids: Collection[str]) -> None:
        """The questions of these cells, and the answers that count for good. What nobody waits for any more is
        cancelled. An answer that was left for the host before counts as given now."""
        one = next(iter(session_ids)) if len(session_ids) == 1 else None
        for state in (*ApprovalState, ANSWERED) if session_ids else ():
            after: str | None = None
            while rows := await self._ledger.store.approvals(session_id=one, state=state, after=after, limit=_PAGE):
                for row in rows:
                    if row.session_id in session_ids and (row.cell_id in cell_ids or state in _LASTING):
                        self._desk.restore(question_of(row))
                    if row.session_id in session_ids and row.cell_id not in cell_ids:
                        if state in _OPEN:
                            await self._cancel(row)
                    elif row.session_id in session_ids and state == ANSWERED:
                        self._events.keep(row.session_id)
                        take_answer(self._desk, row)
                after = rows[-1].id

    def _assign(self, cells: Iterable[CellRow]) -> None:
        """What happens to them from now on is in the streams of their threads too."""
        for row in cells:
            if row.thread_id is not None and row.turn_id is not None:
                self._events.assign(row.session_id, row.id, Strand(row.thread_id, row.turn_id, row.item_id))

    async def _cancel(self, row: ApprovalRow) -> None:
        """Nobody waits for that answer any more. Whoever was asked hears of it."""
        cell = await self._ledger.store.cell(row.cell_id)
        self._events.keep(row.session_id)
        self._assign([cell] if cell is not None else [])
        self._desk.cancel([row.id])
        self._events.unassign(row.session_id, row.cell_id)

    async def _secrets_of(self, session_ids: Collection[str]) -> dict[str, list[SecretRow]]:
        """By session. Many are read at once: most sessions have none."""
        store, found = self._ledger.store, dict[str, list[SecretRow]]()
        if len(session_ids) <= _FEW:
            return {session_id: list(await store.secrets(session_id)) for session_id in session_ids}
        after: tuple[str | int, ...] | None = None
        while rows := await store.scan("secrets", after=after):
            for row in rows:
                if isinstance(row, SecretRow):
                    after = (row.session_id, row.name)
                    if row.session_id in session_ids:
                        found.setdefault(row.session_id, []).append(row)
        return found

    async def _why_locked(self, rows: Sequence[SecretRow]) -> str | None:
        try:
            await self._vault.open(rows)
        except (SecretsLocked, InvalidInput) as locked:
            return f"{locked.message}: {locked.hint}" if locked.hint else locked.message
        return None

    def _why_held(self, row: SessionRow, cells: Sequence[CellRow]) -> str | None:
        ended = all(map(has_ended, cells))
        if not ended and (why := self._why_elsewhere(row)):
            return why
        if row.doc["own_terms"]:
            return "it was opened with tools, sources, plugins or terms of its own: open it again with them"
        return None if ended else _mismatch(row.doc, self._tools.digests())

    def _why_elsewhere(self, row: SessionRow) -> str | None:
        missing = sorted(set(row.doc.get("environments", ())) - set(self._environments))
        return f"its environments are not configured here: {', '.join(missing)}" if missing else None


@contextmanager
def _collector_at_rest() -> Generator[None, None, None]:
    """While a host opens, all that is made stays: a collector that walks through it again and again, as it grows, takes
    a third of the time and finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _names(held: Held) -> set[str]:
    return {held.claim.row.id, *(row.id for row in held.unfinished)}


def _of(cell: RecoveredCell) -> tuple[str, str]:
    return cell.session_id, cell.cell_id


def _at_level(held: Held, durability: Durability | None) -> SessionRow:
    """The session's row, at another level if one was asked for and that can be."""
    row = held.claim.row
    was = Durability(row.doc["durability"])
    if durability is None or durability is was:
        return row
    if held.unfinished:
        raise InvalidInput(
            f"session {row.id!r} has cells that have not ended, at durability={str(was)!r}",
            hint="open it without durability= until they have",
        )
    return replace(row, doc={**row.doc, "durability": str(durability)})


def _mismatch(doc: Mapping[str, Any], here: Mapping[str, str]) -> str | None:
    """What is not as it was, for a session that has cells which rely on it."""
    if doc["engine_version"] != (known := engine_version(parse_language(doc["language"]))):
        return f"its programs are suspended in {doc['engine_version']!r}, and this is {known!r}"
    # Of a digest its beginning is kept.
    kept: dict[str, str] = doc["capabilities"]
    missing = sorted(name for name, digest in kept.items() if not digest or not here.get(name, "").startswith(digest))
    return f"its tools are not there as they were: {', '.join(missing)}" if missing else None
