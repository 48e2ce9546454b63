"""A session's events as a stream of server-sent events: what is in the log first, then what comes, without a gap.

Each is one line of JSON, so nothing that a program has said can end it or begin another. `previous_seq` is that of the
event before it in the same session, whoever reads: a client that has each event's predecessor has missed nothing. A
reader that is slow is healed from the log and makes nobody wait.
"""

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import Response

from cloister.core.event import Event
from cloister.core.wire import format_time, to_json
from cloister.server.logs import log
from cloister.server.service import Service
from cloister.sessions import Session

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

SCHEMA_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
_TOGETHER = 256
_MOST_WRITTEN = 2048
_PAGE = 500
_KEEPALIVE = b": keepalive\n\n"


def envelope(event: Event, previous_seq: int | None) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "seq": event.seq,
        "previous_seq": previous_seq,
        "event": event.kind,
        "kind": event.kind.partition(".")[0],
        "session_id": event.session_id,
        "timestamp": format_time(event.at),
        "payload": to_json(event.data),
    }


def framed(event: Event, previous_seq: int | None) -> bytes:
    name = event.kind if _NAME.match(event.kind) else "event"
    data = json.dumps(envelope(event, previous_seq), separators=(",", ":"))
    return f"id: {event.seq}\nevent: {name}\ndata: {data}\n\n".encode()


class Frames:
    """Events that were written once and are sent to many. Those of a log only: their numbers are never used again."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[int, int | None], bytes] = OrderedDict()

    def of(self, event: Event, previous_seq: int | None) -> bytes:
        key = (event.seq, previous_seq)
        found = self._written.get(key)
        if found is None:
            found = self._written[key] = framed(event, previous_seq)
            while len(self._written) > _MOST_WRITTEN:
                self._written.popitem(last=False)
        return found


class EventStreamAnswer(Response):
    """`since`: the event that the client has last; None where nothing is in a log."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, session: Session, since: int | None, frames: Frames) -> None:
        super().__init__(None, 200, {"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._service = service
        self._session = session
        self._since = since
        self._frames = frames
        # How often something was sent.
        self._told = 0

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        service = self._service
        service.streams += 1
        # It is told to end when the server stops, and is not waited for before that.
        service.leave()
        try:
            await self._serve(receive, send)
        finally:
            service.enter()
            service.streams -= 1

    async def _serve(self, receive: Receive, send: Send) -> None:
        # Before the log is read: what happens meanwhile is heard.
        async with self._session.events(since=self._since) as stream:
            previous = await self._before() if self._since else None
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
            watching = asyncio.ensure_future(_until_gone(receive))
            closing = asyncio.ensure_future(self._service.closing.wait())
            living = asyncio.ensure_future(self._keep_alive(send))
            reading = asyncio.current_task()
            over: list[str] = []

            def end(reason: str) -> Callable[[object], None]:
                def ended(_: object) -> None:
                    if not over and reading is not None:
                        over.append(reason)
                        if reason == "gone":
                            reading.cancel()
                        else:
                            stream.end()

                return ended

            watching.add_done_callback(end("gone"))
            closing.add_done_callback(end("shutting_down"))
            try:
                await self._copy(stream, previous, send)
                living.cancel()
                await asyncio.wait([living])
                reason = over[0] if over else "session_closed"
                last = json.dumps({"schema_version": SCHEMA_VERSION, "event": "stream.closed", "reason": reason})
                await send({"type": "http.response.body", "body": f"event: stream.closed\ndata: {last}\n\n".encode()})
            except asyncio.CancelledError:
                if over != ["gone"] or reading is None or reading.uncancel() > 0:
                    raise
            finally:
                over.append("done")
                for task in (watching, closing, living):
                    task.cancel()
                await asyncio.gather(watching, closing, living, return_exceptions=True)

    async def _copy(self, stream: Any, previous: int | None, send: Send) -> None:
        is_logged = self._since is not None
        while True:
            some: list[Event] = stream.at_once(_TOGETHER)
            if not some:
                try:
                    some.append(await anext(stream))
                except StopAsyncIteration:
                    return
                # What came with it goes with it: each sending costs as much as the next, whatever its size.
                some += stream.at_once(_TOGETHER)
            parts: list[bytes] = []
            for event in some:
                parts.append(self._frames.of(event, previous) if is_logged else framed(event, previous))
                previous = event.seq
            self._told += 1
            await send({"type": "http.response.body", "body": b"".join(parts), "more_body": True})

    async def _keep_alive(self, send: Send) -> None:
        """A comment whenever nothing was told for a while. Beside the reading: a timer for each event would cost more
        than the event does."""
        quiet, told = self._service.limits.keepalive_ms / 1000, -1
        while True:
            if told == self._told:
                await send({"type": "http.response.body", "body": _KEEPALIVE, "more_body": True})
            told = self._told
            await asyncio.sleep(quiet)

    async def _before(self) -> int | None:
        """The last event of the session up to where the client is: usually the one that it named."""
        since, session_id = self._since or 0, self._session.id
        back = 1
        while True:
            start = max(since - back, 0)
            last: int | None = None
            while page := await self._service.cloister.stored_events(session_id, since=start, limit=_PAGE):
                known = [event.seq for event in page if event.seq <= since]
                if known:
                    last = start = known[-1]
                if len(known) < _PAGE:
                    break
            if last is not None or start == 0:
                return last
            back *= 8


async def _until_gone(receive: Receive) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    # Containment: a connection that breaks is a client that has gone.
    except Exception:  # noqa: BLE001
        log.debug("a stream's connection has broken", exc_info=True)
