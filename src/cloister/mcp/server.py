"""The server: the protocol's requests on one side, the sessions of a `Cloister` on the other.

It knows no transport: `.sdk` is what one is given. What a client does wrong is an answer with our code and hint, never
the end of a connection. A request that its client cancels ends its cell; one whose connection is lost does not.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    CancelledNotificationParams,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from cloister import __version__
from cloister.core.cell import Content, Observation, WaitingForApproval
from cloister.core.errors import CellBusy, CellNotFound, CloisterError, InvalidInput
from cloister.mcp import answers, asking
from cloister.mcp.arguments import Approve, Cells, Exec, Request, Search, Wait, parse
from cloister.mcp.clients import Client, Clients
from cloister.mcp.host import Host
from cloister.mcp.options import SESSION_META, McpOptions
from cloister.mcp.progress import progress_of
from cloister.mcp.tools import NAMES, declare, offered
from cloister.sessions import Session

log = logging.getLogger("cloister.mcp")

_INSTRUCTIONS = (
    "Write one program with `exec` instead of many tool calls: it can call everything that `search_tools` finds, and "
    "its variables last. The description of `exec` says how."
)
# A request that was given up and of which no client says that it has cancelled it is forgotten after so many others.
_MOST_LEFT = 1000

Context: TypeAlias = ServerRequestContext[Any]
Key: TypeAlias = tuple[str | None, str | int | None]


@dataclass(slots=True)
class _Underway:
    """A request that waits for a cell."""

    session: Session
    cell_id: str | None = None


class CodeServer:
    """`async with CodeServer(cloister) as server`, inside of the Cloister. `is_kept`: it has a store, so that sessions
    may be there that were not opened here."""

    def __init__(self, cloister: Host, options: McpOptions | None = None, *, is_kept: bool = False) -> None:
        self._cloister = cloister
        self._options = options or McpOptions()
        self._clients = Clients(cloister, self._options, is_kept=is_kept, on_open=self._watch)
        self._bus = InMemorySubscriptionBus()
        self._underway: OrderedDict[Key, _Underway] = OrderedDict()
        # What was taken of a cell for an answer that had no place for it.
        self._untold: dict[str, Content] = {}
        # How to reach each client of the handshake protocol that has listed the tools, by its connection.
        self._listeners: dict[str | None, ServerSession] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self.sdk: Server[Any] = Server(
            "cloister",
            version=__version__,
            title="Cloister",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self.sdk.add_notification_handler("notifications/cancelled", CancelledNotificationParams, self._cancelled)

    def initialization(self) -> InitializationOptions:
        """What a transport tells its clients at first."""
        return self.sdk.create_initialization_options(NotificationOptions(tools_changed=True))

    async def __aenter__(self) -> "CodeServer":
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._watchers:
            task.cancel()
        if self._watchers:
            with anyio.CancelScope(shield=True):
                await asyncio.wait(self._watchers)

    # -- requests --------------------------------------------------------------------------------------------

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        self._listeners[_connection(context)] = context.session
        return ListToolsResult(tools=declare(self._options, await self._preamble(context)))

    async def _preamble(self, context: Context) -> str:
        if not self._options.preamble_tokens:
            return ""
        try:
            session = await self._client(context).session()
            return session.preamble(self._options.preamble_tokens).text
        except CloisterError as error:
            # The tools are there all the same, and say why they do not work.
            log.warning("what programs can call cannot be told: %s", error.message)
            return ""

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        try:
            return await self._do(context, params)
        except CloisterError as error:
            return answers.refused(error)
        # Containment: one request must not end the connection, and what broke is for the log alone.
        except Exception:
            log.exception("%s failed", params.name[:80])
            return answers.broken()

    async def _do(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        names = offered(self._options)
        if params.name not in names:
            raise InvalidInput(
                f"there is no tool {params.name[:80]!r}",
                hint=f"there are {', '.join(names)}; what programs can call is called in the code of `exec`",
            )
        request: Request = parse(NAMES[params.name], params.arguments or {})
        client = self._client(context)
        match request:
            case Exec() | Wait() if params.request_state is not None:
                return await self._again(context, client, request, params)
            case Exec():
                return await self._exec(context, client, request)
            case Wait():
                session = await client.with_cell(request.cell_id)
                return await self._look(context, session, request.cell_id, request.yield_ms, request.terminate)
            case Search():
                session = await client.session()
                missing = [f"{info.name}: {info.missing}" for info in session.sources if info.missing]
                return answers.found(await session.search_tools(request.query, request.limit), missing, session.id)
            case Cells():
                opened = await client.opened()
                cells = [(str(language), info) for language, session in opened for info in await session.cells()]
                return answers.listed(cells, client.name)
            case Approve():
                approval = await client.question(request.approval_id)
                done = await self._cloister.decide(approval.id, request.decision, message=request.message)
                return answers.decided(done, approval.session_id)
            case _:
                assert_never(request)

    async def _exec(self, context: Context, client: Client, request: Exec) -> CallToolResult | InputRequiredResult:
        session = await client.session(request.language)
        key, underway = self._begin(context, session)
        async with progress_of(context, session) as progress:

            def begun(cell_id: str) -> None:
                progress.cell_id = underway.cell_id = cell_id

            seen = await session.exec(
                request.code,
                yield_ms=request.yield_ms,
                max_output_tokens=request.max_output_tokens,
                on_begin=begun,
            )
            seen = await self._asked(context, session, seen, request.yield_ms)
        return self._tell(context, key, session, seen)

    async def _look(
        self, context: Context, session: Session, cell_id: str, yield_ms: int, terminate: bool = False
    ) -> CallToolResult | InputRequiredResult:
        key, underway = self._begin(context, session)
        underway.cell_id = cell_id
        async with progress_of(context, session) as progress:
            progress.cell_id = cell_id
            seen = await session.wait(cell_id, yield_ms=yield_ms, terminate=terminate)
            seen = await self._asked(context, session, seen, yield_ms)
        return self._tell(context, key, session, seen)

    # -- questions -------------------------------------------------------------------------------------------

    async def _asked(self, context: Context, session: Session, seen: Observation, yield_ms: int) -> Observation:
        """Where the client's user can be asked while this request waits: what there is to see after the answers."""
        if not self._may_ask(context) or asking.is_answered_later(context):
            return seen
        while isinstance(seen, WaitingForApproval):
            if not await asking.ask(context, self._cloister, session, seen):
                break
            more = await session.wait(seen.cell_id, yield_ms=yield_ms)
            seen = replace(more, content=seen.content + more.content)
        return seen

    def _may_ask(self, context: Context) -> bool:
        return self._options.may_ask and asking.has_forms(context)

    async def _again(
        self, context: Context, client: Client, request: Exec | Wait, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """A request that was answered with a form comes again. Its program has begun, so it is not begun anew."""
        cell_id = params.request_state or ""
        session = await client.with_cell(cell_id)
        open_now = {approval for info in await session.cells() if info.id == cell_id for approval in info.approvals}
        questions = [
            approval
            for approval in await self._cloister.approvals(state="pending", session_id=session.id)
            if approval.id in open_now
        ]
        decided = await asking.take(self._cloister, questions, params.input_responses or {})
        if decided or not questions:
            return await self._look(context, session, cell_id, request.yield_ms)
        # The user would not say: it goes on waiting, and is not asked again at once.
        seen = await session.wait(cell_id, yield_ms=0)
        return answers.told(self._with_untold(seen), session.id, self._options)

    # -- answers ---------------------------------------------------------------------------------------------

    def _tell(
        self, context: Context, key: Key, session: Session, seen: Observation
    ) -> CallToolResult | InputRequiredResult:
        self._underway.pop(key, None)
        seen = self._with_untold(seen)
        if (
            isinstance(seen, WaitingForApproval)
            and self._may_ask(context)
            and asking.is_answered_later(context)
            and asking.pending(seen)
        ):
            self._untold[seen.cell_id] = seen.content
            return asking.forms(seen)
        return answers.told(seen, session.id, self._options)

    def _with_untold(self, seen: Observation) -> Observation:
        before = self._untold.pop(seen.cell_id, ())
        return replace(seen, content=before + seen.content) if before else seen

    # -- cancelling ------------------------------------------------------------------------------------------

    def _begin(self, context: Context, session: Session) -> tuple[Key, _Underway]:
        key = (_connection(context), context.request_id)
        underway = self._underway[key] = _Underway(session)
        while len(self._underway) > _MOST_LEFT:
            self._underway.popitem(last=False)
        return key, underway

    async def _cancelled(self, context: Context, params: CancelledNotificationParams) -> None:
        """The request itself is cancelled by the SDK, before or after this."""
        underway = self._underway.pop((_connection(context), params.request_id), None)
        if underway is None or underway.cell_id is None:
            return
        try:
            await underway.session.terminate(underway.cell_id)
        except (CellNotFound, CellBusy):
            # It has ended by itself, or somebody else ends it.
            pass
        except CloisterError as error:
            log.warning("cell %s could not be terminated: %s", underway.cell_id, error.message)

    # -- clients ---------------------------------------------------------------------------------------------

    def _client(self, context: Context) -> Client:
        wanted = (context.meta or {}).get(SESSION_META)
        first = context.session.client_params
        if wanted is None and first is not None and first.meta is not None:
            wanted = first.meta.get(SESSION_META)
        return self._clients.of(_connection(context), wanted)

    def _watch(self, session: Session) -> None:
        """Tell clients when what `session` can call has changed."""
        if session.sources:
            task = asyncio.ensure_future(self._hear(session))
            self._watchers.add(task)
            task.add_done_callback(self._watchers.discard)

    async def _hear(self, session: Session) -> None:
        async with session.events() as stream:
            async for event in stream:
                if event.kind == "catalog.changed":
                    await self._tools_changed(list(self._listeners.values()))

    async def _tools_changed(self, listeners: Sequence[ServerSession]) -> None:
        await self._bus.publish(ToolsListChanged())
        for listener in listeners:
            # It drops what a client of the newer protocol has not asked for, and says nothing if it is gone.
            try:
                await listener.send_tool_list_changed()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                log.debug("a client that has left was not told that tools have changed")


def _connection(context: Context) -> str | None:
    """What tells one connection from another over HTTP; None over pipes, where there is one."""
    headers = getattr(context.request, "headers", None)
    found = headers.get("mcp-session-id") if headers is not None else None
    return str(found) if found else None
