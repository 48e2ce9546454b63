"""An MCP server made with the official SDK, which does what the tests want to see. Run: `lab_server.py stdio|http`."""

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

server = MCPServer("lab", version="1.0")
cancelled = asyncio.Event()
meeting: dict[str, asyncio.Barrier] = {}


class Sum(BaseModel):
    total: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool(structured_output=False)
async def say(text: str) -> str:
    """Say it again."""
    return text


@server.tool(name="get-order", structured_output=False, annotations=ToolAnnotations(idempotent_hint=True))
async def get_order() -> str:
    return "with a dash"


@server.tool(name="get.order", structured_output=False)
async def get_order_too() -> str:
    return "with a dot"


@server.tool(structured_output=False, annotations=ToolAnnotations(destructive_hint=True))
async def erase() -> str:
    return "gone"


@server.tool(structured_output=False)
async def mixed() -> CallToolResult:
    return CallToolResult(
        content=[
            TextContent(type="text", text="look"),
            ImageContent(type="image", data="aGk=", mime_type="image/png"),
            EmbeddedResource(
                type="resource",
                resource=TextResourceContents(uri="lab://notes", mime_type="text/plain", text="a note"),
            ),
            ResourceLink(type="resource_link", uri="lab://more", name="more"),
        ]
    )


@server.tool(structured_output=False)
async def nothing() -> CallToolResult:
    return CallToolResult(content=[])


@server.tool(structured_output=False)
async def long(characters: int) -> str:
    return "x" * characters


@server.tool(structured_output=False)
async def fail(reason: str) -> str:
    raise ToolError(reason)


@server.tool(structured_output=False)
async def hang(ctx: Context[Any, Any]) -> str:
    await ctx.report_progress(1, 4, "hanging")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.set()
        raise
    return "never"


@server.tool(structured_output=False)
async def when_cancelled() -> str:
    """Answers when `hang` was cancelled."""
    await cancelled.wait()
    cancelled.clear()
    return "it was"


@server.tool(structured_output=False)
async def meet(place: str, people: int) -> str:
    """Answers when so many calls wait here at once."""
    barrier = meeting.setdefault(place, asyncio.Barrier(people))
    await barrier.wait()
    return place


@server.tool(structured_output=False)
async def crash() -> str:
    print("the lab is on fire", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
async def environment() -> dict[str, str]:
    return dict(os.environ)


@server.tool(structured_output=False)
async def own_pid() -> str:
    return str(os.getpid())


@server.tool(structured_output=False)
async def headers(ctx: Context[Any, Any]) -> str:
    return str(dict(ctx.headers or {}))


@server.tool(structured_output=False)
async def grow(name: str, ctx: Context[Any, Any]) -> str:
    """One more tool, and everybody is told."""

    async def grown() -> str:
        return "new here"

    server.add_tool(grown, name=name, structured_output=False)
    await ctx.session.send_tool_list_changed()
    return "grown"


def main(how: str) -> None:
    if how == "stdio":
        server.run("stdio")
        return
    sock = socket.socket()
    # The port of before, for a server that comes back.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    sock.listen()
    print(sock.getsockname()[1], flush=True)
    settings = uvicorn.Config(server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(settings).serve([sock]))


if __name__ == "__main__":
    main(sys.argv[1])
