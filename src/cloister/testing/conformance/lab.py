"""A lab: drives one engine through its port, with scripted answers in place of a gate and a recorder for helpers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from cloister.core.diagnostic import ErrorObject
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.ports.engine import (
    Call,
    Catalog,
    Checked,
    Engine,
    Failed,
    Finished,
    Interpreter,
    Program,
    Raised,
    Returned,
    Settlement,
    Step,
    Suspended,
    Turn,
    TypeCheck,
)
from cloister.ports.helping import FILES, FILES_OBJECT, HELPERS, HelperRefused
from cloister.testing.conformance.disk import Disk

NOW_MS = 1_700_000_000_000
ROOMY = SessionLimits(wall_ms=20_000, cpu_ms=10_000)
_PYTHON_STUBS = """
from typing import Any, cast
async def get_order(order_id: str) -> dict[str, Any]: ...
async def echo(value: Any = None) -> Any: ...
async def fail() -> Any: ...
"""
CATALOG = Catalog(
    names=frozenset({"get_order", "echo", "fail", "shop.buy"}),
    stubs=_PYTHON_STUBS,
    modules={"shop": "from typing import Any\nasync def buy(item: str) -> Any: ...\n"},
    signatures={"get_order": "get_order(order_id: str) -> dict"},
    revision="conformance",
    mark="q7w3e9r5t1y8u2i6o4p0",
    helpers=frozenset(HELPERS),
)
_TYPESCRIPT_CATALOG = replace(CATALOG, helpers=CATALOG.helpers | {FILES_OBJECT})


@dataclass(frozen=True, slots=True)
class Text:
    """The same program in each language."""

    python: str
    typescript: str

    def of(self, language: Language) -> str:
        return self.python if language is Language.PYTHON else self.typescript


Answer = Callable[[Call], Settlement]


def answer(call: Call) -> Settlement:
    """The world of the suite: `echo` gives back, `get_order` finds, `fail` fails."""
    if call.kind == "timer":
        return Returned(call.number, None)
    if call.refused is not None:
        return Raised(call.number, call.refused)
    given = call.args[0] if call.args else next(iter(call.kwargs.values()), None)
    match call.name:
        case "echo":
            return Returned(call.number, given)
        case "get_order":
            return Returned(call.number, {"id": given, "total": 12.5})
        case "shop.buy":
            return Returned(call.number, f"bought {given}")
        case _:
            return Raised(call.number, ErrorObject("TOOL_ERROR", "it is broken", "try another one"))


@dataclass(slots=True)
class Seen:
    """What came of a program: its last step, all calls in the order they became known, what it printed, what it said
    to its helpers, and both of these in the order in which they came."""

    step: Step
    calls: list[Call] = field(default_factory=list[Call])
    printed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    limits: SessionLimits = ROOMY
    catalog: Catalog = CATALOG
    helped: list[tuple[str, tuple[Json, ...]]] = field(default_factory=list[tuple[str, tuple[Json, ...]]])
    heard: list[str] = field(default_factory=list[str])

    @property
    def value(self) -> Any:
        assert isinstance(self.step, Finished), self.step
        return self.step.value

    @property
    def error(self) -> ErrorObject:
        assert isinstance(self.step, Failed), self.step
        return self.step.error

    @property
    def fatal(self) -> bool:
        return isinstance(self.step, Failed) and self.step.fatal

    @property
    def suspended(self) -> Suspended:
        assert isinstance(self.step, Suspended), self.step
        return self.step

    def text(self, stream: str = "stdout") -> str:
        return "".join(text for name, text in self.printed if name == stream)


class Lab:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.language = engine.language
        # What programs stored.
        self.kept: dict[str, Json] = {}
        self.disk = Disk()

    def help(self, name: str, given: tuple[Json, ...]) -> Json:
        """The helpers of the suite: they keep what is stored, and refuse the key "wrong"."""
        if name in FILES:
            return self.disk(name, given)
        if given[:1] == ("wrong",):
            raise HelperRefused(f"{name}: no value may be called wrong")
        if name == "store":
            self.kept[str(given[0])] = given[1]
        return self.kept.get(str(given[0])) if name == "load" else None

    async def open(self, state: bytes | None = None, *, limits: SessionLimits = ROOMY, seed: int = 7) -> Interpreter:
        return await self.engine.open(limits, state, seed=seed)

    def turn(
        self,
        seen: Seen | None = None,
        *,
        limits: SessionLimits = ROOMY,
        now_ms: int = NOW_MS,
        catalog: Catalog = CATALOG,
    ) -> Turn:
        if catalog is CATALOG and self.language is Language.TYPESCRIPT:
            catalog = _TYPESCRIPT_CATALOG

        def sink(stream: Any, text: str) -> None:
            if seen is not None:
                seen.printed.append((stream, text))
                seen.heard.append(text)

        def helper(name: str, given: tuple[Json, ...]) -> Json:
            if seen is not None:
                seen.helped.append((name, given))
                seen.heard.append(name)
            return self.help(name, given)

        return Turn(now_ms, limits.wall_ms, limits.cpu_ms, sink, catalog, limits.max_external_calls, helper)

    async def start(
        self,
        interpreter: Interpreter,
        text: Text,
        *,
        inputs: Mapping[str, Any] | None = None,
        limits: SessionLimits = ROOMY,
        catalog: Catalog = CATALOG,
    ) -> Seen:
        """Start a program and stop at its first wait."""
        program = Program(text.of(self.language), inputs or {})
        seen = Seen(Finished(None), limits=limits, catalog=catalog)
        seen.step = await interpreter.start(program, self.turn(seen, limits=limits, catalog=catalog))
        seen.calls.extend(seen.step.calls)
        return seen

    async def settle(self, interpreter: Interpreter, seen: Seen, settlements: Sequence[Settlement]) -> Seen:
        turn = self.turn(seen, limits=seen.limits, catalog=seen.catalog)
        seen.step = await interpreter.resume(settlements, turn)
        seen.calls.extend(seen.step.calls)
        return seen

    async def finish(self, interpreter: Interpreter, seen: Seen, answers: Answer = answer) -> Seen:
        """Answer every call until the program ends."""
        pending = {call.number: call for call in seen.calls}
        while isinstance(seen.step, Suspended):
            waiting = [pending.pop(number) for number in sorted(seen.step.awaiting)]
            before = len(seen.calls)
            await self.settle(interpreter, seen, [answers(call) for call in waiting])
            pending |= {call.number: call for call in seen.calls[before:]}
        return seen

    async def run(
        self,
        *texts: Text,
        inputs: Mapping[str, Any] | None = None,
        limits: SessionLimits = ROOMY,
        answers: Answer = answer,
        catalog: Catalog = CATALOG,
    ) -> Seen:
        """Run programs one after the other in one fresh namespace; what the last one did comes back."""
        interpreter = await self.open(limits=limits)
        try:
            seen = Seen(Finished(None))
            for text in texts:
                seen = await self.start(interpreter, text, inputs=inputs, limits=limits, catalog=catalog)
                seen = await self.finish(interpreter, seen, answers)
            return seen
        finally:
            await interpreter.close()

    async def check(
        self, text: Text, *before: Text, types: TypeCheck = TypeCheck.WARN, catalog: Catalog = CATALOG
    ) -> Checked:
        """What a full check says of a program, after others ran."""
        interpreter = await self.open()
        try:
            for earlier in before:
                await self.finish(interpreter, await self.start(interpreter, earlier))
            turn = self.turn(catalog=catalog)
            return await interpreter.check(Program(text.of(self.language)), types, turn, starting=False)
        finally:
            await interpreter.close()


def same(left: Any, right: Any) -> bool:
    """Equal in value and in kind: 1 is not True, -0.0 is not 0.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right and (left != 0 or math.copysign(1, left) == math.copysign(1, right))
    if isinstance(left, list) and isinstance(right, list):
        lefts, rights = cast("list[Any]", left), cast("list[Any]", right)
        return len(lefts) == len(rights) and all(map(same, lefts, rights))
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(cast("Any", left)) is type(right) and left == right
