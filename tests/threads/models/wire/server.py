"""A server on loopback that speaks the formats of providers, says what a test tells it, and remembers what it heard.

    async with ModelServer([Reply(text="Hello."), failing(529)]) as server:
        ...  # server.settings("openai"), server.heard[0].body

Paths decide the format: /v1/chat/completions, /v1/responses, /v1/messages. Replies are given in their order; when there
are none left, a request is answered with 500, so that a request too many is seen.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cloister.threads.models import ModelSettings
from tests.threads.models.wire import chat, messages, responses
from tests.threads.models.wire.reply import Raw, Reply

_FORMATS: Mapping[str, Any] = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/messages": messages,
}
WIRES = ("anthropic", "responses", "chat")


@dataclass(frozen=True)
class Fails:
    """An error of the provider, in its format."""

    status: int
    message: str = "it cannot"
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Heard:
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


Answering = Reply | Raw | Fails


class ModelServer:
    def __init__(self, replies: "Iterable[Answering] | Callable[[Heard], Answering]" = ()) -> None:
        self._decide = replies if callable(replies) else None
        self.replies: list[Answering] = [] if callable(replies) else list(replies)
        self.heard: list[Heard] = []
        # A stalled stream goes on.
        self.go = asyncio.Event()
        # Somebody waits in a stalled stream; somebody has gone away from one.
        self.stalled = asyncio.Event()
        self.left = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "ModelServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def settings(self, wire: str, **more: Any) -> ModelSettings:
        """Of a model that is reached here: `anthropic`, `responses` or `chat`."""
        base = f"http://127.0.0.1:{self.port}" + ("" if wire == "anthropic" else "/v1")
        told: dict[str, Any] = {"name": "there", "model": "some-model", "base_url": base, "api_key_env": "SOME_KEY"}
        told |= {"provider": "anthropic"} if wire == "anthropic" else {"provider": "openai", "wire": wire}
        return ModelSettings(**told | more)

    # -- inside ----------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        # Cancelled when the server closes: asyncio would print it.
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = (await reader.readline()).decode()
        if not first:
            return False
        headers: dict[str, str] = {}
        while line := (await reader.readline()).decode().strip():
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        heard = Heard(first.split()[1].partition("?")[0], headers, body)
        self.heard.append(heard)
        said = self._next(heard)
        form = _FORMATS.get(heard.path, chat)
        match said:
            case Raw():
                return await self._raw(said, writer)
            case Fails(status, message, more):
                failure = messages.failure if form is messages else chat.failure
                told = json.dumps(failure(status, message)).encode()
                return await self._raw(Raw(status, told, {"content-type": "application/json", **(more or {})}), writer)
            case Reply():
                number, model = len(self.heard), str(body.get("model"))
                if not body.get("stream"):
                    whole = json.dumps(form.whole(said, model, number)).encode()
                    return await self._raw(Raw(200, whole), writer)
                return await self._stream(said, form.events(said, model, number), reader, writer)

    def _next(self, heard: Heard) -> Answering:
        if self._decide is not None:
            return self._decide(heard)
        return self.replies.pop(0) if self.replies else Fails(500, "there are no replies left")

    async def _raw(self, raw: Raw, writer: asyncio.StreamWriter) -> bool:
        if raw.cut:
            writer.transport.abort()
            return False
        parts = [raw.body] if isinstance(raw.body, bytes) else raw.body
        head = "".join(f"{name}: {value}\r\n" for name, value in raw.headers.items())
        writer.write(f"HTTP/1.1 {raw.status} Said\r\n{head}transfer-encoding: chunked\r\n\r\n".encode())
        for part in parts:
            await _chunk(writer, part)
        if raw.broken:
            await writer.drain()
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _stream(
        self, reply: Reply, events: list[chat.Event], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for place, (name, data) in enumerate(events):
            if place == reply.cut_after:
                await writer.drain()
                writer.transport.abort()
                return False
            if place == reply.end_after:
                break
            if reply.error_after is not None and place == reply.error_after[0]:
                await _event(writer, "error", dict(reply.error_after[1]))
                break
            if place == reply.stall_after and not await self._stall(reader):
                return False
            await _event(writer, name, data)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _stall(self, reader: asyncio.StreamReader) -> bool:
        """Whether it goes on: the other side may go away meanwhile."""
        self.stalled.set()
        going, leaving = asyncio.ensure_future(self.go.wait()), asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([going, leaving], return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                self.left.set()
            return not leaving.done()
        finally:
            going.cancel()
            leaving.cancel()
            await asyncio.gather(going, leaving, return_exceptions=True)


async def _event(writer: asyncio.StreamWriter, name: str | None, data: dict[str, Any] | str) -> None:
    said = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {name}\n" if name is not None else ""
    await _chunk(writer, f"{head}data: {said}\n\n".encode())


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    # An empty one would be the end.
    if data:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()


__all__ = ["WIRES", "Fails", "Heard", "ModelServer", "Raw", "Reply"]
