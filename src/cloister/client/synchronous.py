"""`Client`: the API for programs that wait for each answer. Its methods are those of `AsyncClient`, not awaited.

May be used by several threads; a stream of events by one.
"""

import time
from functools import cached_property
from typing import TypeVar

import httpx2

from cloister.client.ask import Ask, Reply
from cloister.client.asks import approvals, attachments, cells, files, runtime, secrets, sessions, threads, values
from cloister.client.events import EventStream, OnConnection, stream_path
from cloister.client.faces import Now, Room
from cloister.client.link import SILENCE_SECONDS, Link, judged, link_of
from cloister.client.retry import Retry
from cloister.core.turn import Turn

T = TypeVar("T")


class Sessions(Room):
    create = Now(sessions.create)
    get = Now(sessions.get)
    list = Now(sessions.list_)
    update = Now(sessions.update)
    delete = Now(sessions.delete)
    snapshot = Now(sessions.snapshot)
    restore = Now(sessions.restore)
    fork = Now(sessions.fork)
    catalog = Now(sessions.catalog)
    run = Now(cells.run)
    validate = Now(cells.validate)
    exec = Now(cells.exec_)
    wait = Now(cells.wait)
    terminate = Now(cells.terminate)
    cells = Now(cells.list_)


class Files(Room):
    read = Now(files.read)
    list = Now(files.list_)
    stat = Now(files.stat)
    write = Now(files.write)
    delete = Now(files.delete)
    mkdir = Now(files.mkdir)
    move = Now(files.move)
    copy = Now(files.copy)
    grep = Now(files.grep)


class Values(Room):
    list = Now(values.list_)
    get = Now(values.get)
    set = Now(values.set_)
    delete = Now(values.delete)


class Secrets(Room):
    list = Now(secrets.list_)
    set = Now(secrets.set_)
    delete = Now(secrets.delete)


class Attachments(Room):
    list = Now(attachments.list_)
    add = Now(attachments.add)
    get = Now(attachments.get)
    delete = Now(attachments.delete)


class Approvals(Room):
    list = Now(approvals.list_)
    decide = Now(approvals.decide)
    decide_many = Now(approvals.decide_many)


class Threads(Room):
    create = Now(threads.create)
    get = Now(threads.get)
    list = Now(threads.list_)
    update = Now(threads.update)
    fork = Now(threads.fork)
    compact = Now(threads.compact)
    turn = Now(threads.turn)
    get_turn = Now(threads.get_turn)
    steer = Now(threads.steer)
    interrupt = Now(threads.interrupt)
    answer = Now(threads.answer)


class Client:
    """`with Client() as client: client.sessions.run("notes", "1 + 1")`. Raises `CloisterError`s: those of the server by
    their codes, and those of `client.errors`."""

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
        self._http = httpx2.Client(**self.link.options())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    info = Now(runtime.info)

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
    ) -> EventStream:
        """What has happened in a thread or a session after the event `since`, and what happens. `on_connection` hears
        that the server does not answer any more (False), and that it does again (True)."""
        return EventStream(self._http, self.link, stream_path(thread_id, session_id), since, on_connection)

    def end_of(self, thread_id: str, turn_id: str) -> Turn:
        """The turn when it has ended, however long that takes."""
        detail = self.threads.get(thread_id)
        with self.events(thread_id=thread_id, since=detail.latest_seq) as events:
            turn = self.threads.get_turn(thread_id, turn_id)
            while not turn.status.is_final:
                event = next(events)
                if event.event == "turn.completed" and event.turn_id == turn_id:
                    turn = self.threads.get_turn(thread_id, turn_id)
        return turn

    def send(self, ask: Ask[T]) -> T:
        """One request, and as often as `retry` allows."""
        return ask.read(self._reply(ask))

    def _reply(self, ask: Ask[T]) -> Reply:
        failed = 0
        while True:
            failed += 1
            try:
                response = self._http.request(**self.link.sending(ask))
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
            time.sleep(wait / 1000)
