"""Where tools come from that are no functions of this process: MCP servers and OpenAPI documents.

Each is a `ports.source.ToolSource`. Knows no session and no gate: what comes back is held to its contract there.
Importing this room imports no SDK.
"""

from cloister.tools.sources.config import read_mcp_servers, read_mcp_tables
from cloister.tools.sources.mcp import McpHttp, McpServer, McpSource, McpStdio
from cloister.tools.sources.openapi import OpenApi, OpenApiSource

__all__ = [
    "McpHttp",
    "McpServer",
    "McpSource",
    "McpStdio",
    "OpenApi",
    "OpenApiSource",
    "read_mcp_servers",
    "read_mcp_tables",
]
