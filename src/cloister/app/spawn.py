"""`spawn(code)` inside a cell: a program starts another in a session of its own, with some of its own tools.

Off unless the host gives `SpawnOptions`. The child is found again by the call that started it: made anew after a crash,
the call goes on with the child that is there, so nothing is done twice. The child ends with its parent's cell, and is
destroyed once what it came to is on record.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from cloister.core.capability import SideEffect
from cloister.core.cell import Completed, Failed, Interrupted, Observation, Terminated, WaitingForApproval, Yielded
from cloister.core.codes import Code
from cloister.core.content import text_of
from cloister.core.errors import CloisterError, InvalidInput
from cloister.core.limits import CapabilityLimits, SessionLimits
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.ports.journal import Journal
from cloister.ports.rows import CellRow
from cloister.ports.source import SourceFailed
from cloister.sessions import Session
from cloister.tools.allowance import Allowance
from cloister.tools.context import CallContext
from cloister.tools.tool import Tool, ToolError

NAME = "spawn"
PREFIX = "spawn-"
_DEPTH = re.compile(r"spawn-(\d{1,3})-[0-9a-f]{40}")
_LOOK_MS = 60_000
# Where observing is switched off, somebody still has to look.
_PAUSE_SECONDS = 0.05
_STATUS = {"ok": "completed", "cancelled": "terminated", "interrupted": "interrupted"}
_DESCRIPTION = """\
Run another program in a session of its own, and have what it came to: status ("completed", "failed", "terminated" or
"interrupted"), result, error and stdout. It shares no variables, values or files with this one, and may call only the
tools that are named.
"""
_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "minLength": 1, "description": "The program, in the language of this one."},
        "tools": {
            "type": "array",
            "items": {"type": "string"},
            "uniqueItems": True,
            "description": "The full names of the tools that it may call. None, if nothing is said.",
        },
        "inputs": {"type": "object", "description": "Variables that it begins with."},
        "limits": {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "description": "Narrower limits, such as cpu_ms.",
        },
    },
    "required": ["code"],
    "additionalProperties": False,
}
_OUTPUT: dict[str, Any] = {
    "type": "object",
    "title": "Spawned",
    "properties": {
        "status": {"type": "string", "enum": ["completed", "failed", "terminated", "interrupted"]},
        "result": {},
        "error": {"type": ["object", "null"]},
        "stdout": {"type": "string"},
    },
    "required": ["status", "result", "error", "stdout"],
}


@dataclass(frozen=True, slots=True)
class SpawnOptions:
    """Let programs start others: children of children up to `max_depth`, and `max_children` by each cell. A cell waits
    `timeout_ms` for one, people who are asked included; then the child is ended."""

    max_depth: int = 1
    max_children: int = 4
    timeout_ms: int = 7 * 24 * 3_600_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            most = 8 if one.name == "max_depth" else 1 << 40
            if type(value) is not int or not 1 <= value <= most:
                raise InvalidInput(f"{one.name} of spawn() is a whole number from 1 to {most}, not {value!r:.80}")


@dataclass(frozen=True, slots=True)
class SpawnHost:
    """What spawning needs of the host of the sessions."""

    # Returns when the host is ready for children of it.
    parent: Callable[[str], Awaitable[Session]]
    # The child of that id, the one that is there or a new one: parent, id, tools, limits, the key of the call.
    open: Callable[[Session, str, Sequence[Tool], SessionLimits, str], Awaitable[Session]]
    cells: Callable[[str], Awaitable[Sequence[CellRow]]]
    end: Callable[[str], Awaitable[None]]
    # Have it ended by and by.
    forget: Callable[[str], None]
    # Whether the host goes, so that children are left as they are for whoever comes next.
    is_going: Callable[[], bool]


def depth_of(session_id: str) -> int:
    """How many parents it has."""
    found = _DEPTH.fullmatch(session_id)
    return int(found[1]) if found else 0


def child_id_of(parent_id: str, key: str, depth: int) -> str:
    """The same whenever the call is made again."""
    return f"{PREFIX}{depth}-{hashlib.sha3_256(f'{parent_id} {key}'.encode()).hexdigest()[:40]}"


def check_spawn(options: object) -> SpawnOptions:
    if not isinstance(options, SpawnOptions):
        raise InvalidInput(
            f"spawn is SpawnOptions, not {type(options).__name__}", hint="write spawn=SpawnOptions(max_depth=1)"
        )
    return options


def spawn_tool(options: SpawnOptions, host: SpawnHost, journals: Sequence[Journal]) -> Tool:
    return Tool.from_schema(
        name=NAME,
        description=_DESCRIPTION,
        handler=_Spawn(options, host, Allowance(NAME, options.max_children, journals)),
        input_schema=_INPUT,
        output_schema=_OUTPUT,
        side_effect=SideEffect.EXTERNAL_SYSTEM,
        limits=CapabilityLimits(timeout_ms=options.timeout_ms, concurrency=options.max_children),
        # Made again, it finds the child that it has made.
        idempotent=True,
    )


class _Spawn:
    def __init__(self, options: SpawnOptions, host: SpawnHost, allowance: Allowance) -> None:
        self._options = options
        self._host = host
        self._allowance = allowance

    async def __call__(
        self,
        code: str,
        tools: Sequence[str] = (),
        inputs: Mapping[str, Json] | None = None,
        limits: Mapping[str, int] | None = None,
        *,
        context: CallContext,
    ) -> Json:
        host = self._host
        parent = await host.parent(context.session_id)
        depth = depth_of(parent.id) + 1
        if depth > self._options.max_depth:
            raise ToolError(
                Code.PERMISSION_DENIED, f"`{NAME}` goes {self._options.max_depth} deep here, and this is as deep"
            )
        granted = await _granted(parent, tools)
        await self._allowance.admit(context)
        child_id = child_id_of(parent.id, context.idempotency_key, depth)
        try:
            bounds = parent.limits if limits is None else parent.limits.narrowed_by(limits)
            child = await host.open(parent, child_id, granted, bounds, context.idempotency_key)
            told = await self._run(child, code, inputs)
        except asyncio.CancelledError:
            await self._end(child_id)
            raise
        except CloisterError as error:
            await self._end(child_id)
            raise ToolError(str(error.code), error.message, error.hint) from None
        context.when_settled(lambda: host.forget(child_id))
        return told

    async def _end(self, child_id: str) -> None:
        if not self._host.is_going():
            await asyncio.shield(asyncio.ensure_future(self._host.end(child_id)))

    async def _run(self, child: Session, code: str, inputs: Mapping[str, Json] | None) -> Json:
        """Its program, to the end; the one that is under way, or has ended, if this call was made before."""
        rows = sorted(await self._host.cells(child.id), key=lambda row: row.number)
        mine = next((row for row in rows if row.doc.get("program", {}).get("code") == code), None)
        seen: Observation
        if mine is None:
            seen = await child.exec(code, inputs=inputs, yield_ms=0)
        elif mine.id in {cell.id for cell in await child.cells()}:
            seen = await child.wait(mine.id, yield_ms=0)
        else:
            return _of_row(mine)
        while isinstance(seen, (Yielded, WaitingForApproval)):
            await asyncio.sleep(_PAUSE_SECONDS)
            seen = await child.wait(seen.cell_id, yield_ms=_LOOK_MS)
        if isinstance(seen, Interrupted) and self._host.is_going():
            # It goes on elsewhere, and so does this call: there is no answer to be written down.
            await asyncio.Event().wait()
        return _of_observation(seen)


async def _granted(parent: Session, names: Sequence[str]) -> list[Tool]:
    found: list[Tool] = []
    for name in names:
        tool = parent.tools.get(name)
        if tool is None:
            raise ToolError(
                Code.UNKNOWN_TOOL,
                f"there is no tool {name!r:.100} that could be handed on",
                f"there is {', '.join(parent.tools.names()[:20])}",
            )
        try:
            # What a child relies on is written down with it: all must be known by then.
            await tool.make_ready()
        except (SourceFailed, InvalidInput) as error:
            raise ToolError(Code.TOOL_ERROR, f"`{name}` cannot be handed on: {error.message}", error.hint) from None
        found.append(tool)
    return found


def _of_observation(seen: Completed | Failed | Terminated | Interrupted) -> Json:
    return {
        "status": seen.status,
        "result": seen.result if isinstance(seen, Completed) else None,
        "error": to_json(seen.error) if isinstance(seen, (Failed, Interrupted)) else None,
        "stdout": text_of(seen.content),
    }


def _of_row(row: CellRow) -> Json:
    """The same of a cell whose end somebody has read."""
    result = row.doc.get("result", {})
    return {
        "status": _STATUS.get(result.get("status", "interrupted"), "failed"),
        "result": result.get("result"),
        "error": result.get("error"),
        "stdout": result.get("stdout", ""),
    }
