"""An MCP server in a few lines of plain Python, which starts at once and can be told to do anything."""

import sys
from typing import Any

from cloister.tools.sources.mcp import McpStdio

# A server in a few lines: answers what it is told to, and does what it is told to when it is called.
SERVER = """
import json, os, sys, time
def send(message): sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
def answer(id, result): send({"jsonrpc": "2.0", "id": id, "result": result})
def notify(method, **params): send({"jsonrpc": "2.0", "method": method, "params": params})
TOOLS = [{"name": "go", "inputSchema": {"type": "object"}}]
def begin(id): answer(id, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
                           "serverInfo": {"name": "s", "version": "1"}})
def listed(id, cursor): answer(id, {"tools": TOOLS})
def called(id, name): answer(id, {"content": [{"type": "text", "text": "went"}]})
def heard(message): pass
#INSERT#
for line in sys.stdin:
    message = json.loads(line)
    heard(message)
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize": begin(id)
    elif method == "tools/list": listed(id, params.get("cursor"))
    elif method == "tools/call": called(id, params["name"])
    elif id is not None and method: send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
"""


def server(insert: str = "", **options: Any) -> McpStdio:
    script = SERVER.replace("#INSERT#", insert)
    plain: dict[str, Any] = {"name": "odd", "command": sys.executable, "args": ["-S", "-c", script]}
    return McpStdio(**{**plain, **options})
