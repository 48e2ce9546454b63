"""MCP over HTTP: behind the same door, and each tenant in its own sessions."""

from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.server.lab import APPROVER, OTHER, RUNNER, Running


async def _exec(server: Running, token: str, code: str, session: str) -> dict[str, Any]:
    # The SDK takes a client of this library.
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=30) as wire:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=cast("Any", wire))
        async with Client(transport) as client:
            done = await client.call_tool("exec", {"code": code}, meta={"cloister/session": session})
            return cast("dict[str, Any]", done.structured_content)


@pytest.mark.anyio
async def test_mcp_has_the_same_door_and_the_same_tenants(server: Running) -> None:
    async with server.async_client(RUNNER) as client:
        await client.post("/v1/sessions", json={"id": "shared"})
        await client.post("/v1/sessions/shared/run", json={"code": "x = 41"})
        assert (await _exec(server, RUNNER, "x + 1", "shared"))["result"] == 42
        refused = await _exec(server, OTHER, "x + 1", "shared")
        assert refused["error"]["code"] == "SESSION_EXISTS"
        assert (await _exec(server, OTHER, "7", "theirs"))["result"] == 7
        assert (await client.get("/v1/sessions/theirs")).status_code == 404
        # Who may not approve is not asked either, but told who may.
        waiting = await _exec(server, RUNNER, "await refund(order_id='A', amount=1)", "shared")
        assert waiting["status"] == "waiting_for_approval"
        assert f"POST /v1/approvals/{waiting['approvals'][0]['id']}" in waiting["next"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await client.post("/mcp", json=body, headers={"authorization": "Bearer x"})).status_code == 401
        async with server.async_client(APPROVER) as approver:
            assert (await approver.post("/mcp", json=body)).status_code == 403
        found = await client.post("/mcp", json=body, headers={"origin": "http://evil.example"})
        assert found.status_code == 403
