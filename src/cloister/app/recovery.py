"""Recovery: what a host finds in its store when it opens, and what becomes of it.

Sessions with cells that have not ended are claimed, unless another host has them. A session that needs nothing but what
every session of this host gets goes on at once. One that was given tools, policies, hooks or secrets of its own waits
until it is opened again with them, and so does one whose tools are not there as they were.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cloister.app.engines import engine_version
from cloister.app.terms import Terms
from cloister.core.approval import ApprovalState
from cloister.core.errors import (
    CloisterError,
    InvalidInput,
    InvalidLanguage,
    SecretsLocked,
    SessionExists,
    SnapshotCapabilityMismatch,
)
from cloister.core.language import Language, parse_language
from cloister.core.limits import SessionLimits
from cloister.gate import ApprovalDesk
from cloister.ports.rows import CellRow, Claim, SecretRow, SessionRow
from cloister.sessions import Session
from cloister.sessions.ledger import Ledger
from cloister.sessions.questions import question_of
from cloister.sessions.vault import Vault
from cloister.tools.registry import ToolRegistry

_PAGE = 10_000
# So many sessions are asked one by one.
_FEW = 64
# Those that mean something beyond their own cell: open to be seen, or allowed for good.
_LASTING = (ApprovalState.PENDING, ApprovalState.ALLOWED)


@dataclass(frozen=True, slots=True)
class RecoveredCell:
    """`outcome`: "goes on", "waits" for a person, "begins" anew as it had not waited yet, has "ended" and is unread, or
    the session is "held" until it is opened again, for `reason`."""

    session_id: str
    cell_id: str
    outcome: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    cells: tuple[RecoveredCell, ...] = ()
    # Sessions with cells that have not ended and that another host has.
    elsewhere: tuple[str, ...] = ()


@dataclass(slots=True)
class Held:
    """A session that was claimed and waits to be opened."""

    claim: Claim
    cells: list[CellRow] = field(default_factory=list[CellRow])


# A session from its row: with these tools and terms, and limits no wider than before.
Revive: TypeAlias = Callable[[SessionRow, list[object], Terms, SessionLimits | None], Awaitable[Session]]


class Recovery:
    def __init__(self, ledger: Ledger, desk: ApprovalDesk, tools: ToolRegistry, revive: Revive, vault: Vault) -> None:
        self._ledger = ledger
        self._vault = vault
        self._desk = desk
        self._tools = tools
        self._revive = revive
        # Claimed, and waiting to be opened.
        self._held: dict[str, Held] = {}
        # Going on, though nobody has asked for them yet.
        self._going: dict[str, Session] = {}
        self.report = RecoveryReport()

    async def run(self) -> None:
        cells = await self._live_cells()
        claims = list(await self._ledger.claim(list(cells))) if cells else list[Claim]()
        names = {claim.row.id for claim in claims}
        await self._restore_approvals(names, {row.id for name in names for row in cells[name]})
        secrets = await self._secrets_of(names)
        found: list[RecoveredCell] = []
        for held in [Held(claim, cells[claim.row.id]) for claim in claims]:
            session_id, sealed = held.claim.row.id, secrets.get(held.claim.row.id, [])
            reason = self._why_held(held) or await self._why_locked(sealed)
            if reason is not None:
                self._held[session_id] = held
                found += [RecoveredCell(session_id, row.id, "held", reason) for row in held.cells]
                continue
            session = self._going[session_id] = await self._revive(held.claim.row, [], Terms.none(), None)
            outcomes = await session.take_up(held.cells, sealed)
            found += [RecoveredCell(session_id, cell_id, outcome) for cell_id, outcome in outcomes.items()]
        self.report = RecoveryReport(tuple(found), tuple(sorted(set(cells) - names)))

    def going(self, session_id: str, terms: Terms) -> Session | None:
        """A session that goes on already, for whoever opens it first."""
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
        tools: list[object],
        terms: Terms,
    ) -> Session | None:
        """The session of that id that is in the store; None if there is none."""
        held = self._held.get(session_id) or await self._find(session_id)
        if held is None:
            return None
        doc = held.claim.row.doc
        # Python is also what is meant when nothing is said.
        if parse_language(language) not in (parse_language(doc["language"]), Language.PYTHON):
            raise InvalidLanguage(f"session {session_id!r} speaks {doc['language']}")
        if held.cells and (why := _mismatch(doc, ToolRegistry([*self._tools, *tools]).digests())):
            raise SnapshotCapabilityMismatch(f"session {session_id!r} cannot go on yet: {why}")
        sealed = await self._ledger.store.secrets(session_id)
        try:
            # Before anything goes on: a session whose secrets are locked stays as it was written down.
            await self._vault.open(sealed)
        except CloisterError:
            if session_id not in self._held:
                self._ledger.let_go(session_id)
            raise
        session = await self._revive(held.claim.row, tools, terms, limits)
        self._held.pop(session_id, None)
        await session.take_up(held.cells, sealed)
        return session

    def forget(self, session_id: str) -> None:
        self._going.pop(session_id, None)

    # -- inside ----------------------------------------------------------------------------------------------

    async def _find(self, session_id: str) -> Held | None:
        if await self._ledger.store.session(session_id) is None:
            return None
        claims = await self._ledger.claim([session_id])
        if not claims:
            raise SessionExists(f"session {session_id!r} is open in another process")
        cells = list(await self._ledger.store.cells(session_id, live=True))
        await self._restore_approvals({session_id}, {row.id for row in cells})
        return Held(claims[0], cells)

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
        """The questions of these cells, and the answers that count for good. What nobody waits for any more, a call of
        the host's own, is cancelled."""
        one = next(iter(session_ids)) if len(session_ids) == 1 else None
        for state in ApprovalState if session_ids else ():
            after: str | None = None
            while rows := await self._ledger.store.approvals(session_id=one, state=state, after=after, limit=_PAGE):
                for row in rows:
                    if row.session_id in session_ids and (row.cell_id in cell_ids or state in _LASTING):
                        self._desk.restore(question_of(row))
                    if row.session_id in session_ids and row.cell_id not in cell_ids:
                        self._desk.cancel([row.id] if state is ApprovalState.PENDING else [])
                after = rows[-1].id

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

    def _why_held(self, held: Held) -> str | None:
        doc = held.claim.row.doc
        if doc["own_terms"]:
            return "it was opened with tools, policies, hooks or secrets of its own: open it again with them"
        return _mismatch(doc, self._tools.digests())


def _mismatch(doc: Mapping[str, Any], here: Mapping[str, str]) -> str | None:
    """What is not as it was, for a session that has cells which rely on it."""
    if doc["engine_version"] != (known := engine_version(parse_language(doc["language"]))):
        return f"its programs are suspended in {doc['engine_version']!r}, and this is {known!r}"
    missing = sorted(name for name, digest in doc["capabilities"].items() if here.get(name) != digest)
    return f"its tools are not there as they were: {', '.join(missing)}" if missing else None
