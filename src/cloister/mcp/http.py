"""The protocol over Streamable HTTP, as an application that a web server mounts.

Who may come in is decided before this: every request says in its scope, under `USER`, who it is from, and a connection
is answered only to who opened it. Knows no tokens.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from cloister.mcp.host import Host
from cloister.mcp.options import McpOptions
from cloister.mcp.server import CodeServer

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Mount: TypeAlias = Callable[[Scope, Receive, Send, str], Awaitable[None]]


@asynccontextmanager
async def mounted(
    host: Host, options: McpOptions, *, is_kept: bool, max_body_bytes: int
) -> AsyncGenerator[Mount, None]:
    """The application: an ASGI one that is also told who a request is from."""
    logging.getLogger("mcp").setLevel(logging.ERROR)
    async with CodeServer(host, options, is_kept=is_kept) as server:
        manager = StreamableHTTPSessionManager(server.sdk, max_request_body_size=max_body_bytes)
        async with manager.run():

            async def serve(scope: Scope, receive: Receive, send: Send, who: str) -> None:
                # The SDK holds a connection to whoever has opened it.
                user = AuthenticatedUser(AccessToken(token="", client_id=who, scopes=[]))
                await manager.handle_request({**scope, "user": user}, receive, send)

            yield serve
