"""Helpers in Python programs: how values are said, how arguments are given, and what a type checker makes of them."""

from collections.abc import AsyncIterator

import pytest

from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.engines.monty import MontyEngine
from cloister.engines.monty.interpreter import MontyInterpreter
from cloister.engines.monty.seat import Desk
from cloister.ports.engine import Failed, Finished, Program, Step, Turn, TypeCheck
from cloister.tools import Tool, ToolRegistry
from cloister.tools.catalog import render_catalog

pytestmark = pytest.mark.anyio


def get_order(order_id: str) -> dict[str, str]:
    return {"id": order_id}


CATALOG = render_catalog(ToolRegistry([Tool(get_order)]), Language.PYTHON)


class Driver:
    def __init__(self, interpreter: MontyInterpreter) -> None:
        self.interpreter = interpreter
        self.helped: list[tuple[str, tuple[Json, ...]]] = []

    def turn(self) -> Turn:
        def helper(name: str, given: tuple[Json, ...]) -> Json:
            self.helped.append((name, given))
            return None

        return Turn(0, 20_000, 10_000, lambda _stream, _text: None, CATALOG, helper=helper)

    async def run(self, code: str) -> Step:
        return await self.interpreter.start(Program(code), self.turn())

    async def faults(self, code: str) -> list[str]:
        found = await self.interpreter.check(Program(code), TypeCheck.STRICT, self.turn(), starting=False)
        return [diagnostic.message for diagnostic in found.diagnostics]

    async def said(self, code: str) -> Json:
        step = await self.run(code)
        assert isinstance(step, Finished), step
        return self.helped[-1][1][0]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[MontyEngine]:
    async with MontyEngine(capacity=2) as engine:
        yield engine


@pytest.fixture
async def session(engine: MontyEngine) -> AsyncIterator[Driver]:
    interpreter = await engine.open(SessionLimits())
    yield Driver(interpreter)
    await interpreter.close()


# -- values -----------------------------------------------------------------------------------------------------------

KINDS = {
    "(1, 'a')": '[1, "a"]',
    "{3}": "[3]",
    "b'ab'": "b'ab'",
    "[b'ab']": "[b'ab']",
    "float('nan')": "nan",
    "[float('inf'), None, True]": "[inf, null, true]",
    "10 ** 6000": "<an integer of 19932 bits>",
    "{1: 'x', None: 'y'}": '{"1": "x", "null": "y"}',
    "{(1, 2): 'x'}": '{[1, 2]: "x"}',
    "{'a': ValueError('b')}": "{\"a\": ValueError('b')}",
    "K()": "K(x=1, y=[2])",
    "[K()]": "[K(x=1, y=[2])]",
    "D(5)": "D(n=5)",
    "datetime.date(2024, 1, 2)": "2024-01-02",
    "datetime.datetime(2024, 1, 2, 3)": "2024-01-02T03:00:00",
    "[datetime.date(2024, 1, 2), b'']": "[2024-01-02, b'']",
    "datetime.timedelta(hours=1)": "1:00:00",
    "Decimal('1.50')": "1.50",
    "pathlib.Path('/a/b')": "/a/b",
    "len": "<function len>",
    "ValueError": "<class 'ValueError'>",
    "KeyError('k')": "KeyError: k",
    "{'ä': 'ö'}": '{"ä": "ö"}',
    "circle": '[1, "[...]"]',
    "[circle, b'']": "[[1, \"[...]\"], b'']",
}
START = """
import datetime, pathlib
from decimal import Decimal
from dataclasses import dataclass
class K:
    def __init__(self):
        self.x = 1
        self.y = [2]
@dataclass
class D:
    n: int
circle = [1]
circle.append(circle)
"""


@pytest.mark.parametrize(("code", "said"), KINDS.items(), ids=KINDS)
async def test_value_is_said_in_one_way(session: Driver, code: str, said: str) -> None:
    assert await session.said(f"{START}\ntext({code})") == said


async def test_deep_value_that_json_cannot_say_is_cut(session: Driver) -> None:
    written = await session.said("v = [b'']\nfor i in range(100):\n    v = [v]\ntext(v)")
    assert written == "[" * 51 + "..." + "]" * 51


async def test_wide_value_that_json_cannot_say_is_cut(session: Driver) -> None:
    written = await session.said("text([b'x' * 100] * 50_000)")
    assert isinstance(written, str)
    assert 1_000_000 < len(written) < 1_100_000
    assert written.endswith("...")


# -- arguments --------------------------------------------------------------------------------------------------------


async def test_arguments_are_given_by_position_and_by_name(session: Driver) -> None:
    await session.run("store('a', 1)\nstore('b', value=2)\nstore(value=3, key='c')\nstore(**{'key': 'd', 'value': 4})")
    assert session.helped == [("store", (key, number)) for number, key in enumerate("abcd", 1)]


@pytest.mark.parametrize("call", ["store('a', 1, value=2)", "store('a', valu=2)", "store('a', 1, 2)", "store(key='a')"])
async def test_arguments_that_are_not_those_are_an_error(session: Driver, call: str) -> None:
    step = await session.run(call)
    assert isinstance(step, Failed)
    assert step.error.message == "TypeError: store() takes key and value"
    assert session.helped == []


async def test_misspelt_helper_is_recognised(session: Driver) -> None:
    step = await session.run("notfy(1)")
    assert isinstance(step, Failed)
    assert step.error.hint == "did you mean `notify`?"


async def test_program_without_helpers_stays_at_its_desk(session: Driver) -> None:
    await session.run("1 + 1")
    assert isinstance(session.interpreter._seat, Desk)  # pyright: ignore[reportPrivateUsage]


# -- exit -------------------------------------------------------------------------------------------------------------


async def test_program_may_catch_its_exit_by_name_like_anywhere(session: Driver) -> None:
    step = await session.run("try:\n    exit()\nexcept SystemExit:\n    text('caught')\n5")
    assert isinstance(step, Finished)
    assert step.value == 5


async def test_cell_that_left_does_not_hide_the_next_one_from_the_checker(session: Driver) -> None:
    for code in ("x: int = 1\nexit()", "y = 2\nraise SystemExit"):
        assert isinstance(await session.run(code), Finished)
        assert await session.faults("x + 1\nnope") == ["Name `nope` used when not defined"]


# -- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "text('a')\ntext(value=[1])\nnotify(b'x')\nstore('k', {'a': 1})\nv = load('k')\nv + 1\nyield_control()",
        "image('data:')\nimage({'data': 'x'})\nimage(await get_order('A'))",
        "text = 'abc'\ntext.upper()",
        "for text in ['a']:\n    text.upper()",
        "store = {}\nstore['a'] = 1",
        "load: float = 0.5\nload + 1",
        "def image(n: int) -> int:\n    return n\nimage(5) + 1",
        "x: int | None = load('k')\nif x is None:\n    exit()\nx + 1",
    ],
)
async def test_right_program_is_not_refused(session: Driver, code: str) -> None:
    assert await session.faults(code) == []


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("text()", "No argument provided for required parameter `value` of function `text`"),
        ("store(1, 2)", "Argument to function `store` is incorrect: Expected `str`, found `Literal[1]`"),
        ("exit(1)", "Too many positional arguments to function `exit`: expected 0, got 1"),
    ],
)
async def test_wrong_program_is_told_so(session: Driver, code: str, fault: str) -> None:
    assert await session.faults(code) == [fault]
