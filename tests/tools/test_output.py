"""Results: honest ones pass their own hint, others are found out, and what is no plain data is taken apart."""

import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import typing
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

import pytest
from hypothesis import given
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    model_serializer,
)

# Python 3.11: its own TypedDict does not tell pydantic which keys may be missing.
from typing_extensions import TypedDict

from cloister.core.errors import InvalidInput
from cloister.core.value import Json, ValueRefused, sized
from cloister.tools.contract import Violation
from cloister.tools.tool import Tool
from tests.core.json_values import json_values


class Order(BaseModel):
    id: str
    total: float = 0.0


class Special(Order):
    more: int = 1


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    order_id: str = Field(alias="orderId")
    lines: int = Field(default=1, serialization_alias="count")


class Excluding(BaseModel):
    a: int = 1
    hidden: str = Field(default="x", exclude=True)


class Computed(BaseModel):
    a: int = 1

    @computed_field
    @property
    def double(self) -> int:
        return self.a * 2


class WrittenFreely(BaseModel):
    a: int = 1

    @field_serializer("a")
    def write(self, value: int):
        return f"<{value}>"


class WrittenAsText(BaseModel):
    a: int = 1

    @model_serializer
    def write(self):
        return "text"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 1


class Numbers(RootModel[list[int]]): ...


class Tree(BaseModel):
    kids: "list[Tree]" = []


class Everything(BaseModel):
    took: datetime.timedelta = datetime.timedelta(seconds=5)
    data: bytes = b"abc"
    tags: set[int] = {1, 2}
    price: decimal.Decimal = decimal.Decimal("1.50")
    table: dict[int, str] = {1: "a"}
    days: dict[datetime.date, int] = {datetime.date(2026, 1, 2): 1}
    pair: tuple[int, str] = (1, "a")
    secret: SecretStr = SecretStr("a")
    queue: collections.deque[int] = collections.deque([1])
    anything: Any = decimal.Decimal("2")


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    start: Point
    skip: dataclasses.InitVar[int] = 0
    end: Point | None = None
    size: int = dataclasses.field(init=False, default=3)
    when: datetime.datetime = datetime.datetime(2026, 1, 2)


class Address(TypedDict):
    city: str
    street: NotRequired[str]


class Partial(TypedDict, total=False):
    city: str


class Pair(NamedTuple):
    a: int
    b: str = "x"


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    RED = "red"


class OldWord(str, enum.Enum):  # noqa: UP042 - the older form, whose str() is not its value
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
ID = uuid.UUID(int=5)
A = Order(id="a")
HONEST: list[tuple[Any, Any]] = [
    (int, 5),
    (int, 10**30),
    (int, 5.0),
    (float, 1),
    (float, 1.5),
    (bool, True),
    (str, "a"),
    (None, None),
    (Any, {"a": [1]}),
    (Any, A),
    (Any, [A, Point(1)]),
    (Any, {"a": (A, {"b": Point(1)})}),
    (object, 5),
    (JsonValue, {"a": [1]}),
    (typing.NoReturn, None),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (set[int], {1, 2}),
    (frozenset[str], frozenset("ab")),
    (collections.deque[int], collections.deque([1])),
    (Sequence[int], (1, 2)),
    (Iterable[int], [1, 2]),
    (Mapping[str, int], {"a": 1}),
    (dict[int, str], {1: "a"}),
    (dict[uuid.UUID, int], {ID: 1}),
    (dict[datetime.date, int], {NOW.date(): 1}),
    (dict[Word, int], {Word.RED: 1}),
    (dict[Colour, int], {Colour.RED: 1}),
    (dict[Annotated[int, Field(gt=0)], str], {1: "a"}),
    (dict[Literal["a"], int], {"a": 1}),
    (collections.Counter[str], collections.Counter("ab")),
    (datetime.datetime, NOW),
    (datetime.datetime, datetime.datetime(2026, 1, 2)),
    (datetime.datetime | None, NOW),
    (datetime.date, NOW.date()),
    (datetime.time, datetime.time(1, 2)),
    (datetime.timedelta, datetime.timedelta(hours=1)),
    (list[datetime.date], [NOW.date()]),
    (decimal.Decimal, decimal.Decimal("1.50")),
    (decimal.Decimal, decimal.Decimal("1E+5")),
    (dict[str, decimal.Decimal], {"a": decimal.Decimal(-0)}),
    (uuid.UUID, ID),
    (pathlib.Path, pathlib.Path("/a")),
    (bytes, b"abc"),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("1.1.1.1")),
    (Colour, Colour.RED),
    (Word, Word.RED),
    (OldWord, OldWord.RED),
    (Number, Number.ONE),
    (list[Colour], [Colour.RED]),
    (str, Word.RED),
    (Literal["a", 1], 1),
    (int | str, "a"),
    (Order, A),
    (Order, Special(id="a")),
    (Order | None, None),
    (Order | None, A),
    (list[Order], [A, Special(id="b")]),
    (dict[str, list[Order]], {"a": [A]}),
    (list, [A]),
    (dict, {"a": Point(1)}),
    (dict[str, Any], A),
    (list[Order | Point], [A, Point(1)]),
    (Aliased, Aliased(orderId="a")),
    (list[Aliased], [Aliased(orderId="a")]),
    (Excluding, Excluding()),
    (Computed, Computed()),
    (WrittenFreely, WrittenFreely()),
    (WrittenAsText, WrittenAsText()),
    (Open, Open.model_validate({"b": 2})),
    (Numbers, Numbers([1])),
    (Tree, Tree(kids=[Tree()])),
    (Everything, Everything()),
    (Point, Point(1)),
    (Line, Line(Point(1))),
    (Address, {"city": "Ulm"}),
    (Address, {"city": "Ulm", "street": "Gasse"}),
    (Partial, {}),
    (Pair, Pair(1)),
    (Annotated[int, Field(ge=0)], 5),
    (Annotated[list[int], Field(max_length=3)], [1]),
    (Annotated[str, "described"], "a"),
    (Awaitable[int], 5),
    (Coroutine[Any, Any, Order], A),
    ("Order", A),
]


