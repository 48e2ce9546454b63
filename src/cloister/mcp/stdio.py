"""The protocol over this process's standard input and output: a line of JSON is a message.

In the place of the SDK's own: that one reads lines of any length, in a thread that keeps a process from ending. While
`Wires` are held nothing else can write to the standard output: what tools print goes to the standard error.
"""

import asyncio
import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from mcp_types import jsonrpc_message_adapter

from cloister.mcp.server import CodeServer

# The longest message: code has at most 1 MiB, and JSON may write each of its characters as six.
MAX_FRAME_BYTES = 16 << 20
_CHUNK = 256 << 10
# What may be read and not yet be taken.
_MOST_WAITING = 64
# A client that has not read its answers by then is not waited for when the server ends.
_LAST_WORDS_SECONDS = 2.0


class Wires:
    """Takes the standard input and output for the protocol, before anything else can write to it."""

    def __init__(self) -> None:
        # Not below 3, and not for children.
        self.incoming = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        self.outgoing = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        sys.stdout.flush()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)


async def serve_stdio(server: CodeServer, wires: Wires) -> None:
    """Until the client closes its end."""
    reading, writing = _Reading(wires.incoming), _Writing(wires.outgoing)
    reading.answer = writing.put
    reading.start()
    writing.start()
    try:
        await server.sdk.run(reading, writing, server.initialization())
    finally:
        with anyio.CancelScope(shield=True):
            await writing.finish()


class _Reading:
    """A `ReadStream`. A thread reads, which nobody has to wait for: no system has another way for files, pipes and
    terminals alike."""

    def __init__(self, wire: int) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        # Nothing more is read while so many frames wait.
        self._room = threading.Semaphore(_MOST_WAITING)
        self._ended = False
        self.answer: Callable[[bytes], None] = lambda _frame: None

    def start(self) -> None:
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    def _read(self) -> None:
        buffer, seen, skipping = bytearray(), 0, False
        with contextlib.suppress(OSError, RuntimeError):
            while chunk := os.read(self._wire, _CHUNK):
                buffer += chunk
                while (end := buffer.find(b"\n", seen)) >= 0:
                    frame = bytes(buffer[:end])
                    del buffer[: end + 1]
                    seen = 0
                    if skipping:
                        skipping = False
                    elif frame.strip():
                        self._room.acquire()
                        self._loop.call_soon_threadsafe(self._frames.put_nowait, frame)
                seen = len(buffer)
                if seen > MAX_FRAME_BYTES:
                    if not skipping:
                        self._loop.call_soon_threadsafe(self.answer, _TOO_LONG)
                    # The rest of that line is read and forgotten.
                    buffer.clear()
                    seen, skipping = 0, True
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._frames.put_nowait, None)

    async def receive(self) -> SessionMessage | Exception:
        while not self._ended:
            frame = await self._frames.get()
            if frame is None:
                self._ended = True
                break
            self._room.release()
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False))
            except ValueError:
                self.answer(_NO_MESSAGE)
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        self._ended = True

    def __aiter__(self) -> "_Reading":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "_Reading":
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class _Writing:
    """A `WriteStream`. A thread writes whole messages, one after the other, so that a client that does not read stops
    nobody but those who wait for it."""

    def __init__(self, wire: int) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._changed = threading.Condition()
        self._finishing = False
        self._broken = False
        self._over = asyncio.Event()

    def start(self) -> None:
        threading.Thread(target=self._write, name="mcp-stdout", daemon=True).start()

    def _write(self) -> None:
        try:
            while True:
                with self._changed:
                    while not self._frames and not self._finishing:
                        self._changed.wait()
                    data = b"".join(self._frames)
                    self._frames.clear()
                if not data:
                    return
                view = memoryview(data)
                while view:
                    view = view[os.write(self._wire, view) :]
        except OSError:
            # The client has gone; it will have closed its other end too.
            self._broken = True
        finally:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over.set)

    def put(self, frame: bytes) -> None:
        with self._changed:
            self._frames.append(frame)
            self._changed.notify()

    async def send(self, item: SessionMessage, /) -> None:
        if self._broken:
            raise anyio.BrokenResourceError
        self.put(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async def finish(self) -> None:
        """What was said is written, if somebody reads it."""
        with self._changed:
            self._finishing = True
            self._changed.notify()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self._over.wait()

    async def aclose(self) -> None:
        """The wire is closed with the process."""

    async def __aenter__(self) -> "_Writing":
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _error(code: int, message: str) -> bytes:
    # A message that could not be read has no id to answer to.
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))
    return error.model_dump_json(by_alias=True).encode() + b"\n"


_TOO_LONG = _error(INVALID_REQUEST, f"a message of more than {MAX_FRAME_BYTES >> 20} MiB was left out")
_NO_MESSAGE = _error(PARSE_ERROR, "a line was no message of the protocol")
