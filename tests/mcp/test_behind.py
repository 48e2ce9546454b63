"""Other MCP servers behind this one: their tools in programs, their changes told, their absence survived."""

import asyncio
import json
import sys

import pytest
from mcp.types import ToolListChangedNotification

from tests.mcp.lab import ROOT, Lab, data, run, text


def _config(lab: Lab) -> str:
    server = {"command": sys.executable, "args": [str(ROOT / "tests/tools/sources/lab_server.py"), "stdio"]}
    gone = {"command": "/nowhere/to/be/found"}
    (lab.place / "servers.json").write_text(json.dumps({"mcpServers": {"lab": server, "gone": gone}}))
    return "servers.json"


@pytest.mark.anyio
async def test_servers_behind_are_called_from_programs_and_their_changes_are_told(lab: Lab) -> None:
    changed = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async with lab.client("--mcp-config", _config(lab), shop=False, mode="legacy", message_handler=hear) as client:
        told = (await client.list_tools()).tools[0].description or ""
        assert "lab.add" in told or "add(" in told
        done = await run(client, "from lab import add\nsums = [await add(a=n, b=1) for n in range(3)]\nsums")
        assert [one["total"] for one in done["result"]] == [1, 2, 3]
        # One that cannot be started is named, and takes nothing along.
        found = await client.call_tool("search_tools", {"query": "add two numbers"})
        assert data(found)["tools"][0]["name"] == "lab.add"
        assert "Not there now: gone" in text(found)
        assert not changed.is_set()
        grown = await run(client, "from lab import grow\nawait grow(name='fresh')")
        assert grown["status"] == "completed", grown
        await changed.wait()
        assert "fresh" in ((await client.list_tools()).tools[0].description or "")
