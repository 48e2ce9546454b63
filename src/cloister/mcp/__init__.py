"""The door for MCP clients: a program runner behind two or three tools.

`CodeServer` speaks the protocol for one `Cloister`, over whatever transport it is given: `serve_stdio` is one and
`mounted` another. What programs may do is the sessions' business: nothing here decides about it.
"""

from cloister.mcp.host import Host
from cloister.mcp.http import mounted
from cloister.mcp.options import McpOptions
from cloister.mcp.server import CodeServer
from cloister.mcp.stdio import Wires, serve_stdio

__all__ = ["CodeServer", "Host", "McpOptions", "Wires", "mounted", "serve_stdio"]
