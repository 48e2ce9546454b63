"""A thread's events as they are shown: the model's words as they come, its programs, and what these call.

  the words of the model, which go to stdout
  | total = await get_price("tea")        a program
  call get_price  12 ms  ok               what it calls, as `cloister run` shows it
  > 3                                     what it said

Everything but the model's words goes to stderr, and only if it is wanted. What is shown was chosen by models, programs
and tools: it drives no terminal.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from cloister.cli.calls import call_line, duration
from cloister.cli.terminal import ProgramOutput, flat
from cloister.core.content import text_of
from cloister.core.envelope import Envelope
from cloister.core.item import (
    AgentMessage,
    AgentReasoning,
    CellRun,
    ContextCompaction,
    ErrorDetail,
    Item,
    Notification,
    ToolCall,
    UserMessage,
    item_from_json,
)
from cloister.core.turn import Status, Turn
from cloister.core.wire import keep_json

_MOST_LINES = 40
_WIDTH = 100


class Screen:
    def __init__(self, output: ProgramOutput, *, work: bool, said: bool = True, reasoning: bool = False) -> None:
        """`work`: what is done; `said`: what the model says."""
        self._output = output
        self._say = said
        self._work = work
        self._reasoning = reasoning
        # How much of an item's text is on the screen.
        self._shown: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        # Words that whoever sits here has typed: they are on the screen already.
        self._typed: set[str] = set()

    def typed(self, turn_id: str) -> None:
        self._typed.add(turn_id)

    def show(self, event: Envelope) -> None:
        """One event, as it comes."""
        payload = event.payload
        match event.event:
            case "item.started" | "item.completed" | "item.failed":
                self._item(item_from_json(payload["item"]), event.event != "item.started")
            case "item.delta" if event.item_id is not None:
                self._delta(event.item_id, str(payload.get("text", "")), int(payload.get("offset", 0)))
            case "call.settled" | "call.denied" | "call.unknown" if "record" in payload:
                self._aside(call_line(cast("Mapping[str, Any]", payload["record"])))
            case "cell.notified":
                self._aside(flat(f"  note: {payload.get('message')}"))
            case "tool_call.requested":
                self._aside(flat(f"  asked of a client: {payload.get('tool')} ({payload.get('call_id')})"))
            case "turn.completed":
                self._ended(keep_json(Turn, payload["turn"]))
            case _:
                pass

    def item(self, item: Item) -> None:
        """One that is there already, whole."""
        if isinstance(item.detail, UserMessage):
            self._said(f"> {text_of(item.detail.content)}")
            return
        self._item(item, over=False)
        if item.status.is_final:
            self._item(item, over=True)

    def connection(self, is_there: bool) -> None:
        """The server is gone, or back."""
        said = "the server is back" if is_there else "the server does not answer; this goes on when it is back"
        self._output.report(f"cloister: {said}")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _delta(self, item_id: str, text: str, offset: int) -> None:
        kind = self._kinds.get(item_id)
        if offset != len(self._shown.get(item_id, "")):
            # What was before it was told to nobody here: all of it is shown at its end.
            return
        if kind == "agent_message" and self._say:
            self._shown[item_id] = self._shown.get(item_id, "") + text
            self._output("stdout", text)
        elif kind == "agent_reasoning" and self._reasoning:
            self._shown[item_id] = self._shown.get(item_id, "") + text
            self._output("stderr", text)

    def _item(self, item: Item, over: bool) -> None:
        self._kinds[item.id] = item.kind.value
        match item.detail:
            case AgentMessage(text) if over and self._say:
                self._rest(item.id, text)
            case AgentReasoning(text) if over and self._reasoning:
                if (shown := self._shown.pop(item.id, None)) is None:
                    self._said(text)
                else:
                    self._output("stderr", (text[len(shown) :] if text.startswith(shown) else "") + "\n")
            case CellRun() as cell:
                self._cell(cell, over)
            case ToolCall() as call if over and call.cell_id is None:
                self._call(item, call)
            case UserMessage(content) if over and item.turn_id not in self._typed:
                self._said(f"> {text_of(content)}")
            case UserMessage(content, input_id) if over and input_id is not None:
                self._aside(flat(f"  it was told: {text_of(content)}"))
            case Notification(content) if over:
                self._aside(flat(f"  note: {text_of(content)}"))
            case ContextCompaction(summary) if over:
                self._aside(flat(f"  what was said before is summarised now: {summary[:_WIDTH]}"))
            case ErrorDetail(error) if over:
                self._aside(flat(f"  error {error.code}: {error.message}"))
            case _:
                pass
        if over:
            # A piece that comes late is no news.
            self._kinds.pop(item.id, None)

    def _rest(self, item_id: str, text: str) -> None:
        """What of a message is not on the screen yet: nobody keeps deltas for who was away."""
        shown = self._shown.pop(item_id, "")
        if text.startswith(shown):
            self._output("stdout", text[len(shown) :])
        else:
            self._output.value(text)
        if text and not text.endswith("\n"):
            self._output("stdout", "\n")

    def _cell(self, cell: CellRun, over: bool) -> None:
        if not over:
            if cell.code:
                self._lines("  | ", cell.code)
            return
        self._lines("  > ", text_of(cell.content))
        if cell.error is not None:
            self._aside(flat(f"  error {cell.error.code}: {cell.error.message}"))

    def _call(self, item: Item, call: ToolCall) -> None:
        name = f"{call.namespace}.{call.tool}" if call.namespace else call.tool
        took = (item.ended_at - item.created_at).total_seconds() * 1000 if item.ended_at is not None else 0.0
        how = "ok" if item.status is Status.COMPLETED and call.success is not False else item.status.value
        how = f"{how} {call.error.code}" if call.error is not None else how
        arguments = json.dumps(call.arguments, ensure_ascii=False)[:_WIDTH]
        self._aside(flat(f"  call {name}  {duration(took)}  {how}  {arguments}"))

    def _ended(self, turn: Turn) -> None:
        if turn.finished and self._say:
            self._output.value(json.dumps(turn.answer, indent=2, ensure_ascii=False))
        if turn.status is Status.FAILED and turn.error is not None:
            said = f"cloister: the turn failed: {turn.error.message} ({turn.error.code})"
            self._output.report(flat(said))
            if turn.error.hint:
                self._output.report(flat(f"  hint: {turn.error.hint}"))
        elif turn.status is not Status.COMPLETED:
            self._output.report(f"cloister: the turn was {turn.status.value}")

    def _lines(self, before: str, text: str) -> None:
        if not self._work:
            return
        lines = text.rstrip("\n").split("\n") if text.strip() else []
        shown = lines[:_MOST_LINES]
        for line in shown:
            self._output.report(flat(before + line))
        if len(lines) > len(shown):
            self._output.report(f"{before}… and {len(lines) - len(shown)} more lines")

    def _aside(self, line: str) -> None:
        if self._work:
            self._output.aside(line)

    def _said(self, text: str) -> None:
        if self._work and text:
            self._output.report("\n".join(flat(line) for line in text.split("\n")))
