"""Runs a cell's program once more, on what is on record, and stops where it does something else.

The program is told what it was told, in the same order and grouping, at the same times. Its calls go nowhere: each is
held against the one on record, and so is what it asks of files. What it stores and says stays here.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cloister.cells.answers import answers
from cloister.cells.output import Output
from cloister.cells.values import CellValues
from cloister.core.cell import CellState
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import canonical_json
from cloister.core.errors import EngineUnavailable
from cloister.core.replay import Divergence, DivergenceKind
from cloister.core.wire import from_json, to_json
from cloister.ports.engine import (
    Call,
    Failed,
    Finished,
    Interpreter,
    Raised,
    Returned,
    Settlement,
    Step,
    Suspended,
    Turn,
)
from cloister.sessions.replay.audit import MARKER
from cloister.sessions.replay.filing import Filing
from cloister.sessions.replay.paper import brief, show_brief, shown
from cloister.sessions.replay.past import Past, Start, Told

# This machine may be slower than that of the record, or busier; a program that runs on for ever is still stopped.
_SLOWER = 4
_SPARE_MS = 1_000
_WALL_MS = 60_000
# An end with one of these may have come from outside of the program, or from a limit that is no number of steps.
_OUTSIDE = frozenset(
    {
        Code.TIMEOUT_WALL,
        Code.TIMEOUT_CPU,
        Code.MEMORY_EXCEEDED,
        Code.ENGINE_CRASHED,
        Code.INTERRUPTED,
        Code.CANCELLED,
    }
)
_BROKEN = frozenset({Code.ENGINE_CRASHED, Code.INTERRUPTED})


class Player:
    """Plays one cell, once."""

    def __init__(self, past: Past, start: Start) -> None:
        self._past = past
        self._start = start
        self._output = Output(past.bounds.max_stdout_bytes)
        self._values = CellValues(start.values)
        self._files = Filing(past.filed)
        self._helper = answers(self._output, self._values, lambda _said: None, lambda: None, self._files)
        self._made: dict[int, Call] = {}
        self.steps = 0
        # Calls that were held against the record.
        self.calls = 0
        self.outside: str | None = None

    async def play(self, interpreter: Interpreter) -> Divergence | None:
        past = self._past
        self.steps = 1
        step = await interpreter.start(past.program, self._turn(self._start.now_ms))
        if (divergence := self._asked(step)) is not None:
            return divergence
        for now_ms, told in past.course:
            if not isinstance(step, Suspended):
                return self._ended_early(step, told)
            self.steps += 1
            settlements: list[Settlement] = []
            for one in told:
                settlement = self._settlement(one)
                if isinstance(settlement, Divergence):
                    return settlement
                settlements.append(settlement)
            step = await interpreter.resume(settlements, self._turn(now_ms))
            if (divergence := self._asked(step)) is not None:
                return divergence
        return self._end(step)

    # -- what it asks for --------------------------------------------------------------------------------------

    def _asked(self, step: Step) -> Divergence | None:
        """The calls that are new, against those on record."""
        if isinstance(step, Failed) and step.error.code in _BROKEN and not self._may_be_outside():
            raise EngineUnavailable(f"the worker died in the middle of the replay: {step.error.message}")
        # One that was stopped in its last step may have been about to ask for more.
        if self._files.strayed is not None and not (self._files.is_over and self._is_last() and self._may_be_outside()):
            return self._diverged(DivergenceKind.OTHER_FILES, None, *self._files.strayed)
        if not isinstance(step, Suspended):
            return None
        for call in step.calls:
            self._made[call.number] = call
            was = self._past.calls.get(call.number)
            if was is None:
                if self._is_last() and self._may_be_outside():
                    # It was stopped before it had asked.
                    continue
                return self._diverged(DivergenceKind.EXTRA_CALL, call.number, "no further call", _call(call))
            if (was.name, was.kind) != (call.name, call.kind):
                return self._diverged(DivergenceKind.OTHER_CALL, call.number, _call(was), _call(call))
            if not _same([list(was.args), dict(was.kwargs)], [list(call.args), dict(call.kwargs)]):
                return self._diverged(DivergenceKind.OTHER_ARGUMENTS, call.number, _call(was), _call(call))
            if (was.refused is None) != (call.refused is None):
                return self._diverged(DivergenceKind.OTHER_ARGUMENTS, call.number, _call(was), _call(call))
            self.calls += 1
        return self._left_out()

    def _left_out(self) -> Divergence | None:
        """The first call that was made by this step, and is not now. Told at once: what a program does instead, and
        when that shows, depends on the order of the answers."""
        for number, answers_before in sorted(self._past.made.items()):
            if answers_before < self.steps and number not in self._made:
                was = _call(self._past.calls[number])
                return self._diverged(DivergenceKind.MISSING_CALL, number, was, "no such call")
        return None

    def _settlement(self, told: Told) -> Settlement | Divergence:
        number = told.number
        if number not in self._made:
            was = self._past.calls.get(number)
            return self._diverged(
                DivergenceKind.MISSING_CALL, number, _call(was) if was is not None else f"call {number}", "no such call"
            )
        if told.other is not None:
            if "error" in told.other:
                return Raised(number, from_json(ErrorObject, told.other["error"]))
            return Returned(number, told.other["value"])
        if told.seal is None:
            return Returned(number, None)
        # That it is there, settled, was seen when the journal was looked through.
        settled = self._past.entries[number].settled
        assert settled is not None
        return Raised(number, settled.error) if settled.error is not None else Returned(number, settled.value)

    # -- how it ends -------------------------------------------------------------------------------------------

    def _ended_early(self, step: Step, told: Sequence[Told]) -> Divergence:
        names = ", ".join(_call(self._past.calls[one.number]) for one in told if one.number in self._past.calls)
        return self._diverged(DivergenceKind.OTHER_END, None, f"it goes on after {names}", _ending(step))

    def _end(self, step: Step) -> Divergence | None:
        past, result = self._past, self._past.result
        error: Mapping[str, Any] | None = result.get("error")
        divergence = self._how_it_ended(step, error)
        if divergence is not None and self._may_be_outside():
            self.outside = error["message"] if error is not None else str(past.state)
            return None
        if divergence is not None:
            return divergence
        unmade = sorted(past.calls.keys() - self._made.keys())
        if unmade:
            was = past.calls[unmade[0]]
            return self._diverged(DivergenceKind.MISSING_CALL, was.number, _call(was), "no such call")
        if self._files.missing is not None and not self._may_be_outside():
            return self._diverged(DivergenceKind.OTHER_FILES, None, *self._files.missing)
        return self._said(result) or self._stored()

    def _how_it_ended(self, step: Step, error: Mapping[str, Any] | None) -> Divergence | None:
        was = _error(error) if error is not None else f"the result {shown(self._past.result.get('result'))}"
        match step:
            case Suspended():
                return self._diverged(DivergenceKind.OTHER_END, None, was, _ending(step))
            case Finished():
                if error is not None:
                    return self._diverged(DivergenceKind.OTHER_ERROR, None, was, _ending(step))
                if not _alike(self._past.result.get("result"), step.value):
                    return self._diverged(DivergenceKind.OTHER_RESULT, None, was, _ending(step))
            case Failed():
                known = to_json(step.error)
                # The hint is advice, and may name what is not on record.
                if error is None or not _alike(*({**one, "hint": None} for one in (error, known))):
                    return self._diverged(DivergenceKind.OTHER_ERROR, None, was, _ending(step))
        return None

    def _said(self, result: Mapping[str, Any]) -> Divergence | None:
        self._output.finish()
        was, now = list(result["content"]), to_json(self._output.content())
        for number, (one, other) in enumerate(zip(was, now, strict=False), 1):
            if not _alike(one, other):
                place = f"part {number}: "
                return self._diverged(
                    DivergenceKind.OTHER_OUTPUT, None, place + shown(_words(one)), place + shown(_words(other))
                )
        if len(was) != len(now):
            more = (was if len(was) > len(now) else now)[min(len(was), len(now))]
            said, nothing = f"part {min(len(was), len(now)) + 1}: {shown(_words(more))}", "nothing more"
            expected, actual = (said, nothing) if len(was) > len(now) else (nothing, said)
            return self._diverged(DivergenceKind.OTHER_OUTPUT, None, expected, actual)
        for stream in ("stdout", "stderr"):
            if not _alike(result[stream], self._output.text(stream)):
                return self._diverged(
                    DivergenceKind.OTHER_OUTPUT,
                    None,
                    f"on {stream}: {shown(result[stream])}",
                    f"on {stream}: {shown(self._output.text(stream))}",
                )
        return None

    def _stored(self) -> Divergence | None:
        was, now = self._past.written, {key: brief(value) for key, value in self._values.written.items()}
        for key in sorted(was.keys() | now.keys()):
            if key not in was or key not in now or not _same(was[key], now[key]):
                expected, actual = (show_brief(one[key]) if key in one else "nothing" for one in (was, now))
                return self._diverged(DivergenceKind.OTHER_VALUES, None, f"{key!r}: {expected}", f"{key!r}: {actual}")
        return None

    # -- what these need ---------------------------------------------------------------------------------------

    def _is_last(self) -> bool:
        return self.steps > len(self._past.course)

    def _may_be_outside(self) -> bool:
        error = self._past.result.get("error")
        if self._past.state in (CellState.TERMINATED, CellState.INTERRUPTED):
            return True
        return error is not None and error["code"] in _OUTSIDE

    def _turn(self, now_ms: int) -> Turn:
        bounds = self._past.bounds
        # Of one that was stopped nothing is expected any more.
        cpu_ms = bounds.cpu_ms if self._may_be_outside() else _SPARE_MS + _SLOWER * bounds.cpu_ms
        return Turn(
            now_ms,
            _WALL_MS + cpu_ms,
            cpu_ms,
            self._output.write,
            self._start.catalog,
            bounds.max_external_calls,
            self._helper,
        )

    def _diverged(self, kind: DivergenceKind, call: int | None, expected: str, actual: str) -> Divergence:
        return Divergence(kind, self.steps, call, expected, actual)


def _call(call: Call) -> str:
    if call.kind == "timer":
        return f"a timer of {shown(call.args[0] if call.args else 0)} s"
    if call.refused is not None:
        return f"`{call.name}` with what may not cross: {call.refused.message}"
    given = [*call.args, dict(call.kwargs)] if call.kwargs else list(call.args)
    return f"`{call.name}` with {shown(given)}"


def _ending(step: Step) -> str:
    match step:
        case Suspended(awaiting=awaiting):
            return f"it waits for call {', '.join(map(str, sorted(awaiting)))}"
        case Finished(value=value):
            return f"the result {shown(value)}"
        case Failed(error=error):
            return _error(to_json(error))


def _error(error: Mapping[str, Any]) -> str:
    span = error.get("span")
    place = f" on line {span['line']}" if span else ""
    return f"{error['code']}{place}: {shown(error['message'])}"


def _words(item: Mapping[str, Any]) -> Any:
    return item.get("text", item.get("image_url"))


def _same(one: Any, other: Any) -> bool:
    """By their one form, in which 1 is not true and not 1.0."""
    return canonical_json(one) == canonical_json(other)


def _alike(was: Any, now: Any) -> bool:
    """The same, where the record was not scrubbed: what stands in the place of a secret fits to anything."""
    one, other = canonical_json(was), canonical_json(now)
    if one == other:
        return True
    parts = MARKER.split(one.decode("utf-8", "replace"))
    return len(parts) > 1 and (
        re.fullmatch(".*?".join(map(re.escape, parts)), other.decode("utf-8", "replace"), re.DOTALL) is not None
    )
