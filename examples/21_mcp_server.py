"""The tools of an MCP server: it is started with its host, called from a program, and ended with its host.

Needs the MCP SDK: pip install 'cloister[mcp]'. The server stands below; any other is started the same way.

Run it: python examples/21_mcp_server.py
"""

import asyncio
import sys

from cloister import Cloister, McpSource, read_mcp_servers

SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
server = MCPServer("library")
BOOKS = {"Emma": 3, "Ulysses": 0}

@server.tool(name="in-stock", annotations=ToolAnnotations(read_only_hint=True))
def in_stock(title: str) -> dict[str, int]:
    return {title: BOOKS[title]}

@server.tool(structured_output=False, annotations=ToolAnnotations(destructive_hint=True))
def lend(title: str) -> str:
    if not BOOKS[title]:
        raise ToolError(f"{title} is out")
    return f"take good care of {title}"

server.run("stdio")
"""
CONFIG = {"mcpServers": {"library": {"command": sys.executable, "args": ["-c", SERVER]}}}


PROGRAM = """
import asyncio
from library import in_stock, lend
print(await asyncio.gather(*[in_stock(title=title) for title in ("Emma", "Ulysses")]))
await lend(title="Emma")
"""


async def main() -> None:
    async with Cloister(sources=[McpSource(server) for server in read_mcp_servers(CONFIG)]) as cloister:
        session = await cloister.open_session()
        for found in session.tools.capabilities():
            print(f"{found.full_name}: {found.side_effect}, approval {found.approval_policy.kind}")
        waiting = await session.run(PROGRAM)
        print(waiting.stdout.strip())
        print(waiting.status, "-", waiting.approvals[0].capability)
        await cloister.decide(waiting.approvals[0].id, "allow")
        print((await session.resume(waiting.cell_id)).result)
        failed = await session.call("library.in_stock", {"title": "Dune"})
        print(failed.error and failed.error.code)


asyncio.run(main())
