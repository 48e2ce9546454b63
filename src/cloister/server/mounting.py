"""`/mcp`: the door for MCP clients behind this one. Each tenant has its own, in which only its sessions are.

Who may not answer questions cannot do it through a form of their client either: tokens with and without that scope
come to doors of their own.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from cloister.core.approval import Approval
from cloister.core.errors import SessionNotFound
from cloister.core.language import Language
from cloister.server.problems import Problem
from cloister.server.service import Service
from cloister.server.tenants import row_tenant
from cloister.server.tokens import Scope, Token
from cloister.sessions import Session

if TYPE_CHECKING:
    from cloister.mcp.http import Mount

Asgi: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Asgi]]
Send: TypeAlias = Callable[[Asgi], Awaitable[None]]
_DECIDE = "Nobody can decide it here. Tell the user that whoever may approve decides it with POST /v1/approvals/{id}"


class Mounts:
    """Empty where the MCP SDK is not installed; then `/mcp` says so."""

    def __init__(self) -> None:
        self._mounts: dict[tuple[str, bool], Mount] = {}

    async def serve(self, scope: Asgi, receive: Receive, send: Send, token: Token) -> None:
        mount = self._mounts.get((token.tenant, token.may(Scope.APPROVE)))
        if mount is None:
            raise Problem("NOT_FOUND", "MCP is not served here", hint="pip install 'cloister[mcp]'")
        await mount(scope, receive, send, token.name)

    def add(self, tenant: str, may_approve: bool, mount: "Mount") -> None:
        self._mounts[tenant, may_approve] = mount


@asynccontextmanager
async def mcp_mounts(service: Service, mounts: Mounts) -> AsyncGenerator[None, None]:
    """While it is held there is `/mcp`."""
    try:
        from cloister.mcp import McpOptions, mounted
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        yield
        return
    async with AsyncExitStack() as stack:
        for tenant in service.tokens.tenants:
            for may_approve in (False, True):
                options = McpOptions(may_ask=may_approve, show_cells=True, allow_approve=False, how_to_decide=_DECIDE)
                host = TenantHost(service, tenant)
                mount = await stack.enter_async_context(
                    mounted(
                        host,
                        options,
                        is_kept=service.cloister.is_kept,
                        max_body_bytes=service.limits.max_body_bytes,
                    )
                )
                mounts.add(tenant, may_approve, mount)
        service.transports.append("mcp")
        yield


class TenantHost:
    """What there is of a `Cloister` for one tenant."""

    def __init__(self, service: Service, tenant: str) -> None:
        self._service = service
        self._tenant = tenant

    def find(self, session_id: str) -> Session | None:
        # Sessions that are open are found by `open_session`, which knows whose they are.
        del session_id
        return None

    async def open_session(
        self, session_id: str = "default", *, language: str | Language = Language.PYTHON, wait_ms: int = 0
    ) -> Session:
        try:
            return await self._service.session(self._tenant, session_id)
        except SessionNotFound:
            return await self._service.cloister.open_session(
                session_id,
                language=language,
                tenant=row_tenant(self._tenant),
                limits=self._service.base_limits,
                wait_ms=wait_ms,
            )

    async def approvals(self, *, state: object = None, session_id: str | None = None) -> list[Approval]:
        found = await self._service.cloister.approvals(state=state, session_id=session_id)
        return [one for one in found if await self._service.is_of(self._tenant, one.session_id)]

    async def decide(
        self, approval_id: str, decision: object, *, message: str | None = None, rule: str | None = None
    ) -> Approval:
        await self._service.approval(self._tenant, approval_id)
        return await self._service.cloister.decide(approval_id, decision, message=message, rule=rule)
