"""One connection to an MCP server: from the handshake to the moment when it is lost.

Opened and closed in one task, because the SDK's cancel scopes must be; used from any task of the loop. It does not know
what was before it, nor that another will come after it. Nothing of the SDK's own checks of results is used: they run
patterns of the server's choosing in a validator that can be made to hang.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter, ValidationError

from cloister.core.value import Json
from cloister.ports.clock import Clock
from cloister.ports.source import SourceCall, SourceFailed
from cloister.tools.sources.mcp.content import cut, value_of
from cloister.tools.sources.mcp.line import Asked, Line, Metered
from cloister.tools.sources.mcp.listing import Collection, Entry, Listing
from cloister.tools.sources.mcp.pipes import stdio_line
from cloister.tools.sources.mcp.servers import McpServer, McpStdio
from cloister.tools.sources.mcp.web import http_line

_MOST_PAGES = 1000
_LONGEST_REASON = 500
_UNKNOWN = "whether it did what it was asked is not known: find out before you repeat it"
# What a server says to a handshake of the protocol before the one that is its only one.
_TOO_OLD = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND, INVALID_REQUEST)
_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


class Link:
    def __init__(self, server: McpServer, session: ClientSession, line: Line) -> None:
        self._server = server
        self._session = session
        self._line = line

    async def lost(self) -> None:
        """Until it is."""
        await self._line.lost()

    @property
    def is_lost(self) -> bool:
        return self._line.is_lost

    @property
    def reason(self) -> str:
        return self._line.reason

    async def list(self) -> Listing:
        """All tools that the server has now. Raises `SourceFailed`."""
        try:
            async with asyncio.timeout(self._server.connect_timeout_ms / 1000):
                return await self._pages()
        except TimeoutError:
            raise self._failed(f"did not list its tools within {self._server.connect_timeout_ms} ms") from None
        except SourceFailed as failed:
            raise self._failed(f"cannot be used: {failed.message}", failed.hint) from None
        except (MCPError, ValidationError, RuntimeError) as error:
            raise self.failure(error) from None

    async def _pages(self) -> Listing:
        collection = Collection(self._server)
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
            # In a thread: of a list that is as long as it may be, this takes seconds.
            await asyncio.to_thread(collection.add, page.tools)
            cursor = page.next_cursor
            if not cursor:
                return await asyncio.to_thread(Listing, self._server, collection.entries)
            if cursor in seen:
                break
            seen.add(cursor)
        raise SourceFailed("the list of its tools does not end")

    async def call(self, entry: Entry, arguments: dict[str, Any], about: SourceCall) -> Json:
        """Cancelled, it tells the server so. Raises `SourceFailed`."""
        server = self._server

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            share = min(max(progress / total, 0.0), 1.0) if total else None
            about.progress(cut(message or "", _LONGEST_REASON), share)

        request = CallToolRequest(params=CallToolRequestParams(name=entry.original, arguments=arguments))
        try:
            async with asyncio.timeout(server.call_timeout_ms / 1000):
                result = await self._session.send_request(request, _ANSWER, progress_callback=hear)
        except TimeoutError:
            raise self._failed(
                f"did not answer within {server.call_timeout_ms} ms",
                _UNKNOWN,
            ) from None
        except (MCPError, ValidationError, RuntimeError) as error:
            raise self.failure(error, calling=True) from None
        if isinstance(result, InputRequiredResult):
            raise self._failed("asks for more input in the middle of a call, and there is nobody to give it")
        return value_of(result, typed=bool(entry.output_schema), max_bytes=server.max_response_bytes)

    def failure(self, error: Exception, *, calling: bool = False) -> SourceFailed:
        """What went wrong between us, in words for a program."""
        closed = error.message if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED else None
        hint = _UNKNOWN if calling else None
        if closed not in (None, "Connection closed") and not self._line.is_lost:
            # Only the answer to this one request: over HTTP each has a connection of its own.
            return self._failed(f"did not answer properly: {cut(closed, _LONGEST_REASON)}", hint)
        if self._line.is_lost or closed is not None:
            reason = self._line.reason or "the connection was closed"
            return self._failed(f"is gone: {cut(reason, _LONGEST_REASON)}", hint, gone=True)
        if isinstance(error, MCPError):
            note = f" ({self._line.note})" if self._line.note else ""
            return self._failed(f"refused: {cut(error.message, _LONGEST_REASON)}{note}")
        if isinstance(error, ValidationError):
            return self._failed("answered with something that the protocol does not have")
        return self._failed(f"cannot be used: {cut(str(error), _LONGEST_REASON)}")

    def _failed(self, what: str, hint: str | None = None, *, gone: bool = False) -> SourceFailed:
        return SourceFailed(f"{self._server.what} {what}", hint=hint, gone=gone)

    async def shake_hands(self) -> None:
        """Raises `SourceFailed` for whoever cannot, or does not in time."""
        try:
            async with asyncio.timeout(self._server.connect_timeout_ms / 1000):
                try:
                    await self._session.initialize()
                except MCPError as error:
                    if error.code not in _TOO_OLD:
                        raise
                    await self._session.discover()
        except TimeoutError:
            raise self._failed(
                f"did not answer the handshake within {self._server.connect_timeout_ms} ms", gone=True
            ) from None
        except (MCPError, ValidationError, RuntimeError) as error:
            failed = self.failure(error)
            failed.gone = True
            raise failed from None


@asynccontextmanager
async def open_link(
    server: McpServer, values: Mapping[str, str], clock: Clock, changed: Callable[[], None]
) -> AsyncGenerator[Link]:
    """A connection after its handshake. `values` are those of the server's `env` or `headers`; `changed` is told when
    it says that its tools have. Raises `SourceFailed` when there is none to be had."""
    line = Line()

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()

    reach = stdio_line(server, values, line) if isinstance(server, McpStdio) else http_line(server, values, line)
    async with reach as (reading, writing):
        asked = Asked(writing)
        session = ClientSession(
            Metered(reading, asked, clock),
            asked,
            message_handler=hear,
            client_info=Implementation(name="cloister", version=version("cloister")),
        )
        async with session:
            link = Link(server, session, line)
            await link.shake_hands()
            yield link
