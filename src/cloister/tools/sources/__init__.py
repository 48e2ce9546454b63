"""Where tools come from that are no functions of this process: MCP servers and OpenAPI documents.

Each is a `ports.source.ToolSource`. Knows no session and no gate: what comes back is held to its contract there.
"""
