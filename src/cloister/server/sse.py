"""Server-sent events: whatever a feed tells, as an answer that ends when the feed, the client or the server does.

What is told is the feed's business. A client that reads slowly makes nobody wait: the feed is asked for more when what
it gave last has been sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

from starlette.responses import Response

from cloister.core.envelope import SCHEMA_VERSION
from cloister.core.errors import CloisterError
from cloister.server.frames import framed
from cloister.server.logs import log
from cloister.server.problems import Problem
from cloister.server.service import Service

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

MEDIA_TYPE = "text/event-stream"
# What came together goes together: each sending costs as much as the next, whatever its size.
_TOGETHER = 256
_KEEPALIVE = b": keepalive\n\n"


class Feed(Protocol):
    """What a stream tells. Entered before the answer begins: what happens from then on is not missed."""

    # Why it came to its end by itself, for the client.
    over: str

    async def __aenter__(self) -> "Feed": ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def next(self, most: int) -> list[bytes]:
        """Waits for something, and gives all that is there by then as frames; nothing at the end."""
        ...

    def end(self) -> None:
        """Let `next` come to the end, once it has told what is there."""
        ...


class Streaming(Response):
    media_type = MEDIA_TYPE

    def __init__(self, service: Service, feed: Feed) -> None:
        """Raises `Problem` where there are too many already."""
        if service.streams >= service.limits.max_streams:
            raise Problem(
                "RATE_LIMITED",
                f"there are {service.streams} streams already, and no more than {service.limits.max_streams} may be "
                "open",
                headers={"retry-after": "5"},
            )
        super().__init__(None, 200, {"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._service = service
        self._feed = feed
        # When something was sent last, on the clock of the loop.
        self._told_at = 0.0

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
        async with self._feed as feed:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
            watching = asyncio.ensure_future(_until_gone(receive))
            closing = asyncio.ensure_future(self._service.closing.wait())
            living = asyncio.ensure_future(self._keep_alive(send))
            reading = asyncio.current_task()
            why: list[str] = []

            def end(reason: str) -> Callable[[object], None]:
                def ended(_: object) -> None:
                    if not why and reading is not None:
                        why.append(reason)
                        if reason == "gone":
                            reading.cancel()
                        else:
                            feed.end()

                return ended

            watching.add_done_callback(end("gone"))
            closing.add_done_callback(end("shutting_down"))
            try:
                reason = await self._copy(feed, send)
                living.cancel()
                await asyncio.wait([living])
                last = {"schema_version": SCHEMA_VERSION, "event": "stream.closed", "reason": why[0] if why else reason}
                await send({"type": "http.response.body", "body": framed("stream.closed", last)})
            except asyncio.CancelledError:
                if why != ["gone"] or reading is None or reading.uncancel() > 0:
                    raise
            finally:
                why.append("done")
                for task in (watching, closing, living):
                    task.cancel()
                await asyncio.gather(watching, closing, living, return_exceptions=True)

    async def _copy(self, feed: Feed, send: Send) -> str:
        """All that it tells, and why it has ended."""
        try:
            while frames := await feed.next(_TOGETHER):
                self._told_at = asyncio.get_running_loop().time()
                await send({"type": "http.response.body", "body": b"".join(frames), "more_body": True})
        except CloisterError as error:
            log.warning("a stream of events has broken: %s", error.code)
            # What it has not told is still in the log: the client may come again.
            return "unavailable"
        return feed.over

    async def _keep_alive(self, send: Send) -> None:
        """A comment whenever nothing was told for that long. Beside the reading: a timer for each event would cost more
        than the event does."""
        loop, quiet = asyncio.get_running_loop(), self._service.limits.keepalive_ms / 1000
        self._told_at = loop.time()
        while True:
            if (rest := self._told_at + quiet - loop.time()) > 0:
                await asyncio.sleep(rest)
                continue
            self._told_at = loop.time()
            await send({"type": "http.response.body", "body": _KEEPALIVE, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    # Containment: a connection that breaks is a client that has gone.
    except Exception:  # noqa: BLE001
        log.debug("a stream's connection has broken", exc_info=True)
