"""A driver that does what it is told by the first word of a turn, so that clients can make anything happen."""

import asyncio

from cloister.core.content import text_of
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import InvalidInput
from cloister.core.item import AgentMessage, AgentReasoning, ErrorDetail
from cloister.core.turn import Status, TurnUsage
from cloister.threads import OpenTurn, TurnEnd
from tests.threads.lab import inputs_of

# What a program or a person may say to break out of a stream.
HOSTILE = "a\r\nid: 99\r\nevent: turn.completed\ndata: {}\n\n\u2028data: [DONE]\n\n: x\r\r\x0b\x85"


async def puppet(turn: OpenTurn) -> TurnEnd:
    word, _, rest = text_of(turn.turn.input).partition(" ")
    match word:
        case "say":
            await _say(turn, rest)
        case "many":
            for number in range(int(rest)):
                await _say(turn, f"{number} of {rest} {HOSTILE}", deltas=number % 3 == 0)
        case "think":
            thought = turn.item(AgentReasoning("hm"), Status.COMPLETED)
            wrong = turn.item(ErrorDetail(ErrorObject("model_failed", "once more", "wait")), Status.FAILED)
            await turn.settle("d" * 64, {}, TurnUsage(1, 3, 2, 1, 1, 5, 7), [thought, wrong])
        case "listen":
            # Until it was told so many things.
            while len(inputs_of(turn)) <= int(rest):
                await turn.more_input()
                await turn.take_inputs()
        case "stay":
            await asyncio.Event().wait()
        case "fail":
            raise InvalidInput("it cannot be done", hint="do something else")
        case _:
            raise AssertionError(word)
    return TurnEnd()


async def _say(turn: OpenTurn, text: str, *, deltas: bool = True) -> None:
    item = turn.item(AgentMessage())
    await turn.keep(item)
    for piece in (text[:2], text[2:]) if deltas else ():
        turn.delta(item, piece)
        turn.flush()
    await turn.settle("d" * 64, {"text": text}, TurnUsage(requests=1, input_tokens=3, output_tokens=2))
    await turn.end(item, detail=AgentMessage(text))
