"""A cell that sleeps: what must be kept beside the interpreter's bytes to go on with it elsewhere."""

from collections.abc import Mapping
from typing import Any

from cloister.cells.output import Output, Stream
from cloister.cells.runner import Cell
from cloister.cells.tape import Recording
from cloister.core.call import ExternalCallRecord
from cloister.core.limits import SessionLimits
from cloister.core.wire import from_json, to_json
from cloister.gate import Budget
from cloister.ports.engine import Call, Catalog, Program

_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")


def put_to_sleep(cell: Cell, pending: tuple[Call, ...]) -> dict[str, Any]:
    return {
        "id": cell.id,
        "code": cell.program.code,
        "stdout": cell.output.text("stdout"),
        "stderr": cell.output.text("stderr"),
        "dropped": cell.output.dropped,
        "records": [[number, to_json(record)] for number, record in cell.records.items()],
        "wall_left_ms": cell.wall_left_ms,
        "cpu_left_ms": cell.cpu_left_ms,
        "calls_left": cell.budget.left,
        "calls_limit": cell.budget.limit,
        "pending": [[c.number, c.name, list(c.args), dict(c.kwargs), c.kind] for c in pending],
    }


def wake(asleep: Mapping[str, Any], catalog: Catalog, limits: SessionLimits, now_ms: int) -> Cell:
    """The cell as it was, with what it may still use; never more than `limits`."""
    program = Program(asleep["code"])
    output = Output(limits.max_stdout_bytes)
    for stream in _STREAMS:
        if asleep[stream]:
            output.write(stream, asleep[stream])
    output.dropped += asleep["dropped"]
    cell = Cell(
        id=asleep["id"],
        program=program,
        recording=Recording(program, catalog, now_ms),
        output=output,
        budget=Budget(min(asleep["calls_left"], limits.max_external_calls), asleep["calls_limit"]),
        wall_left_ms=min(asleep["wall_left_ms"], limits.wall_ms),
        cpu_left_ms=min(asleep["cpu_left_ms"], limits.cpu_ms),
    )
    for number, record in asleep["records"]:
        cell.records[number] = from_json(ExternalCallRecord, record)
    for number, name, args, kwargs, kind in asleep["pending"]:
        cell.pending[number] = Call(number, name, tuple(args), kwargs, kind)
    return cell
