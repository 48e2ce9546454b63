"""A cell that sleeps: what must be kept beside the interpreter's bytes to go on with it elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from cloister.cells.cell import Cell
from cloister.cells.output import Output
from cloister.cells.tape import Recording
from cloister.cells.values import CellValues
from cloister.core.call import ExternalCallRecord
from cloister.core.diagnostic import ErrorObject
from cloister.core.limits import SessionLimits
from cloister.core.wire import from_json, to_json
from cloister.gate import Budget
from cloister.gate.redaction import Redactor
from cloister.ports.engine import Call, Catalog, Program


@lru_cache(256)
def limits_to_json(limits: SessionLimits) -> Mapping[str, Any]:
    """Few are ever different, and they are written with every wait."""
    return to_json(limits)


def put_to_sleep(cell: Cell, *, records: bool = True) -> dict[str, Any]:
    """Without `records` for a place where the journal is, which has them."""
    return {
        "id": cell.id,
        "code": cell.program.code,
        **({"cwd": cell.program.cwd} if cell.program.cwd is not None else {}),
        "said": cell.output.to_json(),
        "values": cell.values.to_json(),
        "dropped": cell.output.dropped,
        "begun": cell.output.begun(),
        "records": [[number, to_json(record)] for number, record in cell.records.items()] if records else [],
        "limits": limits_to_json(cell.bounds),
        "enduring": cell.enduring,
        "wall_left_ms": cell.wall_left_ms,
        "cpu_left_ms": cell.cpu_left_ms,
        "calls_left": cell.budget.left,
        "calls_limit": cell.budget.limit,
        "pending": [_call_to_json(call) for call in cell.pending.values()],
        # Those of them that nobody has made: they wait for a person, and wherever they wake a person is asked anew.
        "unmade": sorted(cell.asked.keys() | cell.unmade),
    }


def wake(
    asleep: Mapping[str, Any],
    catalog: Catalog,
    limits: SessionLimits,
    now_ms: int,
    redactor: Redactor,
    longest_wall_ms: int,
) -> Cell:
    """The cell as it was, with what it may still use; never more than `limits`, but for the time of a cell that was
    meant to outlive its caller: that is bounded by `longest_wall_ms`."""
    had = from_json(SessionLimits, asleep["limits"])
    wall_ms = min(had.wall_ms, max(longest_wall_ms, limits.wall_ms) if asleep["enduring"] else limits.wall_ms)
    limits = replace(limits.intersection(had), wall_ms=wall_ms)
    program = Program(asleep["code"], cwd=asleep.get("cwd"))
    output = Output(limits.max_stdout_bytes, None, redactor)
    output.take_up(asleep["said"])
    values = CellValues.from_json(asleep["values"])
    output.expect(asleep["begun"])
    output.dropped += asleep["dropped"]
    cell = Cell(
        id=asleep["id"],
        program=program,
        recording=Recording(program, catalog, now_ms, values=values.view),
        output=output,
        bounds=limits,
        budget=Budget(min(asleep["calls_left"], limits.max_external_calls), asleep["calls_limit"]),
        wall_left_ms=min(asleep["wall_left_ms"], limits.wall_ms),
        cpu_left_ms=min(asleep["cpu_left_ms"], limits.cpu_ms),
        woke=True,
        enduring=asleep["enduring"],
        values=values,
    )
    for number, record in asleep["records"]:
        cell.records[number] = from_json(ExternalCallRecord, record)
    for call in map(call_from_json, asleep["pending"]):
        cell.pending[call.number] = call
    cell.unmade.update(asleep["unmade"])
    return cell


def _call_to_json(call: Call) -> list[Any]:
    refused = to_json(call.refused) if call.refused is not None else None
    return [call.number, call.name, list(call.args), dict(call.kwargs), call.kind, call.size, refused]


def call_from_json(kept: list[Any]) -> Call:
    """A pending call, as `put_to_sleep` wrote it."""
    number, name, args, kwargs, kind, size, refused = kept
    error = from_json(ErrorObject, refused) if refused is not None else None
    return Call(number, name, tuple(args), kwargs, kind, error, size)
