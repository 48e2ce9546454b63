"""Streams of events that outlive their connections: each event once and in order, whatever becomes of the network.

A connection that breaks, or says nothing for too long, is made anew from the last event that was read; a server that is
gone is looked for until `Retry.reconnect_ms` is over. What was missed cannot be: see `track`. A stream ends when its
session is closed, and when it is left.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import anyio
import httpx2

from cloister.client.ask import Ask, at
from cloister.client.errors import AnswerUnreadable
from cloister.client.link import Link, Refused, judged
from cloister.client.reading import nothing
from cloister.client.track import Closed, Track
from cloister.core.envelope import Envelope
from cloister.core.errors import CloisterError, InvalidInput

# Hears that the server does not answer any more (False), and that it does again (True).
OnConnection = Callable[[bool], object]


def stream_path(thread_id: str | None, session_id: str | None) -> str:
    if thread_id is not None and session_id is None:
        return at("threads", thread_id, "events")
    if session_id is not None and thread_id is None:
        return at("sessions", session_id, "events")
    raise InvalidInput("a stream is of a thread or of a session: give one of thread_id and session_id")


class Course:
    """What both streams have: what was read and not told yet, and how long to look for the server."""

    def __init__(self, link: Link, path: str, since: int, on_connection: OnConnection | None = None) -> None:
        if type(since) is not int or not 0 <= since < 1 << 53:
            raise InvalidInput(f"since is the number of an event, or 0, not {since!r:.80}")
        self.link = link
        self.track = Track(since)
        # The last event that was handed out: what was read behind it is not the caller's yet.
        self.told = since
        self.found: deque[Envelope] = deque()
        self.over = False
        # How many were made, and how long to wait before the next, in seconds.
        self.connections = 0
        self.pause = 0.0
        self._ask = Ask("GET", path, nothing)
        self._since = since
        # What to raise once all that was read before it is told.
        self._broken: CloisterError | None = None
        self._failed = 0
        # When the server was lost, and when this connection was made.
        self._lost_at: float | None = None
        self._made_at: float | None = None
        self._on_connection = on_connection
        # Whether it was said that the server is gone.
        self._is_gone = False

    def request(self) -> Mapping[str, Any]:
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        if self.track.last > self._since:
            headers["last-event-id"] = str(self.track.last)
        return {
            "method": "GET",
            "url": self._ask.path,
            "params": {"since_seq": str(self.track.last)} if self.track.last else None,
            "headers": headers,
            "timeout": httpx2.Timeout(self.link.timeout, read=self.link.silence),
        }

    def made(self) -> None:
        self._made_at, self.pause = time.monotonic(), 0.0
        self.connections += 1
        self.track.begin()
        self._tell(is_there=True)

    def _tell(self, *, is_there: bool) -> None:
        if self._on_connection is not None and self._is_gone == is_there:
            self._is_gone = not is_there
            self._on_connection(is_there)

    def take(self, piece: bytes) -> bool:
        """What a piece of the stream completes; whether there may be more of it."""
        try:
            for told in self.track.feed(piece):
                if isinstance(told, Closed):
                    self.over = told.for_good
                    return False
                self.found.append(told)
                self._failed, self._lost_at = 0, None
        except CloisterError as error:
            self._broken = error
            return False
        return True

    def next(self) -> Envelope | None:
        """What is to be told now. Raises what the stream has ended with."""
        if self.found:
            event = self.found.popleft()
            self.told = event.seq or self.told
            return event
        if self._broken is not None:
            self.over = True
            raise self._broken
        return None

    def refused(self, response: httpx2.Response, body: bytes) -> None:
        """The server does not give the stream: for now, or for good, which raises why."""
        answer = judged(self._ask, response.status_code, response.headers, body)
        if not isinstance(answer, Refused):
            answer = Refused(AnswerUnreadable(f"{self._ask.path} is no stream of events"))
        if not answer.again:
            self.over = True
            raise answer.error
        self.lost(answer.error)
        self.pause = max(self.pause, min(answer.after_ms or 0, self.link.retry.most_ms) / 1000)

    def lost(self, why: httpx2.TransportError | CloisterError | None = None) -> None:
        """The connection is gone. Raises `ServerUnreachable` when there was none for long enough."""
        if self.over or self._broken is not None:
            return
        retry, now = self.link.retry, time.monotonic()
        if self._made_at is not None and now - self._made_at > retry.most_ms / 1000:
            # It was a good one.
            self._failed, self._lost_at = 0, None
        self._made_at = None
        self._failed += 1
        if self._lost_at is None:
            self._lost_at = now
        never = self.connections == 0 and self._failed >= retry.attempts
        if never or now - self._lost_at >= retry.reconnect_ms / 1000:
            self.over = True
            if isinstance(why, CloisterError):
                raise why
            raise self.link.unreachable(why or httpx2.ReadError("the stream ended")) from why
        self.pause = retry.pause_ms(self._failed) / 1000
        if self.connections and self._failed > 1:
            # Not at once: most that break are made anew before anybody could have read that.
            self._tell(is_there=False)


class EventStream:
    """`with client.events(thread_id=…) as events: for event in events`. One reader at a time."""

    def __init__(
        self, client: httpx2.Client, link: Link, path: str, since: int, on_connection: OnConnection | None = None
    ) -> None:
        self._client = client
        self._course = Course(link, path, since, on_connection)
        self._response: httpx2.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    @property
    def last_seq(self) -> int:
        """The last event that was handed out: where another stream goes on."""
        return self._course.told

    @property
    def reconnects(self) -> int:
        """How often the connection was made anew."""
        return max(self._course.connections - 1, 0)

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._course.over = True
        self._disconnect()

    def __iter__(self) -> "EventStream":
        return self

    def __next__(self) -> Envelope:
        course = self._course
        while (event := course.next()) is None:
            if course.over:
                raise StopIteration
            if self._response is None:
                time.sleep(course.pause)
            self._read()
        return event

    def _read(self) -> None:
        course = self._course
        try:
            if self._response is None:
                request = self._client.build_request(**course.request())
                response = self._response = self._client.send(request, stream=True)
                if response.status_code != 200:
                    response.read()
                    self._disconnect()
                    course.refused(response, response.content)
                    return
                course.made()
                self._pieces = response.iter_bytes()
            piece = next(self._pieces, None)
            if piece is None or not course.take(piece):
                self._disconnect()
                course.lost()
        except httpx2.TransportError as error:
            self._disconnect()
            course.lost(error)
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()


class AsyncEventStream:
    """`async with client.events(thread_id=…) as events: async for event in events`. One reader at a time; one that was
    cancelled may go on, and has missed nothing."""

    def __init__(
        self, client: httpx2.AsyncClient, link: Link, path: str, since: int, on_connection: OnConnection | None = None
    ) -> None:
        self._client = client
        self._course = Course(link, path, since, on_connection)
        self._response: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    @property
    def last_seq(self) -> int:
        return self._course.told

    @property
    def reconnects(self) -> int:
        return max(self._course.connections - 1, 0)

    async def __aenter__(self) -> "AsyncEventStream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self._course.over = True
        await self._disconnect()

    def __aiter__(self) -> "AsyncEventStream":
        return self

    async def __anext__(self) -> Envelope:
        course = self._course
        while (event := course.next()) is None:
            if course.over:
                raise StopAsyncIteration
            if self._response is None:
                await anyio.sleep(course.pause)
            await self._read()
        return event

    async def _read(self) -> None:
        course = self._course
        try:
            if self._response is None:
                request = self._client.build_request(**course.request())
                response = self._response = await self._client.send(request, stream=True)
                if response.status_code != 200:
                    await response.aread()
                    await self._disconnect()
                    course.refused(response, response.content)
                    return
                course.made()
                self._pieces = response.aiter_bytes()
            assert self._pieces is not None
            piece = await anext(self._pieces, None)
            if piece is None or not course.take(piece):
                await self._disconnect()
                course.lost()
        except httpx2.TransportError as error:
            await self._disconnect()
            course.lost(error)
        except BaseException:
            await self._disconnect()
            raise

    async def _disconnect(self) -> None:
        response, self._response = self._response, None
        self._pieces = None
        if response is not None:
            # Also when we are cancelled: a connection that nobody closes is in the pool for good.
            with anyio.CancelScope(shield=True):
                await response.aclose()
