"""A conversation told to its own model as one text, to be summarised: what was said, what was run, what came of it.

The text is bounded, with visible cuts: a summary that needs as much room as what it replaces helps nobody. Nothing is
offered to call, and nothing is done about the answer but to keep it.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from cloister.cells.cut import cut_middle
from cloister.core.content import text_of
from cloister.core.errors import AnswerInvalid
from cloister.core.item import (
    AgentMessage,
    CellRun,
    ContextCompaction,
    Item,
    Notification,
    ToolCall,
    UserMessage,
)
from cloister.core.message import user_text
from cloister.ports.model import Asked, Model, answered
from cloister.threads.driver import Summary
from cloister.threads.drivers.hearing import request_digest, usage_of
from cloister.threads.drivers.journal import Transport, to_doc

_MOST_BYTES = 200_000
_MOST_OF_ONE = 4_000
_ASKED = (
    "Below is a conversation that you have had. Summarise it for yourself: you will go on with the summary in its "
    "place. Keep what the user wants and has decided, what was done and what came of it, the names of variables, "
    "functions, stored values and files that programs have left, and what is still open. Write only the summary."
)
_INSTRUCTIONS = "You summarise a conversation. You run nothing and call nothing."


async def summarise(model: Model, items: Sequence[Item], answered_before: int, now: Callable[[], datetime]) -> Summary:
    """`items` as a model is told them, after the last compaction. `answered_before`: how often it has answered."""
    began = now()
    text, _ = cut_middle("\n\n".join(_told(items)), _MOST_BYTES)
    asked = Asked(
        (user_text(f"{_ASKED}\n\n<conversation>\n{text}\n</conversation>"),),
        _INSTRUCTIONS,
        answers_before=answered_before,
    )
    answer = await answered(model, asked)
    made = answer.message.text.strip()
    if not made:
        raise AnswerInvalid(f"{model.name} gave no summary", provider=model.provider, model=model.name)
    usage = usage_of(answer, round((now() - began).total_seconds() * 1000))
    return Summary(made, request_digest(model, asked), to_doc(answer, Transport.SUMMARY, ()), usage)


def _told(items: Iterable[Item]) -> Iterable[str]:
    for item in items:
        match item.detail:
            case UserMessage(content=content):
                yield f"user: {_cut(text_of(content))}"
            case AgentMessage(text=text) if text:
                yield f"you: {_cut(text)}"
            case Notification(content=content):
                yield f"note: {_cut(text_of(content))}"
            case ContextCompaction(summary=summary):
                yield f"summary of what was before: {summary}"
            case CellRun(code=code, content=content):
                yield f"you ran:\n{_cut(code)}\nwhich gave: {_cut(text_of(content))}"
            case ToolCall(tool=tool, namespace=namespace, arguments=arguments, content=content):
                name = f"{namespace}.{tool}" if namespace else tool
                given = _cut(json.dumps(arguments, ensure_ascii=False))
                yield f"you called {name} with {given}, which gave: {_cut(text_of(content))}"
            case _:
                pass


def _cut(text: str) -> str:
    return cut_middle(text, _MOST_OF_ONE)[0]
