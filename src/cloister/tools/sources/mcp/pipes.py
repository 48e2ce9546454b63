"""MCP over the pipes of a child process: a line of JSON is a message, in both directions.

In the place of the SDK's own: that one reads lines of any length. Here a message is bounded, nothing is read before the
one before it was taken, and what is no message is counted: a few stray lines are forgiven, a flood of them is not.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from cloister.tools.sources.mcp.child import Child, start
from cloister.tools.sources.mcp.line import MAX_FRAME_BYTES, Line
from cloister.tools.sources.mcp.servers import McpStdio

_CHUNK = 256 << 10
# What may be written to the standard output that is no message, since the last one that was.
_NONSENSE_BYTES = 64 << 10
# A server that has not read what it was sent by then reads nothing any more.
_WRITE_SECONDS = 30.0


@asynccontextmanager
async def stdio_line(
    server: McpStdio, values: Mapping[str, str], line: Line
) -> AsyncGenerator[tuple["_Reading", "_Writing"]]:
    """A server that is started now and ended afterwards."""
    child = await start(server, values)
    try:
        yield _Reading(child, line), _Writing(child, line)
    finally:
        await child.end()


class _Reading:
    """A `ReadStream`, which ends when the server does, or when it cannot be understood."""

    def __init__(self, child: Child, line: Line) -> None:
        self._child = child
        self._line = line
        self._buffer = bytearray()
        # Up to here there is no end of a line.
        self._seen = 0
        self._nonsense = 0

    async def receive(self) -> SessionMessage | Exception:
        while not self._line.is_lost:
            end = self._buffer.find(b"\n", self._seen)
            if end >= 0:
                frame = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._seen = 0
                message = self._read(frame)
                if message is not None:
                    return message
                continue
            self._seen = len(self._buffer)
            if self._seen > MAX_FRAME_BYTES:
                self._line.lose(f"it sent a message of more than {MAX_FRAME_BYTES >> 20} MiB")
                break
            chunk = await self._child.stdout.read(_CHUNK)
            if not chunk:
                last = await self._child.last_words()
                self._line.lose(f"it ended{f', and last said: {last}' if last else ''}")
                break
            self._buffer += chunk
        raise anyio.EndOfStream

    def _read(self, frame: bytes) -> SessionMessage | None:
        if not frame.strip():
            self._nonsense += len(frame) + 1
        else:
            try:
                message = jsonrpc_message_adapter.validate_json(frame, by_name=False)
            except ValueError:
                self._nonsense += len(frame) + 1
            else:
                self._nonsense = 0
                return SessionMessage(message)
        if self._nonsense > _NONSENSE_BYTES:
            self._line.lose("what it writes to its standard output is not the protocol's JSON")
        return None

    async def aclose(self) -> None:
        self._line.lose("it was closed")

    def __aiter__(self) -> "_Reading":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "_Reading":
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.aclose()


class _Writing:
    """A `WriteStream`. A message is handed to the pipe as a whole, so a cancelled sender leaves no half of one."""

    def __init__(self, child: Child, line: Line) -> None:
        self._child = child
        self._line = line

    async def send(self, item: SessionMessage, /) -> None:
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        try:
            self._child.write(data + b"\n")
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._child.drain()
        except TimeoutError:
            self._line.lose("it does not read what it is sent")
            raise anyio.BrokenResourceError from None
        except OSError:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """The pipe is closed with its process."""

    async def __aenter__(self) -> "_Writing":
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.aclose()
