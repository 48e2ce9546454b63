"""The native driver: each tool of the session is a plain call of the model's, through the same gate as a program's."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cloister.core.answer import Answer, FinishReason
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CloisterError, InvalidInput
from cloister.core.item import Detail, Item, ToolCall
from cloister.core.message import FreeformCall, read_arguments
from cloister.core.message import ToolCall as Called
from cloister.core.turn import Status
from cloister.ports.model import Models
from cloister.threads.driver import TurnEnd
from cloister.threads.drivers.choosing import Choosing
from cloister.threads.drivers.journal import Transport
from cloister.threads.drivers.offering import SEARCH, Offered, arguments_of, offer
from cloister.threads.drivers.reading import CUT, searched
from cloister.threads.drivers.talk import Offer, Talk
from cloister.threads.drivers.telling import found_of, refused, result_of
from cloister.threads.open_turn import OpenTurn

_FOUND = "found"


class NativeDriver(Choosing):
    """`cloister.threads.drive("native", NativeDriver(models, "scripted:demo.yaml"))`"""

    def __init__(self, models: Models, model: str | None = None, *, may_compact: bool = True) -> None:
        """`may_compact`: a conversation that is longer than its model takes is summarised, once in a turn."""
        super().__init__(models, model)
        self._may_compact = may_compact

    async def run(self, turn: OpenTurn) -> TurnEnd:
        choice = self.choose(turn.thread, turn.turn.model, switch_provider=turn.turn.switch_provider)
        model = self.model(choice.model)
        if not model.capabilities.tools:
            raise InvalidInput(f"{model.name} takes no tools", hint="drive the thread by 'code': it needs none")
        return await Talk(turn, model, NativeWork(turn), may_compact=self._may_compact).run()


class NativeWork:
    transport: Transport = Transport.FUNCTIONS

    def __init__(self, turn: OpenTurn) -> None:
        self._turn = turn

    async def offer(self) -> Offer:
        return Offer(self._turn.thread.system_prompt or "", (await self._offered()).tools)

    async def _offered(self) -> Offered:
        found: list[str] = []
        for item in await self._turn.history():
            if isinstance(item.detail, ToolCall) and item.detail.tool == SEARCH:
                found += item.detail.extra.get(_FOUND, ())
        session = self._turn.session
        for name in dict.fromkeys(found):
            tool = session.tools.get(name)
            if tool is not None and not tool.is_known:
                # Its contract has to be asked for.
                await session.describe_tool(name)
        return offer(session.tools, found)

    def read(self, answer: Answer) -> Sequence[Detail]:
        return [self._detail(call, was_cut=answer.finish is FinishReason.LENGTH) for call in answer.message.calls]

    def _detail(self, call: Called | FreeformCall, *, was_cut: bool) -> Detail:
        tools = self._turn.session.tools
        names = offer(tools, ()).names
        full_name = names.get(call.name)
        namespace, _, name = (full_name or call.name).rpartition(".")
        made = ToolCall(name, namespace or None, model_call_id=call.id)
        if was_cut:
            return replace(made, error=CUT)
        if isinstance(call, FreeformCall):
            return replace(
                made, arguments=call.input, error=_wrong("arguments are JSON", f"call {call.name!r} with them")
            )
        try:
            given = read_arguments(call)
        except CloisterError as error:
            return replace(made, arguments=call.arguments, error=_wrong(error.message, error.hint))
        if full_name is None and call.name == SEARCH:
            return replace(made, arguments=given)
        tool = tools.get(full_name) if full_name is not None else None
        if tool is not None and tool.is_known:
            given = arguments_of(tool.capability, given)
        # A name that there is not goes to the gate too: it says what is near.
        return replace(made, arguments=given, cell_id=self._turn.new_cell_id())

    async def do(self, items: Sequence[Item]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for item in items:
                    group.create_task(self._one(item), name=item.id)
        except ExceptionGroup as several:
            # The others were cancelled for it, or broke for the same reason.
            raise several.exceptions[0] from None

    async def _one(self, item: Item) -> None:
        turn, detail = self._turn, item.detail
        if detail.error is not None:
            told = replace(detail, success=False, content=refused(detail.error))
            await turn.end(item, Status.FAILED, told)
        elif detail.cell_id is None:
            await self._search(item)
        else:
            result = await turn.settled_call(item, _full_name(detail), detail.arguments)
            call_id = result.external_calls[0].id if result.external_calls else None
            told = replace(detail, call_id=call_id, success=result.ok, content=result_of(result), error=result.error)
            await turn.end(item, Status.COMPLETED if result.ok else Status.FAILED, told)

    async def _search(self, item: Item) -> None:
        turn, detail = self._turn, item.detail
        session = turn.session
        try:
            found = await session.search_tools(**dict(searched(detail.arguments)))
        except InvalidInput as wrong:
            error = ErrorObject(wrong.code, wrong.message, wrong.hint)
            await turn.end(item, Status.FAILED, replace(detail, success=False, content=refused(error), error=error))
            return
        names: list[Any] = [tool["name"] for tool in found]
        offered = offer(session.tools, names)
        content = found_of(found, {name: offered.shown(name) for name in names})
        told = replace(detail, success=True, content=content, extra={**detail.extra, _FOUND: names})
        await turn.end(item, detail=told)


def _full_name(detail: ToolCall) -> str:
    return f"{detail.namespace}.{detail.tool}" if detail.namespace else detail.tool


def _wrong(message: str, hint: str | None) -> ErrorObject:
    return ErrorObject(Code.INVALID_ARGUMENTS, message, hint or "write the arguments as JSON")
