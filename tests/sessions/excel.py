"""A published MCP server over HTTP, in a process of its own: `excel-mcp-server`, with workbooks in a directory."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

TOKEN = "tok-5f2b8c1d9e"
_PROGRAM = Path(sys.executable).with_name("excel-mcp-server")


def free_port() -> int:
    """The server does not tell which port it has taken, so it is told which to take."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def excel(directory: Path, port: int) -> AsyncGenerator[asyncio.subprocess.Process]:
    """It answers when this is entered."""
    words = ["--port", str(port), "--allow-dir", str(directory), "--tools", "workbooks,data", "--log-level", "ERROR"]
    env = {"PATH": os.environ["PATH"], "EXCEL_MCP_AUTH_TOKEN": TOKEN}
    process = await asyncio.create_subprocess_exec(_PROGRAM, "streamable-http", *words, env=env, cwd=directory)
    try:
        await _answers(process, port)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answers(process: asyncio.subprocess.Process, port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            assert process.returncode is None, "the server has ended"
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
