"""`finish(value)`: a program, or a model by itself, ends its turn and says its answer.

It is there while a turn is in progress that accepts it, and passes the gate like every call. The value is an item of
the turn, written down before the program goes on, so that a crash in between loses neither; the first one counts, and
the same call again is the same.
"""

from collections.abc import Callable
from typing import Any

from cloister.core.capability import Capability, SideEffect
from cloister.core.item import Item, ItemKind, ToolCall
from cloister.core.strand import Strand
from cloister.core.turn import Status
from cloister.core.value import Json
from cloister.ports.source import Manifest, SourceCall, SourceFailed
from cloister.threads.pen import Pen

NAME = "finish"
_SAID = "End this turn with a value, which becomes its answer. Nothing more is asked of you then."
# By which the item is known from one of a client's tool.
_MARK = "finishes"


def finished_by(item: Item) -> bool:
    """Whether this item ends its turn: its arguments have the value."""
    return isinstance(item.detail, ToolCall) and item.detail.extra.get(_MARK) is True


class Finishing:
    """Of one session."""

    def __init__(
        self, session_id: str, strand_of: Callable[[str, str], Strand | None], pen_of: Callable[[str], Pen | None]
    ) -> None:
        self._session_id = session_id
        self._strand_of = strand_of
        self._pen_of = pen_of
        # The turns that accept it, with the call that has ended each.
        self._turns: dict[str, str | None] = {}

    def __bool__(self) -> bool:
        return bool(self._turns)

    def offer(self, turn_id: str) -> None:
        self._turns.setdefault(turn_id, None)

    def withdraw(self, turn_id: str) -> bool:
        """Whether it was offered."""
        known = turn_id in self._turns
        self._turns.pop(turn_id, None)
        return known

    def take_up(self, item: Item) -> None:
        """What another process has written down."""
        if finished_by(item) and item.turn_id in self._turns:
            self._turns[item.turn_id] = item.detail.call_id

    def manifests(self) -> list[Manifest]:
        return [Manifest(NAME, None, _SAID, ("value",))] if self._turns else []

    def contract(self) -> Capability:
        if not self._turns:
            raise SourceFailed(f"no turn under way accepts `{NAME}`", gone=True)
        schema: dict[str, Any] = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
        return Capability(NAME, None, _SAID, {**schema, "additionalProperties": False}, side_effect=SideEffect.NONE)

    async def call(self, arguments: Json, about: SourceCall) -> Json:
        strand = self._strand_of(self._session_id, about.cell_id)
        pen = self._pen_of(strand.thread_id) if strand is not None else None
        if strand is None or pen is None or strand.turn_id not in self._turns:
            raise SourceFailed(f"`{NAME}` is called within a turn that accepts it")
        known = self._turns[strand.turn_id]
        if known is not None:
            if known != about.call_id:
                raise SourceFailed("the turn is finished already", hint="its answer is that of the first call")
            return None
        self._turns[strand.turn_id] = about.call_id
        now = pen.now()
        detail = ToolCall(
            NAME, call_id=about.call_id, cell_id=about.cell_id, arguments=arguments, success=True, extra={_MARK: True}
        )
        item = Item(
            pen.new_id("itm_"),
            strand.thread_id,
            strand.turn_id,
            ItemKind.TOOL_CALL,
            Status.COMPLETED,
            now,
            detail,
            now,
        )
        try:
            await pen.write(*pen.item(item))
        except BaseException:
            # It is not on record, so the turn goes on.
            if strand.turn_id in self._turns:
                self._turns[strand.turn_id] = None
            raise
        return None
