"""`AsyncClient`: the API for programs with an event loop. Its methods are those of `Client`, awaited.

A request that is cancelled is broken off; whether the server has done it is not known then.
"""

from functools import cached_property
from typing import TypeVar

import anyio

try:
    import httpx2
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "cloister.client needs httpx2, which is not installed: pip install 'cloister[client]'", name="httpx2"
    ) from None

from cloister.client.ask import Ask, Reply
from cloister.client.asks import approvals, attachments, cells, files, runtime, secrets, sessions, threads, values
from cloister.client.events import AsyncEventStream, OnConnection, stream_path
from cloister.client.faces import AsyncRoom, Later
from cloister.client.link import SILENCE_SECONDS, Link, judged, link_of
from cloister.client.retry import Retry
from cloister.core.turn import Turn

T = TypeVar("T")


class Sessions(AsyncRoom):
    create = Later(sessions.create)
    get = Later(sessions.get)
    list = Later(sessions.list_)
    update = Later(sessions.update)
    delete = Later(sessions.delete)
    snapshot = Later(sessions.snapshot)
    restore = Later(sessions.restore)
    fork = Later(sessions.fork)
    catalog = Later(sessions.catalog)
    run = Later(cells.run)
    validate = Later(cells.validate)
    exec = Later(cells.exec_)
    wait = Later(cells.wait)
    terminate = Later(cells.terminate)
    cells = Later(cells.list_)


class Files(AsyncRoom):
    read = Later(files.read)
    list = Later(files.list_)
    stat = Later(files.stat)
    write = Later(files.write)
    delete = Later(files.delete)
    mkdir = Later(files.mkdir)
    move = Later(files.move)
    copy = Later(files.copy)
    grep = Later(files.grep)


class Values(AsyncRoom):
    list = Later(values.list_)
    get = Later(values.get)
    set = Later(values.set_)
    delete = Later(values.delete)


class Secrets(AsyncRoom):
    list = Later(secrets.list_)
    set = Later(secrets.set_)
    delete = Later(secrets.delete)


class Attachments(AsyncRoom):
    list = Later(attachments.list_)
    add = Later(attachments.add)
    get = Later(attachments.get)
    delete = Later(attachments.delete)


class Approvals(AsyncRoom):
    list = Later(approvals.list_)
    decide = Later(approvals.decide)
    decide_many = Later(approvals.decide_many)


class Threads(AsyncRoom):
    create = Later(threads.create)
    get = Later(threads.get)
    list = Later(threads.list_)
    update = Later(threads.update)
    fork = Later(threads.fork)
    compact = Later(threads.compact)
    turn = Later(threads.turn)
    get_turn = Later(threads.get_turn)
    steer = Later(threads.steer)
    interrupt = Later(threads.interrupt)
    answer = Later(threads.answer)


class AsyncClient:
    """`async with AsyncClient() as client: await client.sessions.run("notes", "1 + 1")`. Raises
    `CloisterError`s: those of the server by their codes, and those of `client.errors`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        silence: float = SILENCE_SECONDS,
        retry: Retry | None = None,
    ) -> None:
        """Without `url` and `token` those of CLOISTER_URL and CLOISTER_TOKEN (or the file CLOISTER_TOKEN_FILE), or of
        the server that `cloister serve` has started on this machine."""
        self.link: Link = link_of(url, token, timeout, silence, retry)
        self._http = httpx2.AsyncClient(**self.link.options())

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    info = Later(runtime.info)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self)

    @cached_property
    def files(self) -> Files:
        return Files(self)

    @cached_property
    def values(self) -> Values:
        return Values(self)

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(self)

    @cached_property
    def attachments(self) -> Attachments:
        return Attachments(self)

    @cached_property
    def approvals(self) -> Approvals:
        return Approvals(self)

    @cached_property
    def threads(self) -> Threads:
        return Threads(self)

    def events(
        self,
        *,
        thread_id: str | None = None,
        session_id: str | None = None,
        since: int = 0,
        on_connection: OnConnection | None = None,
    ) -> AsyncEventStream:
        """What has happened in a thread or a session after the event `since`, and what happens. `on_connection` hears
        that the server does not answer any more (False), and that it does again (True)."""
        return AsyncEventStream(self._http, self.link, stream_path(thread_id, session_id), since, on_connection)

    async def end_of(self, thread_id: str, turn_id: str) -> Turn:
        """The turn when it has ended, however long that takes."""
        detail = await self.threads.get(thread_id)
        async with self.events(thread_id=thread_id, since=detail.latest_seq) as events:
            turn = await self.threads.get_turn(thread_id, turn_id)
            while not turn.status.is_final:
                event = await anext(events)
                if event.event == "turn.completed" and event.turn_id == turn_id:
                    turn = await self.threads.get_turn(thread_id, turn_id)
        return turn

    async def send(self, ask: Ask[T]) -> T:
        """One request, and as often as `retry` allows."""
        return ask.read(await self._reply(ask))

    async def _reply(self, ask: Ask[T]) -> Reply:
        failed = 0
        while True:
            failed += 1
            try:
                response = await self._http.request(**self.link.sending(ask))
            except httpx2.TransportError as error:
                wait = self.link.retry.wait_ms(failed) if self.link.may_resend(ask, error) else None
                if wait is None:
                    raise self.link.broken(ask, error) from error
            else:
                found = judged(ask, response.status_code, response.headers, response.content)
                if isinstance(found, Reply):
                    return found
                wait = self.link.retry.wait_ms(failed, found.after_ms) if found.again else None
                if wait is None:
                    raise found.error
            await anyio.sleep(wait / 1000)
