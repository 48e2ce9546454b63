"""Stages 2 and 10: what goes in and what comes back is bounded before anything is made of it.

Depth, expanded size and the capability's byte limits come first; digests, schemas and logs only see what passed. What a
tool says besides, to a program or by breaking, is bounded here too.
"""

import asyncio
import dataclasses
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar, cast

from cloister.core.call import CallStatus
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.value import MAX_DEPTH, MAX_NODES, Bounds, Json, ValueRefused, sized
from cloister.gate.redaction import Redactor
from cloister.gate.refusal import Refusal, refuse
from cloister.ports.engine import Call
from cloister.tools.tool import Tool

T = TypeVar("T")
# What is looked at on the event loop: a millisecond or two of work.
SMALL = Bounds(nodes=2_000, size=64 << 10)
# What is kept of a traceback: some tools put all that they were given into the message.
_LONGEST_TRACE = 64 << 10
# An engine's size is an estimate, made in passing: of characters, or of what they may take at most.
_ROUGH = 8


async def aside(size: int, work: Callable[[], T]) -> T:
    """Do `work` at once if it is about little data, otherwise in a thread: the loop must not stand still."""
    return work() if size <= SMALL.size else await asyncio.to_thread(work)


async def guard_request(call: Call, tool: Tool) -> None:
    """Stage 2. The engine has sized the arguments already, or said why they may not cross."""
    if call.refused is not None:
        raise Refusal(CallStatus.ERROR, call.refused)
    size, bound = call.size, tool.limits.max_request_bytes
    if not size or bound / _ROUGH < size <= bound * _ROUGH:
        # Near the bound it must be known: every language has the same number of bytes.
        size = await aside(size, lambda: _written(call))
    guard_size(size, tool)


def guard_size(size: int, tool: Tool) -> None:
    bound = tool.limits.max_request_bytes
    if size > bound:
        message = f"the arguments take more than the {bound} bytes that `{tool.full_name}` takes"
        raise refuse(Code.INVALID_ARGUMENTS, message, "send less in one call")


def _written(call: Call) -> int:
    return sum(sized(part)[1] for part in (list(call.args), dict(call.kwargs)) if part)


class NotJson(Exception):
    """What a tool returned cannot be written as JSON; `cause` is the host's business."""


async def guard_response(tool: Tool, value: object) -> tuple[Json, int]:
    """Stage 10: a tool's result as JSON and about how many bytes it takes. Raises `Refusal`, or `NotJson`."""
    # Small answers are looked at here; a look that does not end soon goes on in a thread.
    looked = _look(lambda: sized(value, SMALL))
    if isinstance(looked, ValueRefused):
        looked = await asyncio.to_thread(_look, lambda: _whole(tool, value))
    if isinstance(looked, ValueRefused) and looked.code == Code.RESULT_TOO_LARGE:
        raise _too_large(tool, looked.message)
    if isinstance(looked, BaseException):
        raise NotJson from looked
    answer, size = looked
    bound = tool.limits.max_response_bytes
    if size > bound:
        raise _too_large(tool, f"about {size} bytes; {bound} are allowed")
    violation = await aside(size, lambda: tool.check_output(answer))
    if violation is not None:
        # The shape is in the tool's declared schema; the values are not told.
        raise refuse(
            Code.TOOL_ERROR,
            f"`{tool.full_name}` returned what does not fit its output schema, at {violation.path}",
            "this is a fault of the tool: do without it, or tell its host",
        )
    return answer, size


def _too_large(tool: Tool, what: str) -> Refusal:
    return refuse(Code.RESULT_TOO_LARGE, f"`{tool.full_name}` returned too much: {what}", "ask for less in one call")


def _look(work: Callable[[], tuple[Json, int]]) -> tuple[Json, int] | BaseException:
    """What `work` made of a result, or what it raised."""
    try:
        return work()
    # Containment: a result's own methods are the host's code. SystemExit would end the loop, CancelledError the cell.
    except BaseException as error:  # noqa: BLE001
        return error


def _whole(tool: Tool, value: Any) -> tuple[Json, int]:
    try:
        return sized(value)
    except ValueRefused as refusal:
        if refusal.code != Code.RESULT_NOT_SERIALIZABLE:
            raise
    if isinstance(value, Iterator):
        # One more than may cross: a generator need not end.
        taken = list(islice(cast("Iterator[Any]", value), MAX_NODES + 1))
        _count(taken, 1, {}, set())
        value = iter(taken)
    else:
        _count(value, 1, {}, set())
    return sized(tool.unwrap(value))


def _count(value: Any, depth: int, known: dict[int, tuple[int, Any]], path: set[int]) -> int:
    """How many parts a result has once written out; raises `ValueRefused` if too many. What takes models apart does
    not count, and writes out what is shared each time that it meets it."""
    if isinstance(value, Iterator):
        raise ValueRefused(Code.RESULT_NOT_SERIALIZABLE, "there is an iterator inside of the value")
    parts = _parts(value)
    if parts is None:
        return 1
    key = id(value)
    if key in known:
        return known[key][0]
    if key in path:
        raise ValueRefused(Code.RESULT_NOT_SERIALIZABLE, "the value contains itself")
    if depth > MAX_DEPTH:
        raise ValueRefused(Code.RESULT_TOO_LARGE, f"the value is nested deeper than {MAX_DEPTH} levels")
    path.add(key)
    count = 1
    for part in parts:
        count += _count(part, depth + 1, known, path)
        if count > MAX_NODES:
            raise ValueRefused(Code.RESULT_TOO_LARGE, f"the value has more than {MAX_NODES} parts")
    path.discard(key)
    # Held, so that its id stays its own.
    known[key] = (count, value)
    return count


def _parts(value: Any) -> Iterable[Any] | None:
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).values()
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return cast("Iterable[Any]", value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return vars(value).values() if hasattr(cast("object", value), "model_dump") and hasattr(value, "__dict__") else None


def cut(text: str, longest: int, redactor: Redactor) -> str:
    """At most `longest` characters, scrubbed. Where they end, no beginning of a secret is left."""
    if len(text) <= longest:
        return _unicode(redactor.text(text))
    return _unicode(redactor.stream().feed(text[:longest])[:longest])


def clean(error: ErrorObject, redactor: Redactor) -> ErrorObject:
    """An error as it may be told, whoever wrote it: a tool, a hook, a person."""
    scrubbed = redactor.error(error)
    code, message, hint = _unicode(scrubbed.code), _unicode(scrubbed.message), scrubbed.hint and _unicode(scrubbed.hint)
    if (code, message, hint) == (scrubbed.code, scrubbed.message, scrubbed.hint):
        return scrubbed
    return replace(scrubbed, code=code, message=message, hint=hint)


def _unicode(text: str) -> str:
    # Half of a surrogate pair is no text to a program.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def trace(error: BaseException, redactor: Redactor) -> str:
    """A host's exception for the log, scrubbed."""
    try:
        told = "".join(traceback.format_exception(error))
    # Containment: an exception has methods and properties too, and they may break where it is looked at.
    except BaseException:  # noqa: BLE001
        return "(an exception that cannot be shown)"
    return cut(told, _LONGEST_TRACE, redactor)
