"""What routes work with: the runtime, and what a server must remember beside it.

It finds sessions for tenants, and knows when to stop. It knows no HTTP.
"""

import asyncio
import logging

from cloister.app import Cloister
from cloister.core.approval import Approval
from cloister.core.cell import Interrupted, Observation
from cloister.core.codes import Code, RunStatus
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import ApprovalNotFound, CellBusy, CellNotFound, SessionNotFound
from cloister.core.ids import IdSource, check_session_id
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult
from cloister.core.serving import ServerLimits
from cloister.ports.clock import SystemClock
from cloister.ports.rows import CellRow
from cloister.server.exposure import Exposure
from cloister.server.frames import Frames
from cloister.server.metrics import Metrics
from cloister.server.repeats import Repeats
from cloister.server.tenants import row_tenant
from cloister.server.tokens import TokenBook
from cloister.sessions import Session
from cloister.sessions.past import end_of, result_of

log = logging.getLogger("cloister.server")
# A host that went on with the session lets go of it within that time, when it is stopped.
_WAIT_MS = 2_000
_GONE = ErrorObject(
    Code.INTERRUPTED, "the cell was begun, and how it ended is not known", "use a new key to run it anew"
)


class Service:
    """`base_limits`: what sessions have that ask for nothing, and what none may go beyond."""

    def __init__(
        self,
        cloister: Cloister,
        tokens: TokenBook,
        exposure: Exposure | None = None,
        limits: ServerLimits | None = None,
        base_limits: SessionLimits | None = None,
    ) -> None:
        self.cloister = cloister
        self.telemetry = cloister.telemetry
        self.tokens = tokens
        self.exposure = exposure or Exposure()
        self.limits = limits or ServerLimits()
        self.base_limits = base_limits or SessionLimits()
        self.metrics = Metrics()
        self.repeats = Repeats()
        self.frames = Frames()
        # By which ways it is served: MCP, if its SDK is there.
        self.transports = ["http", "sse"]
        # Where it is reached, once it is.
        self.port = self.exposure.port
        self.streams = 0
        self.under_way = 0
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        # Set when it is told to stop: streams end, and nothing new begins.
        self.closing: asyncio.Event = asyncio.Event()
        self.ids = IdSource(SystemClock().now_ms)
        self.metrics.gauge("http_requests_under_way", "Requests that are being served.", lambda: self.under_way)
        self.metrics.gauge("event_streams", "Streams of events that are open.", lambda: self.streams)

    # -- sessions --------------------------------------------------------------------------------------------

    async def session(self, tenant: str, session_id: str) -> Session:
        found = self.cloister.find(session_id)
        if found is None:
            meta = await self.cloister.stored_session(session_id)
            if meta is None or meta.tenant != row_tenant(tenant):
                raise self.no_session(session_id)
            found = await self.cloister.take_up(session_id, wait_ms=_WAIT_MS)
        if found.tenant != row_tenant(tenant):
            raise self.no_session(session_id)
        return found

    async def is_of(self, tenant: str, session_id: str) -> bool:
        """Whether there is a session of that id that is this tenant's; it is not opened."""
        found = self.cloister.find(check_session_id(session_id))
        if found is not None:
            return found.tenant == row_tenant(tenant)
        meta = await self.cloister.stored_session(session_id)
        return meta is not None and meta.tenant == row_tenant(tenant)

    async def approval(self, tenant: str, approval_id: str) -> Approval:
        """The question of that id, if its session is this tenant's. Raises `ApprovalNotFound`."""
        none = ApprovalNotFound(f"there is no approval {approval_id!r}")
        try:
            found = await self.cloister.approval(approval_id)
        except ApprovalNotFound:
            # What a library says to its caller about where to look is not so here.
            raise none from None
        if not await self.is_of(tenant, found.session_id):
            raise none
        return found

    # -- programs that were asked about ----------------------------------------------------------------------

    async def let_go(self, session: Session, cell_id: str) -> None:
        """A run has come back with questions: from now on it goes on by itself, as a cell of `exec` does."""
        try:
            await session.wait(cell_id, yield_ms=0)
        except (CellBusy, CellNotFound):
            # Somebody has looked at it already.
            log.debug("cell %s is looked at by somebody else", cell_id)

    async def run_again(self, session: Session, row: CellRow) -> RunResult:
        """How a run stands, or has ended, that was asked for before."""
        while (result := result_of(row)) is None and row.id in {one.id for one in await session.cells()}:
            result = await session.resume(row.id)
            if result.cell_id == row.id:
                return result
            row = await self.cloister.stored_cell(row.id) or row
        return result or RunResult(RunStatus.INTERRUPTED, row.id, error=_GONE)

    async def seen_again(self, session: Session, row: CellRow, yield_ms: int) -> Observation:
        """The same of a cell."""
        while (seen := end_of(row)) is None:
            try:
                return await session.wait(row.id, yield_ms=yield_ms)
            except CellNotFound:
                found = await self.cloister.stored_cell(row.id)
                if found is None or found.live:
                    return Interrupted(cell_id=row.id, error=_GONE)
                row = found
        return seen

    # -- stopping --------------------------------------------------------------------------------------------

    def enter(self) -> None:
        self.under_way += 1
        self._idle.clear()

    def leave(self) -> None:
        self.under_way -= 1
        if not self.under_way:
            self._idle.set()

    async def idle(self, most_ms: int) -> bool:
        """Whether all requests have been answered within that time."""
        try:
            async with asyncio.timeout(most_ms / 1000):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def no_session(self, session_id: str) -> SessionNotFound:
        return SessionNotFound(f"there is no session {session_id!r}")
