"""A program of one sum over MCP and pipes, against what it is made of: the protocol's own echo, and our own run."""

import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from bench.measure import Row, typical
from cloister import Cloister

_ECHO = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("echo")


@server.tool()
async def echo(text: str) -> str:
    return text


server.run()
"""
_MOST = 1.5


def _server(*words: str) -> StdioServerParameters:
    env = {name: os.environ[name] for name in ("PYTHONPATH", "CLOISTER_DATA_DIR") if name in os.environ}
    return StdioServerParameters(command=sys.executable, args=list(words), env=env)


async def rows() -> AsyncIterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        echo = Path(scratch) / "echo.py"
        echo.write_text(_ECHO)
        async with contextlib.AsyncExitStack() as stack:
            errors = stack.enter_context(open(os.devnull, "w"))  # noqa: SIM115 - the stack closes it
            theirs = await stack.enter_async_context(Client(stdio_client(_server(str(echo)), errlog=errors)))
            ours = await stack.enter_async_context(
                Client(stdio_client(_server("-m", "cloister.cli", "mcp"), errlog=errors))
            )
            cloister = await stack.enter_async_context(Cloister())
            session = await cloister.open_session()
            for client in (theirs, ours):
                # As clients do; the SDK's would otherwise ask for the list in the middle.
                await client.list_tools()

            async def sum_there() -> None:
                done = await ours.call_tool("exec", {"code": "1+1"})
                assert done.structured_content is not None
                assert done.structured_content["result"] == 2

            there, echoed, here = await typical(
                sum_there, lambda: theirs.call_tool("echo", {"text": "1+1"}), lambda: session.run("1+1")
            )
    print(f"  exec {there * 1000:.2f} ms, echo {echoed * 1000:.2f} ms, run {here * 1000:.2f} ms")
    yield Row("MCP exec of 1+1 over pipes, warm (x echo of the SDK + our run)", there / (echoed + here), _MOST)
