"""The tools of an MCP server: it is started, asked what it can do, called, and ended with its source.

Needs the MCP SDK: pip install 'cloister[mcp]'. The server stands below; any other is started the same way.

Run it: python examples/21_mcp_server.py
"""

import asyncio
import sys

from cloister import McpSource, SourceFailed, read_mcp_servers
from cloister.ports.source import SourceCall

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


async def main() -> None:
    about = SourceCall("demo", "cell", "call", "key", 5000, lambda text, _share: print("progress:", text))
    (server,) = read_mcp_servers(CONFIG)
    async with McpSource(server) as library:
        for manifest in await library.manifests():
            found = await library.contract(manifest.full_name)
            print(f"{found.full_name}: {found.side_effect}, approval {found.approval_policy.kind}")
        print(await library.call("library.in_stock", {"title": "Emma"}, about))
        print(await library.call("library.lend", {"title": "Emma"}, about))
        try:
            await library.call("library.lend", {"title": "Ulysses"}, about)
        except SourceFailed as failed:
            print(failed.message)


asyncio.run(main())