def _tool(hint: Any) -> Tool:
    def handler() -> None: ...

    handler.__annotations__ = {"return": hint}
    return Tool(handler, name="it")


def _answer(tool: Tool, value: Any) -> Json:
    """As the gate does it."""
    try:
        return sized(value)[0]
    except ValueRefused:
        return sized(tool.unwrap(value))[0]


@pytest.mark.parametrize(("hint", "value"), HONEST)
def test_honest_result_fits_the_schema_of_its_own_hint(hint: Any, value: Any) -> None:
    made = _tool(hint)
    assert made.check_output(_answer(made, value)) is None


@pytest.mark.parametrize(
    ("hint", "value", "path"),
    [
        (int, "5", "$"),
        (float, "5", "$"),
        (str, None, "$"),
        (None, 5, "$"),
        (list[int], [1, "a"], "$[1]"),
        (tuple[int, str], (1,), "$"),
        (Literal["a"], "b", "$"),
        (Order, {"total": 1}, "$.id"),
        (dict[str, Order], {"a": {"id": 5}}, "$.a.id"),
        (Order | None, 5, "$"),
        (Address, {"street": "Gasse"}, "$.city"),
        (Colour, "blue", "$"),
        (Annotated[int, Field(ge=0)], -1, "$"),
        (Tree, {"kids": [{"kids": [5]}]}, "$.kids[0].kids[0]"),
        (Awaitable[int], "a", "$"),
    ],
)
def test_result_that_does_not_fit_its_hint_is_a_violation_with_its_place(hint: Any, value: Any, path: str) -> None:
    made = _tool(hint)
    violation = made.check_output(_answer(made, value))
    assert violation is not None
    assert violation.path == path


def test_aliases_are_written_as_the_schema_says() -> None:
    made = _tool(Aliased)
    assert _answer(made, Aliased(orderId="a")) == {"orderId": "a", "count": 1}
    assert set(made.capability.output_schema["properties"]) == {"orderId", "count"}
    assert _answer(_tool(Any), [Aliased(orderId="a")]) == [{"orderId": "a", "count": 1}]


def test_dataclass_without_a_hint_is_taken_apart_with_what_is_in_it() -> None:
    value = {"lines": [Line(Point(1)), (A,)]}
    point = {"x": 1, "y": 0}
    assert _answer(_tool(Any), value) == {
        "lines": [{"start": point, "end": None, "size": 3, "when": "2026-01-02T00:00:00"}, [{"id": "a", "total": 0.0}]]
    }


@pytest.mark.parametrize("value", [object(), [object()], decimal.Decimal(1), Order, b"a", [1j]])
def test_without_a_hint_nothing_is_guessed(value: Any) -> None:
    with pytest.raises(ValueRefused):
        _answer(_tool(Any), value)


def test_part_that_is_shared_a_million_times_is_taken_apart_once() -> None:
    value: Any = [A]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(ValueRefused, match="parts"):
        _answer(_tool(Any), value)


# -- schemas of the result ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "schema"),
    [(None, {"type": "null"}), (Any, {}), (list[int], {"type": "array", "items": {"type": "integer"}})],
)
def test_result_s_hint_becomes_the_output_schema(hint: Any, schema: Any) -> None:
    assert _tool(hint).capability.output_schema == schema


def test_without_a_hint_every_result_is_allowed() -> None:
    assert Tool(lambda: 1, name="it").capability.output_schema == {}
    assert Tool(lambda: 1, name="it").check_output({"a": [1]}) is None


def test_given_schema_counts_instead_of_the_hint() -> None:
    def handler() -> dict[str, Any]: ...

    made = Tool(handler, output_schema={"type": "object", "required": ["a"]})
    assert made.capability.output_schema == {"type": "object", "required": ["a"]}
    assert made.check_output({}) == Violation("is missing", "$.a")
    assert made.check_output({"a": 1}) is None


def test_given_schema_that_is_empty_lets_everything_pass() -> None:
    def handler() -> int: ...

    assert Tool(handler, output_schema={}).check_output("a") is None


def test_given_schema_is_checked_when_declared() -> None:
    with pytest.raises(InvalidInput, match="the output schema of tool 'it'"):
        Tool(lambda: 1, name="it", output_schema={"type": "strnig"})


class Opaque: ...


@pytest.mark.parametrize("hint", [Opaque, list[Opaque], Callable[[int], int], "Nowhere"])
def test_result_that_has_no_schema_is_refused_with_the_fix(hint: Any) -> None:
    with pytest.raises(InvalidInput, match="'it'") as refusal:
        _ = _tool(hint).capability
    assert refusal.value.hint


OUTPUTS = [_tool(hint) for hint in (int, Order, Tree, Order | None, dict[str, Order], Address, Any, None)]


@given(json_values)
def test_any_json_fits_or_is_a_violation(value: Json) -> None:
    for made in OUTPUTS:
        violation = made.check_output(value)
        assert violation is None or violation.path.startswith("$")
