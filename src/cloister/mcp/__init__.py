"""The door for MCP clients: a program runner behind two or three tools.

`CodeServer` speaks the protocol for one `Cloister`, over whatever transport it is given; `serve_stdio` is one. What
programs may do is the sessions' business: nothing here decides about it.
"""

from cloister.mcp.options import McpOptions
from cloister.mcp.server import CodeServer
from cloister.mcp.stdio import Wires, serve_stdio

__all__ = ["CodeServer", "McpOptions", "Wires", "serve_stdio"]
