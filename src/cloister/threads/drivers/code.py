"""The code driver: the model writes programs, and looks at those that go on."""

from collections.abc import Sequence
from dataclasses import replace

from cloister.core.answer import Answer
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import InvalidInput
from cloister.core.item import CellRun, Detail, Item
from cloister.core.turn import Status
from cloister.ports.model import Model, Models
from cloister.threads.driver import TurnEnd
from cloister.threads.drivers.cells import run_cell, wait_for_cell
from cloister.threads.drivers.choosing import Choosing
from cloister.threads.drivers.journal import Transport
from cloister.threads.drivers.reading import searched, work_of
from cloister.threads.drivers.talk import Offer, Talk
from cloister.threads.drivers.telling import found_of, refused
from cloister.threads.drivers.tools import fenced_rules, offered, transport_of
from cloister.threads.environments import place_told
from cloister.threads.open_turn import OpenTurn


class CodeDriver(Choosing):
    """`cloister.threads.drive("code", CodeDriver(models, "scripted:demo.yaml"))`"""

    def __init__(self, models: Models, model: str | None = None, *, may_compact: bool = True) -> None:
        """`may_compact`: a conversation that is longer than its model takes is summarised, once in a turn."""
        super().__init__(models, model)
        self._may_compact = may_compact

    async def run(self, turn: OpenTurn) -> TurnEnd:
        choice = self.choose(turn.thread, turn.turn.model, switch_provider=turn.turn.switch_provider)
        model = self.model(choice.model)
        return await Talk(turn, model, CodeWork(turn, model), may_compact=self._may_compact).run()


class CodeWork:
    def __init__(self, turn: OpenTurn, model: Model) -> None:
        self._turn = turn
        self.transport: Transport = transport_of(model.capabilities)

    async def offer(self) -> Offer:
        session, prompt = self._turn.session, self._turn.thread.system_prompt
        told = [session.preamble().text]
        if self.transport is Transport.FENCED:
            told.append(fenced_rules(session.language))
        if prompt:
            told.append(prompt)
        if place := place_told(self._turn):
            # Last: what comes before is the same in every environment.
            told.append(place)
        return Offer("\n\n".join(told), offered(self.transport, session.language))

    def read(self, answer: Answer) -> Sequence[Detail]:
        session = self._turn.session
        return work_of(answer, self.transport, session.language, frozenset(session.tools.names()))

    async def do(self, items: Sequence[Item]) -> None:
        # One after the other: they share their variables, and the model wrote them in this order.
        for item in items:
            if isinstance(item.detail, CellRun):
                await run_cell(self._turn, item)
            else:
                await self._call(item)
            if await self._turn.finished() is not None:
                return

    async def _call(self, item: Item) -> None:
        turn, detail = self._turn, item.detail
        if detail.error is not None:
            told = replace(detail, success=False, content=refused(detail.error))
            await turn.end(item, Status.FAILED, told)
        elif detail.tool == "wait":
            await wait_for_cell(turn, item)
        else:
            await search(turn, item)


async def search(turn: OpenTurn, item: Item) -> None:
    detail = item.detail
    try:
        found = await turn.session.search_tools(**dict(searched(detail.arguments)))
    except InvalidInput as wrong:
        error = ErrorObject(wrong.code, wrong.message, wrong.hint)
        await turn.end(item, Status.FAILED, replace(detail, success=False, content=refused(error), error=error))
        return
    await turn.end(item, detail=replace(detail, success=True, content=found_of(found)))
