"""What the tests of threads share: drivers without a model, and hosts on a store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cloister import Cloister
from cloister.core.content import text_of
from cloister.core.envelope import Envelope
from cloister.core.item import AgentMessage, CellRun, UserMessage
from cloister.core.turn import Status, TurnParams, TurnUsage
from cloister.threads import OpenTurn, Projection, Threads, TurnEnd

# Only what hangs gets there.
PATIENCE_S = 90.0


class Plain:
    """A driver that is a function."""

    def __init__(self, work: Callable[[OpenTurn], Awaitable[TurnEnd]]) -> None:
        self._work = work

    async def run(self, turn: OpenTurn) -> TurnEnd:
        return await self._work(turn)


async def echo(turn: OpenTurn) -> TurnEnd:
    """Says what it was told."""
    item = turn.item(AgentMessage())
    await turn.keep(item)
    said = text_of(turn.turn.input)
    turn.delta(item, said[:1])
    turn.delta(item, said[1:])
    await turn.settle("d" * 64, {"text": said}, TurnUsage(requests=1, input_tokens=3, output_tokens=2))
    await turn.end(item, detail=AgentMessage(said))
    return TurnEnd()


async def run_code(turn: OpenTurn) -> TurnEnd:
    """Runs what it was told as a program, and says what came of it; goes on with it after a crash."""
    known = [item for item in turn.items if isinstance(item.detail, CellRun)]
    if known:
        cell_id = await turn.cell_of(known[0])
        assert cell_id is not None
        item, seen = known[0], await turn.session.wait(cell_id, yield_ms=60_000)
    else:
        item = turn.item(CellRun(text_of(turn.turn.input)))
        await turn.settle("c" * 64, {"code": item.detail.code}, TurnUsage(requests=1), [item])
        seen = await turn.exec(item, item.detail.code, yield_ms=60_000)
    while seen.status in ("yielded", "waiting_for_approval"):
        seen = await turn.session.wait(seen.cell_id, yield_ms=60_000)
    result: Any = getattr(seen, "result", None)
    await turn.end(item, Status.COMPLETED if seen.status == "completed" else Status.FAILED)
    return TurnEnd(finished=True, answer={"status": seen.status, "result": result})


def host(path: Path, run: Callable[[OpenTurn], Awaitable[TurnEnd]] = echo, **options: Any) -> Cloister:
    made = Cloister(store=f"sqlite://{path}?synchronous=normal", **options)
    made.threads.drive("code", Plain(run))
    return made


async def say(threads: Threads, thread_id: str, text: str, **more: Any) -> str:
    _, turn = await threads.turn(thread_id, TurnParams(text, **more))
    return turn.id


async def follow(threads: Threads, thread_id: str, until: Callable[[Envelope], bool], since: int = 0) -> list[Envelope]:
    """The events of a thread up to the first that is meant."""
    seen: list[Envelope] = []
    async with asyncio.timeout(PATIENCE_S), threads.events(thread_id=thread_id, since=since) as events:
        async for envelope in events:
            seen.append(envelope)
            if until(envelope):
                break
    return seen


def ends(turn_id: str) -> Callable[[Envelope], bool]:
    return lambda envelope: envelope.event == "turn.completed" and envelope.turn_id == turn_id


async def projected(threads: Threads, thread_id: str) -> None:
    """What any client makes of the events alone is what the store says."""
    while True:
        projection = Projection()
        async for envelope in threads.replay(thread_id=thread_id):
            projection.take(envelope)
        made, said = projection.detail(), await threads.get(thread_id)
        if made.latest_seq == said.latest_seq:
            break
        # Something has happened in between, such as a cell that fell asleep.
    assert made == said


def inputs_of(turn: OpenTurn) -> list[str]:
    return [text_of(item.detail.content) for item in turn.items if isinstance(item.detail, UserMessage)]
