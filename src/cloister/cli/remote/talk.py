"""One thread as somebody here takes part in it: its events on the screen, its questions answered, its turns waited for.

What there is to do is read off the events alone: which turns go on, and which questions are open. Whoever answers a
question elsewhere takes it off this screen.
"""

import asyncio
import inspect
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cloister.cli.failures import complain
from cloister.cli.remote.screen import Screen
from cloister.core.approval import Answer, Approval, Approver
from cloister.core.envelope import Envelope
from cloister.core.errors import CloisterError
from cloister.core.thread import ThreadDetail
from cloister.core.turn import Turn, TurnParams
from cloister.core.wire import keep_json

if TYPE_CHECKING:
    from cloister.client import AsyncClient
    from cloister.client.events import AsyncEventStream


class NobodyAnswers(Exception):
    """A question is open, and there is nobody here to ask."""

    def __init__(self, approval: Approval) -> None:
        super().__init__(approval.id)
        self.approval = approval


class Talk:
    """`asker` is None where nobody can be asked. Made by `opened`, and left by `close`."""

    def __init__(
        self,
        client: "AsyncClient",
        detail: ThreadDetail,
        screen: Screen,
        asker: Approver | None,
    ) -> None:
        self.client = client
        self.thread = detail.thread
        self.screen = screen
        self._asker = asker
        # Turns that have not ended, the first to run first, and those that have, as they ended.
        self.busy: dict[str, None] = {turn.id: None for turn in detail.turns if not turn.status.is_final}
        self.ended: dict[str, Turn] = {}
        self.questions: dict[str, Approval] = {one.id: one for one in detail.pending_approvals}
        # Questions that somebody here has put off.
        self.put_off: set[str] = set()
        # The keys of turns that were asked for here: their events may be read before the answer is.
        self._said: set[str] = set()
        self._news = asyncio.Event()
        self._following = asyncio.ensure_future(self._follow(detail.latest_seq))

    async def close(self) -> None:
        self._following.cancel()
        await asyncio.wait([self._following])

    @property
    def current(self) -> str | None:
        """The turn that goes on."""
        return next(iter(self.busy), None)

    async def say(self, params: TurnParams) -> Turn:
        if params.operation_key is None:
            # It is asked for again when the connection breaks, and begun once.
            params = replace(params, operation_key=uuid.uuid4().hex)
        self._said.add(str(params.operation_key))
        begun = await self.client.threads.turn(self.thread.id, params)
        self.thread = begun.thread
        # Its end may have been told before its beginning was answered.
        if begun.turn.status.is_final:
            self.ended[begun.turn.id] = begun.turn
        elif begun.turn.id not in self.ended:
            self.busy[begun.turn.id] = None
        return begun.turn

    def asks(self) -> Approval | None:
        """The question that is to be put to whoever sits here."""
        return next((one for key, one in self.questions.items() if key not in self.put_off), None)

    async def until(self, done: Callable[[], bool], beside: "asyncio.Future[Any] | None" = None) -> None:
        """Returns when it is `done`, or when what is `beside` is; meanwhile questions are asked. Raises
        `NobodyAnswers`, and what breaks the stream."""
        while not done() and not (beside is not None and beside.done()):
            self._news.clear()
            if (question := self.asks()) is not None:
                if beside is not None:
                    # The terminal is needed for the question.
                    return
                await self.ask(question)
                continue
            news = asyncio.ensure_future(self._news.wait())
            await asyncio.wait(
                [news, self._following, *([beside] if beside is not None else [])], return_when=asyncio.FIRST_COMPLETED
            )
            news.cancel()
            self.check()

    def check(self) -> None:
        """Raises what broke the stream, if it has."""
        if self._following.done() and not self._following.cancelled():
            self._following.result()
            raise CloisterError("the server has ended the stream of the thread")

    async def ask(self, question: Approval) -> None:
        """Put a question to whoever sits here, until somebody answers it, here or elsewhere."""
        if self._asker is None:
            raise NobodyAnswers(question)
        asked = asyncio.ensure_future(_answered(self._asker, question))
        try:
            while not asked.done() and question.id in self.questions:
                self._news.clear()
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait([asked, news, self._following], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                self.check()
            if not asked.done():
                asked.cancel(f"{question.id} was answered elsewhere")
                await asyncio.wait([asked])
        finally:
            asked.cancel()
            await asyncio.wait([asked])
        if asked.cancelled():
            return
        answer = asked.result()
        if answer is None:
            self.put_off.add(question.id)
            complain(f"{question.id} waits: /approve puts it to you again")
            return
        await self.decide(question.id, str(answer.decision), answer.message)

    async def decide(self, approval_id: str, decision: str, message: str | None = None) -> None:
        outcome = await self.client.approvals.decide(approval_id, decision, message=message)
        self.questions.pop(approval_id, None)
        self.put_off.discard(approval_id)
        if outcome.outcome in ("expired", "already_decided"):
            complain(f"{approval_id}: {outcome.outcome.replace('_', ' ')}")

    # -- inside -------------------------------------------------------------------------------------------------------

    async def _follow(self, since: int) -> None:
        stream: AsyncEventStream
        async with self.client.events(
            thread_id=self.thread.id, since=since, on_connection=self.screen.connection
        ) as stream:
            async for event in stream:
                self._take(event)

    def _take(self, event: Envelope) -> None:
        payload = event.payload
        match event.event:
            case "turn.queued" | "turn.started" if event.turn_id is not None:
                self.busy[event.turn_id] = None
                if payload["turn"].get("operation_key") in self._said:
                    self.screen.typed(event.turn_id)
            case "turn.completed" if event.turn_id is not None:
                self.busy.pop(event.turn_id, None)
                self.ended[event.turn_id] = keep_json(Turn, payload["turn"])
            case "approval.required":
                approval = keep_json(Approval, payload)
                self.questions[approval.id] = approval
            case "approval.decided" | "approval.expired" | "approval.cancelled":
                self.questions.pop(str(payload.get("id")), None)
            case _:
                pass
        self.screen.show(event)
        self._news.set()


async def _answered(asker: Approver, question: Approval) -> Answer | None:
    reply = asker(question)
    if inspect.isawaitable(reply):
        reply = await reply
    return reply if reply is None or isinstance(reply, Answer) else Answer(reply)
