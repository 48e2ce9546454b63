"""MCP servers as tool sources. Importing this room does not import the MCP SDK; opening a source does."""

from cloister.tools.sources.mcp.servers import McpHttp, McpServer, McpStdio
from cloister.tools.sources.mcp.source import McpSource

__all__ = ["McpHttp", "McpServer", "McpSource", "McpStdio"]
