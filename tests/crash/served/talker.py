"""The client of a conversation: says its turns, answers what it is asked, and listens, whatever becomes of the server.

What it was told it remembers: each event that came, and what the server has acknowledged. A request of which no answer
came is made again, as a client would, and what it finds then is judged by that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cloister.client import AsyncClient, ServerUnreachable
from cloister.core.approval import ApprovalState
from cloister.core.content import text_content, text_of
from cloister.core.dynamic import DynamicToolCallParams, DynamicToolCallResult
from cloister.core.envelope import Envelope
from cloister.core.errors import ToolCallNotFound
from cloister.core.item import CellRun, Item, ItemKind, Notification, ToolCall, item_from_json
from cloister.core.thread import Thread, ThreadParams
from cloister.core.turn import Status, SteerParams, SteerReceipt, Turn, TurnParams
from cloister.core.wire import keep_json
from tests.crash.served.conversations import HELD, NEVER, STOCK, Conversation, Said

T = TypeVar("T")
_PAUSE_SECONDS = 0.02
_WORK = (ItemKind.CELL, ItemKind.TOOL_CALL)


class Talker:
    def __init__(self, conversation: Conversation, client: AsyncClient) -> None:
        self._conversation = conversation
        self._client = client
        self._said = {one.key: one for one in conversation.turns}
        self.thread: Thread | None = None
        # What came, each once.
        self.seen: list[Envelope] = []
        self.reconnects = 0
        self.turns: dict[str, Turn] = {}
        # What the server has said yes to.
        self.begun: dict[str, str] = {}
        self.answered: set[str] = set()
        self.decided: dict[str, str] = {}
        self.receipts: dict[str, SteerReceipt] = {}
        self.interrupted: dict[str, Status] = {}
        # By tool and number, the calls that it was asked to answer.
        self.calls: dict[tuple[str, int], set[str]] = {}
        self.wrong: list[str] = []
        # Cells that a model was told go on, and of which nothing was heard since.
        self._going_on: set[str] = set()
        self._steered: set[str] = set()
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until every turn has ended and nothing goes on behind them."""
        self.thread = await self._its_thread()
        async with asyncio.TaskGroup() as group:
            self._group = group
            # One that has never reached its server gives up soon, and that one may be killed by now.
            group.create_task(self._sure(lambda: self._listen(self._id)))
            for said in self._conversation.turns:
                params = TurnParams(said.words, operation_key=said.key)
                begun = await self._sure(lambda params=params: self._client.threads.turn(self._id, params))
                self.begun[said.key] = begun.turn.id

    @property
    def _id(self) -> str:
        assert self.thread is not None
        return self.thread.id

    async def _sure(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What may be asked again is, until there is an answer."""
        while True:
            try:
                return await ask()
            except ServerUnreachable:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _its_thread(self) -> Thread:
        """A new one; it may have been made although nobody said so."""
        talk = self._conversation
        params = ThreadParams(
            driver=talk.driver, language=talk.language, wake=talk.wake, dynamic_tools=(STOCK, NEVER), title="talk"
        )
        while True:
            found = await self._sure(self._client.threads.list)
            if found.items:
                return found.items[0]
            try:
                return await self._client.threads.create(params)
            except ServerUnreachable:
                await asyncio.sleep(_PAUSE_SECONDS)

    # -- heard -------------------------------------------------------------------------------------------------------

    async def _listen(self, thread_id: str) -> None:
        async with self._client.events(thread_id=thread_id) as events:
            while not self._is_over():
                event = await anext(events)
                self.reconnects = events.reconnects
                if event.seq is not None:
                    self.seen.append(event)
                    self._heard(event)

    def _is_over(self) -> bool:
        of_key = {turn.operation_key: turn for turn in self.turns.values()}
        ended = all(said.key in of_key for said in self._conversation.turns)
        return ended and all(turn.status.is_final for turn in self.turns.values()) and not self._going_on

    def _heard(self, event: Envelope) -> None:
        match event.event:
            case "turn.queued" | "turn.started" | "turn.completed":
                turn = keep_json(Turn, event.payload["turn"])
                self.turns[turn.id] = turn
            case "item.started" | "item.completed" | "item.failed":
                self._heard_item(item_from_json(event.payload["item"]))
            case "tool_call.requested":
                self._asked(keep_json(DynamicToolCallParams, event.payload))
            case "approval.required" if event.payload["arguments"]["n"] != HELD:
                self._soon(self._decide(event.payload["id"], event.payload["arguments"]["n"]))
            case _:
                pass

    def _heard_item(self, item: Item) -> None:
        said = self._said.get(self.turns[item.turn_id].operation_key or "")
        if said is not None and said.is_steered and item.kind in _WORK and said.key not in self._steered:
            self._steered.add(said.key)
            self._soon(self._steer(said, item.turn_id))
        match item.detail:
            case CellRun(cell_id=str(cell_id), outcome="yielded"):
                self._going_on.add(cell_id)
            case Notification(content=content):
                self._going_on -= {one for one in self._going_on if one in text_of(content)}
            case ToolCall(tool="wait", cell_id=str(cell_id)):
                self._going_on.discard(cell_id)
            case _:
                pass

    def _soon(self, work: Any) -> None:
        assert self._group is not None
        self._group.create_task(work)

    # -- said --------------------------------------------------------------------------------------------------------

    def _asked(self, call: DynamicToolCallParams) -> None:
        n = call.arguments["n"]
        self.calls.setdefault((call.tool, n), set()).add(call.call_id)
        self._soon(self._interrupt(call.turn_id) if call.tool == NEVER.name else self._answer(call, n))

    async def _answer(self, call: DynamicToolCallParams, n: int) -> None:
        result, is_lost = DynamicToolCallResult(True, text_content(f"in stock: {n}")), False
        while True:
            try:
                await self._client.threads.answer(call.thread_id, call.turn_id, call.call_id, result)
            except ServerUnreachable:
                is_lost = True
                await asyncio.sleep(_PAUSE_SECONDS)
            except ToolCallNotFound:
                if not is_lost:
                    self.wrong.append(f"the call {call.tool}({n}) was asked for, and did not wait for its answer")
                return
            else:
                self.answered.add(call.call_id)
                return

    async def _decide(self, approval_id: str, n: int) -> None:
        decision, is_lost = "deny" if n % 3 == 0 else "allow", False
        while True:
            try:
                found = await self._client.approvals.decide(approval_id, decision)
            except ServerUnreachable:
                is_lost = True
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                known = "denied" if decision == "deny" else "executed"
                if found.approval is not None and found.approval.state is ApprovalState.CANCELLED:
                    # A call of a model's that was not on record yet: it is made, and asked about, anew.
                    return
                if found.outcome != known and not (is_lost and found.outcome == "already_decided"):
                    self.wrong.append(f"{decision} for {n} was answered with {found.outcome}")
                self.decided[approval_id] = decision
                return

    async def _steer(self, said: Said, turn_id: str) -> None:
        params = SteerParams(f"[steer {said.key}] Hurry.", f"steer-{said.key}")
        self.receipts[said.key] = await self._sure(lambda: self._client.threads.steer(self._id, turn_id, params))

    async def _interrupt(self, turn_id: str) -> None:
        turn = await self._sure(lambda: self._client.threads.interrupt(self._id, turn_id))
        self.interrupted[turn_id] = turn.status
