"""Tools that a client brings along, as a source of its session: the call waits for the client's answer.

It comes through the gate like every other call, with arguments that fit. What is asked is durable before the client
sees it; the cell sleeps meanwhile, and a call that another process has asked is found again by its key. Answer, time
and the end of the turn race for one settlement, in `_settle`: whoever comes first, and it is written down before the
program sees it. Who asks is known by the cell: one that no turn has started is refused.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cloister.core.capability import Capability, SideEffect
from cloister.core.content import text_of
from cloister.core.dynamic import DynamicToolCallParams, DynamicToolCallResult, DynamicToolSpec, check_specs
from cloister.core.errors import InvalidInput, ToolCallNotFound, within
from cloister.core.item import Item, ItemKind, ToolCall
from cloister.core.limits import CapabilityLimits
from cloister.core.strand import Strand
from cloister.core.turn import Status
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.ports.clock import Clock
from cloister.ports.rows import Put, ToolCallRow
from cloister.ports.source import Manifest, SourceCall, SourceFailed
from cloister.threads.finishing import NAME as FINISH
from cloister.threads.finishing import Finishing
from cloister.threads.pen import Pen
from cloister.threads.rows import params_of
from cloister.tools.contract import Contract

MAX_PENDING = 128
TIMEOUT_MS = 300_000
# The gate's own patience is longer: the client is told when its time is over, and only here.
_GATE_MS = TIMEOUT_MS + 30_000
# An item of such a call is in progress, completed or failed; the event beside it says in which way.
_SETTLED = {"resolved": Status.COMPLETED, "timeout": Status.FAILED, "cancelled": Status.FAILED}


@dataclass(slots=True, eq=False)
class _Asked:
    row: ToolCallRow
    params: DynamicToolCallParams
    pen: Pen
    item: Item | None
    over: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    timer: "asyncio.Task[None] | None" = None


class ClientTools:
    """Of one session; the turns under way say what there is."""

    name = "client"

    def __init__(
        self,
        session_id: str,
        clock: Clock,
        strand_of: Callable[[str, str], Strand | None],
        pen_of: Callable[[str], Pen | None],
        leaving: Callable[[], bool],
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._session_id = session_id
        self._clock = clock
        self._strand_of = strand_of
        self._pen_of = pen_of
        self._leaving = leaving
        self._timeout_ms = timeout_ms
        self._specs: dict[str, tuple[DynamicToolSpec, ...]] = {}
        self.finishing = Finishing(session_id, strand_of, pen_of)
        self._revision = 0
        self._listeners: set[Callable[[], None]] = set()
        self._by_key: dict[str, _Asked] = {}
        self._by_id: dict[str, _Asked] = {}

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def revision(self) -> str:
        return str(self._revision)

    def offer(self, turn_id: str, specs: tuple[DynamicToolSpec, ...], *, may_finish: bool = False) -> None:
        """The turn has these from now on, and may be finished by a program. Raises `InvalidInput` if another turn has
        one of that name that differs."""
        known = self._offered()
        if any(spec.full_name == FINISH for spec in (*specs, *known.values())) and (may_finish or self.finishing):
            raise InvalidInput(
                f"a turn that accepts `{FINISH}` cannot have a client's tool of that name", hint="rename the tool"
            )
        for spec in specs:
            if known.get(spec.full_name, spec) != spec:
                raise InvalidInput(
                    f"another turn in session {self._session_id!r} has a tool {spec.full_name!r} that is not the same",
                    hint="give one of them a namespace, or wait until that turn has ended",
                )
        if specs:
            self._specs[turn_id] = specs
        if may_finish:
            self.finishing.offer(turn_id)
        if specs or may_finish:
            self._changed()

    def withdraw(self, turn_id: str) -> None:
        was_offered = self.finishing.withdraw(turn_id)
        if self._specs.pop(turn_id, None) is not None or was_offered:
            self._changed()

    def _offered(self) -> dict[str, DynamicToolSpec]:
        return {spec.full_name: spec for specs in self._specs.values() for spec in specs}

    def _changed(self) -> None:
        self._revision += 1
        for listener in list(self._listeners):
            listener()

    async def __aenter__(self) -> "ClientTools":
        return self

    async def __aexit__(self, *exc: object) -> None:
        for asked in self._by_id.values():
            if asked.timer is not None:
                asked.timer.cancel()

    async def manifests(self) -> Sequence[Manifest]:
        return self.finishing.manifests() + [
            Manifest(spec.name, spec.namespace, spec.description, _names(spec), spec.defer_loading)
            for _, spec in sorted(self._offered().items())
        ]

    async def contract(self, full_name: str) -> Capability:
        if full_name == FINISH and self.finishing:
            return self.finishing.contract()
        spec = self._offered().get(full_name)
        if spec is None:
            raise SourceFailed(f"no turn under way has a tool {full_name!r}", gone=True)
        return Capability(
            spec.name,
            spec.namespace,
            spec.description,
            _schema(spec),
            side_effect=SideEffect.EXTERNAL_SYSTEM,
            limits=CapabilityLimits(timeout_ms=self._timeout_ms + _GATE_MS - TIMEOUT_MS, concurrency=MAX_PENDING),
            # The client is asked once, however often the call comes here: it is found by its key.
            idempotent=True,
            defer_loading=spec.defer_loading,
        )

    async def refresh(self) -> None:
        """The turns say by themselves what there is."""

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._listeners.add(changed)
        return lambda: self._listeners.discard(changed)

    # -- asked -------------------------------------------------------------------------------------------------------

    async def call(self, full_name: str, arguments: Json, about: SourceCall) -> Json:
        if full_name == FINISH and self.finishing:
            return await self.finishing.call(arguments, about)
        asked = self._by_key.get(about.idempotency_key) or await self._ask(full_name, arguments, about)
        try:
            await asyncio.shield(asked.over)
        except asyncio.CancelledError:
            # Whoever waits for it has gone; when the host goes, the call stays for whoever comes next.
            if not self._leaving():
                await asyncio.shield(self._settle(asked, "cancelled"))
            raise
        return _outcome(asked.row)

    async def _ask(self, full_name: str, arguments: Json, about: SourceCall) -> _Asked:
        strand = self._strand_of(self._session_id, about.cell_id)
        pen = self._pen_of(strand.thread_id) if strand is not None else None
        spec = self._offered().get(full_name)
        if strand is None or pen is None or spec is None:
            raise SourceFailed(f"`{full_name}` is answered within turns of a thread only", gone=True)
        if sum(one.params.thread_id == strand.thread_id for one in self._pending()) >= MAX_PENDING:
            raise SourceFailed(f"{MAX_PENDING} calls wait for the client already", hint="wait for some of them first")
        params = DynamicToolCallParams(
            strand.thread_id, strand.turn_id, about.call_id, spec.name, spec.namespace, arguments
        )
        detail = ToolCall(spec.name, spec.namespace, about.call_id, about.cell_id, arguments=arguments)
        now = pen.now()
        item = Item(
            pen.new_id("itm_"),
            strand.thread_id,
            strand.turn_id,
            ItemKind.TOOL_CALL,
            Status.IN_PROGRESS,
            now,
            detail,
        )
        told: dict[str, Any] = to_json(params)
        doc = {"params": told, "key": about.idempotency_key, "item_id": item.id}
        row = ToolCallRow(
            about.call_id,
            self._session_id,
            strand.thread_id,
            strand.turn_id,
            "pending",
            self._clock.now_ms(),
            doc,
        )
        asked = _Asked(row, params, pen, item)
        self._enter(asked)
        try:
            await pen.write(
                Put(row),
                *pen.item(item),
                pen.event("tool_call.requested", told, strand.turn_id, item.id),
            )
        except BaseException:
            self._by_key.pop(about.idempotency_key, None)
            self._by_id.pop(row.id, None)
            raise
        self._watch(asked)
        return asked

    def _enter(self, asked: _Asked) -> None:
        self._by_key[asked.row.doc["key"]] = self._by_id[asked.row.id] = asked

    def _pending(self) -> list[_Asked]:
        return [one for one in self._by_id.values() if one.row.state == "pending"]

    def _watch(self, asked: _Asked) -> None:
        asked.timer = asyncio.get_running_loop().create_task(self._time_out(asked), name=f"timeout of {asked.row.id}")

    async def _time_out(self, asked: _Asked) -> None:
        left_ms = asked.row.created_ms + self._timeout_ms - self._clock.now_ms()
        await self._clock.sleep(max(left_ms, 0) / 1000)
        await self._settle(asked, "timeout")

    # -- settled -----------------------------------------------------------------------------------------------------

    async def answer(self, thread_id: str, turn_id: str, call_id: str, result: DynamicToolCallResult) -> None:
        """Returns when the answer is safe. Raises `ToolCallNotFound` for a call that does not wait for one."""
        asked = self._by_id.get(call_id)
        known = asked is not None and (asked.params.thread_id, asked.params.turn_id) == (thread_id, turn_id)
        if asked is None or not known or not await self._settle(asked, "resolved", result):
            raise ToolCallNotFound(
                f"no call {call_id!r} of turn {turn_id!r} waits for an answer",
                hint="it may have been answered, timed out, or ended with its turn",
            )

    async def turn_ended(self, turn_id: str) -> None:
        """What the turn has asked is over."""
        mine = [one for one in self._pending() if one.params.turn_id == turn_id]
        for asked in mine:
            await self._settle(asked, "cancelled")
        self.withdraw(turn_id)
        for asked in [one for one in self._by_id.values() if one.params.turn_id == turn_id]:
            self._by_id.pop(asked.row.id, None)
            self._by_key.pop(asked.row.doc["key"], None)

    async def _settle(self, asked: _Asked, state: str, result: DynamicToolCallResult | None = None) -> bool:
        """The one point where answer, time and end meet. Whether this was the first."""
        before = asked.row
        if before.state != "pending" or (self._leaving() and state != "resolved"):
            return False
        told = {"call_id": before.id} if result is None else {"call_id": before.id, "success": result.success}
        doc = before.doc if result is None else {**before.doc, "result": to_json(result)}
        asked.row = replace(before, state=state, doc=doc)
        pen, params = asked.pen, asked.params
        item = _ended(asked.item, pen, state, result)
        try:
            await pen.write(
                Put(asked.row),
                pen.event(f"tool_call.{state}", told, params.turn_id, before.doc["item_id"]),
                *(pen.item(item) if item is not None else ()),
            )
        except BaseException:
            # It is not on record, so it has not happened.
            asked.row = before
            raise
        asked.item = item
        if asked.timer is not None and asked.timer is not asyncio.current_task():
            asked.timer.cancel()
        if not asked.over.done():
            asked.over.set_result(None)
        return True

    # -- after a restart ---------------------------------------------------------------------------------------------

    def take_up(self, row: ToolCallRow, item: Item | None) -> None:
        """A call that another process has asked: it waits here for its answer, or has it."""
        pen = self._pen_of(row.thread_id)
        if pen is None or row.id in self._by_id:
            return
        asked = _Asked(row, params_of(row.doc["params"]), pen, item)
        self._enter(asked)
        if row.state == "pending":
            self._watch(asked)
        else:
            asked.over.set_result(None)


def check_tools(known: Sequence[DynamicToolSpec], added: Sequence[DynamicToolSpec]) -> None:
    """Raises `InvalidInput` for what a turn cannot bring along beside those that its thread has."""
    with within("dynamic_tools"):
        check_specs((*known, *added))
        check_schemas(added)


def check_schemas(specs: Sequence[DynamicToolSpec]) -> None:
    """Raises `InvalidInput` for a tool whose arguments could not be held against its schema."""
    for spec in specs:
        check_input_schema(spec.input_schema, f"the input_schema of {spec.full_name!r}")


def check_input_schema(schema: Mapping[str, Any], what: str = "input_schema") -> None:
    Contract.compile(schema, what=what)
    if schema.get("type", "object") not in ("object", "array"):
        raise InvalidInput(f"{what} is of type {schema['type']!r:.80}", hint='arguments have names: "type": "object"')


def _schema(spec: DynamicToolSpec) -> Mapping[str, Any]:
    return spec.input_schema or {"type": "object"}


def _ended(item: Item | None, pen: Pen, state: str, result: DynamicToolCallResult | None) -> Item | None:
    if item is None:
        return None
    detail, status = item.detail, _SETTLED[state]
    if result is not None:
        detail = replace(detail, success=result.success, content=result.content)
        status = Status.COMPLETED if result.success else Status.FAILED
    return replace(item, status=status, ended_at=pen.now(), detail=detail)


def _outcome(row: ToolCallRow) -> Json:
    """What the program gets. Raises `SourceFailed` for what is no success."""
    name = params_of(row.doc["params"]).tool
    if row.state == "timeout":
        raise SourceFailed(f"the client did not answer `{name}` in time")
    if row.state == "cancelled":
        raise SourceFailed(f"the turn that called `{name}` has ended")
    result: Any = row.doc["result"]
    content: list[Any] = result["content"]
    if not result["success"]:
        raise SourceFailed(text_of(tuple(content)) or f"`{name}` failed")
    if not content:
        return None
    if len(content) == 1 and content[0]["type"] == "input_text":
        return content[0]["text"]
    return content


def _names(spec: DynamicToolSpec) -> tuple[str, ...]:
    properties = spec.input_schema.get("properties")
    return tuple(properties) if isinstance(properties, dict) else ()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
