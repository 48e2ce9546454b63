"""A model that says what its script says.

The next answer is the one whose number is the number of answers in the conversation so far. A script that is asked
something else than it expects, or more than it has answers, fails by name (`script_astray`) instead of saying the wrong
thing. The same answer is the same to the letter, ids included, whenever it is asked for again.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import assert_never

from cloister.core.answer import Answer, CallDelta, Delta, FinishReason, Piece, ReasoningDelta, TextDelta
from cloister.core.errors import (
    AnswerInvalid,
    AnswerTooLarge,
    CloisterError,
    ModelError,
    ModelFailed,
    ModelRateLimited,
    ModelRefused,
    ModelTimeout,
    ProviderUnavailable,
    ScriptAstray,
)
from cloister.core.message import (
    AssistantMessage,
    FreeformCall,
    InputText,
    Message,
    OutputText,
    Part,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)
from cloister.core.offer import FreeformTool
from cloister.core.value import Json
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.model import Asked, ModelCapabilities
from cloister.threads.models.asking import check_asked
from cloister.threads.models.scripted.script import Broken, Called, Doing, Program, Script, Scripted, Wait

_CELL = re.compile(r"cel_[0-9A-Za-z]{26}")
_FENCE = re.compile("`{3,}")
_KINDS: Mapping[str, type[ModelError]] = {
    kind.code: kind
    for kind in (ModelRefused, ModelRateLimited, ModelFailed, ModelTimeout, AnswerTooLarge, AnswerInvalid)
}


class ScriptedModel:
    """`ScriptedModel(parse_script("answers: [{text: Hello.}]"))`"""

    def __init__(self, script: Script, *, name: str | None = None, clock: Clock | None = None) -> None:
        self._script = script
        self._name = name or f"scripted:{script.name}"
        self._clock = clock or SystemClock()

    @property
    def provider(self) -> str:
        return "scripted"

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> ModelCapabilities:
        return self._script.capabilities

    @asynccontextmanager
    async def request(self, asked: Asked) -> AsyncGenerator[AsyncIterator[Piece]]:
        check_asked(asked, self.capabilities, self._name)
        number = asked.answers_before + sum(isinstance(one, AssistantMessage) for one in asked.messages)
        scripted = self._next(number, asked)
        pieces = self._pieces(scripted, number, asked)
        try:
            yield pieces
        finally:
            await pieces.aclose()

    # -- inside ----------------------------------------------------------------------------------------------

    def _next(self, number: int, asked: Asked) -> Scripted:
        answers = self._script.answers
        if number >= len(answers):
            raise self._astray(f"has {len(answers)} answers, and is asked for number {number + 1}")
        heard = last_input(asked.messages)
        for scripted in answers[number]:
            if scripted.when is not None and not scripted.when.holds(heard):
                continue
            if scripted.expect is not None and not scripted.expect.holds(heard):
                raise self._astray(
                    f"line {scripted.line}, answer {number + 1}: {scripted.expect} is not in what was said last",
                    f"which is {_cut(heard)!r}",
                )
            return scripted
        raise self._astray(
            f"line {answers[number][0].line}, answer {number + 1}: none of its alternatives fits what was said last",
            f"which is {_cut(heard)!r}",
        )

    def _astray(self, reason: str, hint: str | None = None) -> ScriptAstray:
        return ScriptAstray(f"{self._script.name}: {reason}", provider="scripted", model=self._name, hint=hint)

    async def _pieces(self, scripted: Scripted, number: int, asked: Asked) -> AsyncGenerator[Piece]:
        if scripted.delay_ms:
            await self._clock.sleep(scripted.delay_ms / 1000)
        if scripted.error is not None and not scripted.error.after_pieces:
            raise self._failure(scripted.error)
        answer = self._answer(scripted, number, asked)
        if self.capabilities.streaming:
            for place, delta in enumerate(_deltas(answer.message.parts, scripted.pieces)):
                if scripted.error is not None and place == scripted.error.after_pieces:
                    raise self._failure(scripted.error)
                if place and scripted.piece_delay_ms:
                    await self._clock.sleep(scripted.piece_delay_ms / 1000)
                yield delta
        if scripted.error is not None:
            raise self._failure(scripted.error)
        yield answer

    def _answer(self, scripted: Scripted, number: int, asked: Asked) -> Answer:
        parts: list[Part] = []
        if scripted.reasoning is not None:
            parts.append(Reasoning(scripted.reasoning))
        if scripted.text is not None:
            parts.append(OutputText(scripted.text))
        for doing in scripted.doing:
            parts.append(self._part(doing, f"call_{number + 1}_{len(parts) + 1}", asked))
        message = AssistantMessage(tuple(parts), provider=self.provider)
        finish = scripted.finish or (FinishReason.TOOL_CALLS if message.calls else FinishReason.STOP)
        return Answer(message, finish, replace(scripted.usage, requests=1), model=self._name)

    def _part(self, doing: Doing, call_id: str, asked: Asked) -> Part:
        match doing:
            case Program():
                return _program(doing, call_id, asked)
            case Wait():
                arguments = {"cell_id": self._last_cell(asked), **doing.arguments}
                return ToolCall(call_id, "wait", json.dumps(arguments, ensure_ascii=False))
            case Called(tool, str() as text):
                if any(isinstance(one, FreeformTool) and one.name == tool for one in asked.tools):
                    return FreeformCall(call_id, tool, text)
                return ToolCall(call_id, tool, text)
            case Called(tool, arguments):
                return ToolCall(call_id, tool, json.dumps(arguments, ensure_ascii=False))
            case _:
                assert_never(doing)

    def _last_cell(self, asked: Asked) -> str:
        for message in reversed(asked.messages):
            found = _CELL.findall(_said(message))
            if found:
                return found[-1]
        raise self._astray("it waits for a cell, and none was named so far")

    def _failure(self, broken: Broken) -> CloisterError:
        if broken.code == ProviderUnavailable.code:
            return ProviderUnavailable(f"{self._name}: {broken.message}")
        return _KINDS[broken.code](
            f"{self._name}: {broken.message}",
            provider=self.provider,
            model=self._name,
            status=broken.status,
            retry_after_ms=broken.retry_after_ms,
        )


def _program(program: Program, call_id: str, asked: Asked) -> Part:
    """In whichever way this conversation takes programs: a freeform tool, a function, or a fenced block of text."""
    offered = next((tool for tool in asked.tools if tool.name == "exec"), None)
    if isinstance(offered, FreeformTool):
        return FreeformCall(call_id, "exec", program.code)
    if offered is None and not asked.tools:
        longest = max((len(found) for found in _FENCE.findall(program.code)), default=2)
        fence = "`" * max(3, longest + 1)
        code = program.code if program.code.endswith("\n") else f"{program.code}\n"
        return OutputText(f"{fence}{program.language or 'python'}\n{code}{fence}\n")
    arguments: dict[str, Json] = {"code": program.code}
    if program.language is not None:
        arguments["language"] = program.language
    return ToolCall(call_id, "exec", json.dumps(arguments, ensure_ascii=False))


def last_input(messages: tuple[Message, ...]) -> str:
    """What was said since the last answer, by people and by tools."""
    heard: list[str] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        heard.append(_said(message))
    return "\n".join(reversed(heard))


def _said(message: Message) -> str:
    match message:
        case UserMessage() | ToolResult():
            return "\n".join(part.text for part in message.content if isinstance(part, InputText))
        case AssistantMessage():
            return message.text
        case _:
            return message.text


def _deltas(parts: tuple[Part, ...], pieces: int) -> list[Delta]:
    made: list[Delta] = []
    for index, part in enumerate(parts):
        match part:
            case OutputText():
                made += [TextDelta(index, text) for text in _split(part.text, pieces)]
            case Reasoning():
                made += [ReasoningDelta(index, text) for text in _split(part.text, pieces)]
            case ToolCall():
                made += [CallDelta(index, text, part.id, part.name) for text in _split(part.arguments, pieces)]
            case FreeformCall():
                made += [CallDelta(index, text, part.id, part.name) for text in _split(part.input, pieces)]
            case _:
                assert_never(part)
    return made


def _split(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:150]} … {text[-150:]}"
