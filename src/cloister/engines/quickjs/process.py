"""One worker process as the host sees it: spawned, asked, killed, reaped.

A request is one frame and gets one frame; in between may come output, and questions that are answered at once.
Whatever else a worker does is a reason to kill it, and a worker that is gone fails the request under way with
`WorkerLost`. The socket and the process's end are watched by the event loop; only a long question takes a thread.
"""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from cloister.engines.quickjs import frames
from cloister.engines.quickjs.launch import command
from cloister.engines.warden import Warden

_WORK = """
from cloister.engines.quickjs.worker import main
main()
"""
_OUTPUT_BYTES = 16 * frames.MIB

# Questions up to this length are read on the event loop.
_SHORT = 64 << 10

Output = Callable[[Literal["stdout", "stderr"], str], None]
# What goes back for the payload of a question; raises `FrameError`.
Consult = Callable[[bytes], bytes]


class WorkerLost(Exception):
    """The worker is gone, or was made to go because it misbehaved; the message says which."""


class WorkerProcess(asyncio.Protocol):
    """The host's end of one worker."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._loop = asyncio.get_running_loop()
        self._child = child
        self.warden = Warden(child.pid)
        self._reader = frames.Reader(frames.LARGEST)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._wanted: frozenset[int] = frozenset()
        self.answered = 0
        self._output: Output | None = None
        self._heard = 0
        self._consult: Consult | None = None
        # A question that is read in a thread. Until it is answered an honest worker says nothing.
        self._asked: asyncio.Task[None] | None = None
        self.lost: str | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.sessions = 0
        self.hello: Mapping[str, Any] = {}
        self._watch_end()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self.lost is None and not self.ended.done()

    # -- asking ------------------------------------------------------------------------------------------------

    async def ask(
        self, frame: bytes, *wanted: int, output: Output | None = None, consult: Consult | None = None
    ) -> tuple[int, bytes]:
        """Send a frame and wait for the answer. A cancelled wait kills the worker: its answer would be the next's."""
        if self.lost is not None or self._transport is None:
            raise WorkerLost(self.lost or "the worker is not connected")
        assert self._answer is None, "one request at a time"
        self._wanted, self._output, self._consult, self._heard = frozenset(wanted), output, consult, 0
        answer = self._answer = self._loop.create_future()
        self._transport.write(frame)
        try:
            payload = await answer
        except asyncio.CancelledError:
            self.misbehaved("its request was cancelled")
            raise
        finally:
            self._answer = self._output = self._consult = None
        return self.answered, payload

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.lost is not None:
            return
        try:
            for kind, payload in self._reader.feed(data):
                self._receive(kind, payload)
        except (frames.FrameError, UnicodeDecodeError) as error:
            self.misbehaved(str(error))

    def _receive(self, kind: int, payload: bytes) -> None:
        if self._asked is not None:
            raise frames.FrameError("a frame in the middle of a question")
        if kind == frames.HELP:
            self._question(payload)
            return
        if kind == frames.OUTPUT:
            self._heard += len(payload)
            if self._output is None or self._heard > _OUTPUT_BYTES or payload[:1] not in (b"o", b"e"):
                raise frames.FrameError("output that nobody asked for")
            self._output("stdout" if payload[:1] == b"o" else "stderr", payload[1:].decode())
            return
        answer = self._answer
        if answer is None or answer.done() or kind not in self._wanted:
            raise frames.FrameError(f"a frame of kind {kind} that nobody asked for")
        self.answered = kind
        answer.set_result(payload)

    def _question(self, payload: bytes) -> None:
        consult, answer = self._consult, self._answer
        # An honest worker has read one answer to its end before it asks again, so none can pile up here.
        if consult is None or answer is None or answer.done() or self._unsent():
            raise frames.FrameError("a question that nobody asked for")
        # A file can be large, whatever the question's length.
        if len(payload) > _SHORT or frames.is_about_files(payload):
            self._asked = self._loop.create_task(self._answer_aside(consult, payload))
        else:
            self._reply(consult(payload))

    async def _answer_aside(self, consult: Consult, payload: bytes) -> None:
        try:
            reply = await asyncio.to_thread(consult, payload)
            self._reply(reply)
        except frames.FrameError as error:
            self.misbehaved(str(error))
        except Exception:
            # The host's own fault, and told as such; but nobody will answer the worker any more.
            self.misbehaved("a question could not be answered")
            raise
        finally:
            self._asked = None

    def _reply(self, frame: bytes) -> None:
        if self.lost is None and self._transport is not None:
            self._transport.write(frame)

    def _unsent(self) -> bool:
        return self._transport is None or self._transport.get_write_buffer_size() > 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose("the worker closed its connection")
        self.warden.kill()

    # -- the end -----------------------------------------------------------------------------------------------

    def misbehaved(self, why: str) -> None:
        self._lose(why)
        self.kill()

    def kill(self) -> None:
        self.warden.kill()
        if self._transport is not None:
            self._transport.abort()

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = why
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(WorkerLost(self.lost))

    def _watch_end(self) -> None:
        self._pidfd = os.pidfd_open(self._child.pid) if hasattr(os, "pidfd_open") else None
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._reap)
        else:
            self._loop.call_later(0.05, self._reap)

    def _reap(self) -> None:
        if self._child.poll() is None:
            if self._pidfd is None:
                self._loop.call_later(0.05, self._reap)
            return
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._lose("the worker ended")
        self.warden.close()
        if not self.ended.done():
            self.ended.set_result(None)


async def spawn(module: bytes, boot: str) -> WorkerProcess:
    """A worker that has booted, sealed itself and said hello."""
    ours, child = _fork()
    worker = WorkerProcess(child)
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
        _, hello = await worker.ask(frames.pack_with_head(frames.SETUP, {"boot": boot}, module), frames.HELLO)
        worker.hello = read_hello(hello)
    except BaseException:
        ours.close()
        await bury(worker)
        raise
    return worker


async def bury(worker: WorkerProcess) -> None:
    """Kill a worker and wait until it is reaped, also when the caller is cancelled: nothing outlives a SIGKILL."""
    worker.misbehaved("the worker was killed")
    while not worker.ended.done():
        try:
            await asyncio.shield(worker.ended)
        except asyncio.CancelledError:
            continue


def _fork() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """A child and our end of its socket. Blocks for the millisecond that a vfork and an exec take."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            ours.setblocking(False)
            child = subprocess.Popen(
                command(_WORK),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                close_fds=True,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return ours, child


def read_hello(payload: bytes) -> Mapping[str, Any]:
    try:
        hello = json.loads(payload)
        layers = {str(name): str(state) for name, state in hello["layers"].items()}
        return {"layers": layers, "digest": str(hello["digest"])}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise WorkerLost(f"the worker does not say hello: {error}") from None
