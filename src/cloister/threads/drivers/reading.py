"""What the code driver takes an answer for: programs to run, cells to wait for, words to search by.

What cannot be taken for any of these becomes a call with an error that the model can act on; nothing is guessed. Of an
answer that was cut off nothing is run: half a program is not the program.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cloister.core.answer import Answer, FinishReason
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CloisterError
from cloister.core.item import CellRun, Detail, ToolCall
from cloister.core.language import Language
from cloister.core.message import AssistantMessage, FreeformCall, OutputText, read_arguments
from cloister.core.message import ToolCall as Called
from cloister.threads.drivers.fences import Block, blocks_of, language_named, unfenced
from cloister.threads.drivers.journal import Transport

CUT = ErrorObject(
    Code.INVALID_INPUT,
    "your answer was cut off before this was whole, so nothing of it was run",
    "say less at once: split the work into smaller programs",
)
_TAKES = {
    "exec": ("code", "language"),
    "wait": ("cell_id", "yield_ms", "terminate"),
    "search_tools": ("query", "limit"),
}
# For programs in a call of a function, models write all of these.
_ALSO_CODE = ("input", "program", "source", "script")


def work_of(answer: Answer, transport: Transport, language: Language, known: frozenset[str]) -> list[Detail]:
    """The items that it leads to. `known` are the tools of the session, which programs call."""
    message, was_cut = answer.message, answer.finish is FinishReason.LENGTH
    if transport is Transport.FENCED and not message.calls:
        blocks = [block for block in _blocks(message) if block.language is not None or block.word == "wait"]
        return [_block(block, language, was_cut=was_cut and block is blocks[-1]) for block in blocks]
    details: list[Detail] = []
    for call in message.calls:
        if was_cut:
            details.append(ToolCall(call.name, model_call_id=call.id, error=CUT))
        elif isinstance(call, FreeformCall):
            details.append(_freeform(call, language, known))
        else:
            details.append(_function(call, language, known))
    return details


def _blocks(message: AssistantMessage) -> Iterator[Block]:
    # Each of its texts begins on a line of its own.
    for part in message.parts:
        if isinstance(part, OutputText):
            yield from blocks_of(part.text)


def _block(block: Block, language: Language, *, was_cut: bool) -> Detail:
    if block.word == "wait":
        cell_id = block.text.strip()
        return ToolCall("wait", arguments={"cell_id": cell_id})
    if was_cut and not block.closed:
        return CellRun(block.text, language, error=CUT)
    spoken = block.language or language
    return CellRun(block.text, spoken, error=_other_language(spoken, language))


def _freeform(call: FreeformCall, language: Language, known: frozenset[str]) -> Detail:
    if call.name != "exec":
        return ToolCall(
            call.name, model_call_id=call.id, arguments=call.input, error=_no_tool(call.name, language, known)
        )
    return CellRun(unfenced(call.input), language, model_call_id=call.id)


def _function(call: Called, language: Language, known: frozenset[str]) -> Detail:
    try:
        given = read_arguments(call)
    except CloisterError as error:
        refused = ErrorObject(Code.INVALID_ARGUMENTS, error.message, error.hint or "write the arguments as JSON")
        return ToolCall(call.name, model_call_id=call.id, arguments=call.arguments, error=refused)
    if call.name == "exec":
        return _exec(call, given, language)
    if call.name in _TAKES:
        return ToolCall(call.name, model_call_id=call.id, arguments=given, error=_misfit(call.name, given))
    return ToolCall(call.name, model_call_id=call.id, arguments=given, error=_no_tool(call.name, language, known))


def _exec(call: Called, given: Mapping[str, Any], language: Language) -> Detail:
    named = next((name for name in ("code", *_ALSO_CODE) if isinstance(given.get(name), str)), None)
    if named is None or given.keys() - {named, "language"}:
        return ToolCall("exec", model_call_id=call.id, arguments=given, error=_misfit("exec", given) or _no_code())
    word = given.get("language")
    spoken = language if word is None else language_named(word) if isinstance(word, str) else None
    error = None
    if spoken is None:
        error = ErrorObject(Code.INVALID_ARGUMENTS, f"there is no language {word!r:.80}", f"write {language}")
    else:
        error = _other_language(spoken, language)
    return CellRun(unfenced(given[named]), spoken or language, model_call_id=call.id, error=error)


def _no_code() -> ErrorObject:
    return ErrorObject(Code.INVALID_ARGUMENTS, "`exec` takes the program as a text", 'write {"code": "..."}')


def _other_language(spoken: Language, language: Language) -> ErrorObject | None:
    if spoken is language:
        return None
    return ErrorObject(Code.INVALID_INPUT, f"programs are {language} here, not {spoken}", f"write it in {language}")


def _misfit(name: str, given: Mapping[str, Any]) -> ErrorObject | None:
    """Arguments that the tool does not take. What they hold is looked at where they are used."""
    takes = _TAKES[name]
    unknown = sorted(given.keys() - set(takes))
    if unknown:
        said = f"`{name}` takes no {', '.join(map(repr, unknown)):.200}"
        return ErrorObject(Code.INVALID_ARGUMENTS, said, f"it takes {', '.join(takes)}")
    if takes[0] not in given:
        return ErrorObject(Code.INVALID_ARGUMENTS, f"`{name}` needs {takes[0]!r}", f"it takes {', '.join(takes)}")
    return None


def _no_tool(name: str, language: Language, known: frozenset[str]) -> ErrorObject:
    full_name = name.replace("::", ".")
    if full_name in known:
        return ErrorObject(Code.UNKNOWN_TOOL, f"{name!r} is called from a program", _how(full_name, language))
    hint = "there are exec, wait and search_tools; what search_tools finds is called from a program that `exec` runs"
    return ErrorObject(Code.UNKNOWN_TOOL, f"there is no tool {name[:100]!r}", hint)


def _how(full_name: str, language: Language) -> str:
    namespace, _, name = full_name.rpartition(".")
    if language is Language.TYPESCRIPT:
        return f"call `exec` with a program: await {full_name if namespace else f'tools.{name}'}({{...}})"
    imported = f"from {namespace} import {name}; " if namespace else ""
    return f"call `exec` with a program: {imported}await {name}(...)"


def searched(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What goes to the search as it is."""
    yield from ((name, given[name]) for name in _TAKES["search_tools"] if name in given)
