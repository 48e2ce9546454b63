"""`cloister approvals watch`: questions as they come and what becomes of them, whichever host asks.

With `--decide` each is put to whoever sits at the terminal, and the answer goes the way of `approvals allow`. A
question that somebody else decides meanwhile is taken off the screen.
"""

import asyncio
import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cloister.cli.approve import Prompt
from cloister.cli.exits import OK
from cloister.cli.failures import UsageError, complain
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.kept.approvals import WAIT_MS, OfSession, plain, said_of, short
from cloister.cli.kept.where import HERE, Place
from cloister.cli.options import AsJson
from cloister.cli.terminal import flat
from cloister.core.approval import Approval, ApprovalState
from cloister.core.errors import CloisterError

if TYPE_CHECKING:
    from cloister.ports.rows import EventRow
    from cloister.ports.store import Store

Count = Annotated[int | None, Parameter(help="Stop after so many lines.")]
Timeout = Annotated[int | None, Parameter(help="Stop after so long.")]
Decide = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Ask about each question at this terminal; Ctrl-D stops."),
]
_REQUIRED = "approval.required"
_KINDS = (_REQUIRED, "approval.answered", "approval.decided", "approval.expired", "approval.cancelled")
_LONG_MS = 60_000
_PAGE = 1000


def watch(
    *,
    session: OfSession = None,
    decide: Decide = False,
    max_lines: Count = None,
    timeout_ms: Timeout = None,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    if decide and as_json:
        raise UsageError("--decide asks a person, and --json is for programs", "give one of them")
    if decide and not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to ask at", "cloister approvals allow ID decides without one")
    screen = _Screen(max_lines, as_json)
    return run_interruptibly(_watch(session, decide, screen, timeout_ms, place))


async def _watch(session: str | None, decide: bool, screen: "_Screen", timeout_ms: int | None, place: Place) -> int:
    async with place.open() as store:
        asker = _Asker(store, screen) if decide else None
        following = asyncio.ensure_future(_follow(store, session, screen, asker, timeout_ms))
        tasks = [following] if asker is None else [following, asyncio.ensure_future(asker.run())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    return OK


async def _follow(
    store: "Store", session: str | None, screen: "_Screen", asker: "_Asker | None", timeout_ms: int | None
) -> None:
    """Tell of all that happens, until enough was told or time is up."""
    from cloister.app.kept import questions

    until = time.monotonic() + timeout_ms / 1000 if timeout_ms is not None else None
    # What is asked from here on comes as an event: nothing falls between the two.
    since = await store.last_event()
    shown: set[tuple[str, str]] = set()
    for one in await questions(store, state="pending", session_id=session):
        shown.add((one.id, _REQUIRED))
        if screen.write(_REQUIRED, plain(one)):
            return
        if asker is not None:
            asker.opened(one.id)
    while True:
        left_ms = _LONG_MS if until is None else int((until - time.monotonic()) * 1000)
        if left_ms <= 0:
            return
        while rows := await store.events(session_id=session, since=since, limit=_PAGE):
            since = rows[-1].seq
            for row in rows:
                if not _is_new(row, shown):
                    continue
                if screen.write(row.kind, dict(row.doc)):
                    return
                if asker is not None and row.kind == _REQUIRED:
                    asker.opened(str(row.doc["id"]))
                elif asker is not None:
                    asker.closed(str(row.doc["id"]))
        await store.wait_for_events(since, min(left_ms, _LONG_MS))


def _is_new(row: "EventRow", shown: set[tuple[str, str]]) -> bool:
    return row.kind in _KINDS and (str(row.doc.get("id")), row.kind) not in shown


class _Screen:
    """Lines about questions. While one is being asked at the terminal they wait."""

    def __init__(self, most: int | None, as_json: bool) -> None:
        self._most = most
        self._as_json = as_json
        self._told = 0
        self._waiting: list[str] | None = None

    def write(self, kind: str, approval: dict[str, Any]) -> bool:
        """Whether that was the last line."""
        line = _line(kind, approval, self._as_json)
        if self._waiting is None:
            print(line, flush=True)
        else:
            self._waiting.append(line)
        self._told += 1
        return self._most is not None and self._told >= self._most

    @contextmanager
    def quiet(self) -> Generator[None, None, None]:
        self._waiting = []
        try:
            yield
        finally:
            lines, self._waiting = self._waiting, None
            for line in lines:
                print(line, flush=True)


class _Asker:
    """Puts questions to the person at the terminal, one at a time, the oldest first."""

    def __init__(self, store: "Store", screen: _Screen) -> None:
        self._store = store
        self._prompt = Prompt(sys.stdin.fileno(), sys.stderr, screen.quiet)
        self._open: dict[str, None] = {}
        self._news = asyncio.Event()
        # The question on the screen.
        self._asking: tuple[str, asyncio.Task[Any]] | None = None

    def opened(self, approval_id: str) -> None:
        self._open[approval_id] = None
        self._news.set()

    def closed(self, approval_id: str) -> None:
        self._open.pop(approval_id, None)
        if self._asking is not None and self._asking[0] == approval_id:
            self._asking[1].cancel()

    async def run(self) -> None:
        """Until whoever is asked has left."""
        while True:
            self._news.clear()
            while self._open:
                approval_id = next(iter(self._open))
                del self._open[approval_id]
                approval = await self._as_it_is(approval_id)
                if approval is not None and not await self._ask(approval):
                    return
            await self._news.wait()

    async def _as_it_is(self, approval_id: str) -> Approval | None:
        """The question, if it is still open."""
        from cloister.app.kept.answering import as_it_is

        row = await self._store.approval(approval_id)
        found = as_it_is(row) if row is not None else None
        return found if found is not None and found.state is ApprovalState.PENDING else None

    async def _ask(self, approval: Approval) -> bool:
        """Whether somebody is still there to be asked."""
        from cloister.app.kept import answer

        asking = asyncio.ensure_future(self._prompt.ask(approval))
        self._asking = (approval.id, asking)
        try:
            await asyncio.wait([asking])
        finally:
            self._asking = None
            asking.cancel()
        if asking.cancelled():
            return True
        given = asking.result()
        if given is None:
            return False
        try:
            # What becomes of it is told by its events.
            done = await answer(self._store, approval.id, given.decision, message=given.message, wait_ms=WAIT_MS)
            print(flat(f"cloister: {said_of(done)}"), file=sys.stderr)
        except CloisterError as error:
            complain(error.message, error.hint)
        return True


def _line(kind: str, approval: dict[str, Any], as_json: bool) -> str:
    if as_json:
        return json.dumps({"event": kind, "approval": approval})
    what = kind.removeprefix("approval.")
    if what == "answered":
        verb = f"answered: {approval.get('decision')}"
    else:
        verb = "asks" if what == "required" else approval.get("decision") or what
    return flat(
        f"{approval['id']}  {approval['session_id']}  {verb}  {approval['capability']}  "
        f"{short(approval.get('arguments'))}"
    )
