"""What a tool returns may be anything: too large, endless, circular, with methods that lie. Only that call fails."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, model_serializer

from cloister import CapabilityLimits, Cloister, SessionLimits, Tool

pytestmark = pytest.mark.anyio

LANGUAGES = ("python", "typescript")
# Many more than may cross, but not so many that a test that fails would not end.
MANY = 1_000_000
ALLOWED = 250_000
ON_THE_LOOP = 2_500


class Count:
    """How often somebody looked, and how often of that on the event loop."""

    looks = 0
    on_the_loop = 0

    @classmethod
    def numbers(cls, many: int = MANY) -> Iterator[int]:
        for number in range(many):
            cls.looks += 1
            cls.on_the_loop += threading.current_thread() is threading.main_thread()
            yield number


class EndlessObject(Mapping[str, int]):
    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return map(str, Count.numbers())

    def __getitem__(self, key: str) -> int:
        return 1


class EndlessList(list[int]):
    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        return Count.numbers()


class Breaks(list[int]):
    """A list that raises wherever it is looked at."""

    def __init__(self, error: BaseException) -> None:
        super().__init__([1])
        self.error = error

    def __len__(self) -> int:
        raise self.error

    def __iter__(self) -> Iterator[int]:
        raise self.error


class BreaksInside(Mapping[str, int]):
    """An object that breaks when its second key is asked for."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return iter(("a", "b"))

    def __getitem__(self, key: str) -> int:
        if key == "b":
            raise self.error
        return 1


class NoClass:
    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("who asks?")


class Yes:
    """Whatever it is asked for, it has."""

    def __getattr__(self, name: str) -> Any:
        return Yes()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return Yes()


@dataclass
class Link:
    to: Any = None


class Part(BaseModel):
    @model_serializer
    def write(self) -> int:
        Count.looks += 1
        return 1


class Holder(BaseModel):
    held: Any


def doubled(leaf: object, times: int = 60) -> list[Any]:
    made: list[Any] = [leaf]
    for _ in range(times):
        made = [made, made]
    return made


def linked(length: int) -> Link:
    made = Link()
    for _ in range(length):
        made = Link(made)
    return made


def ring() -> Link:
    made = Link()
    made.to = [made]
    return made


def circle() -> list[Any]:
    made: list[Any] = []
    made.append({"k": made})
    return made


TOO_LARGE, NOT_JSON = "RESULT_TOO_LARGE", "TOOL_ERROR"
RESULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "list that holds itself twice, sixty times over": (lambda: doubled(1), TOO_LARGE),
    "the same with something strange at the bottom": (lambda: doubled(Decimal(1)), TOO_LARGE),
    "ten megabytes": (lambda: "x" * 10_000_000, TOO_LARGE),
    "a little more than the limit": (lambda: "x" * 5000, TOO_LARGE),
    "a million numbers": (lambda: [1] * 1_000_000, TOO_LARGE),
    "huge integer": (lambda: 10**6000, TOO_LARGE),
    "not a number": (lambda: [float("nan")], NOT_JSON),
    "list that holds itself": (circle, NOT_JSON),
    "dataclass that holds itself": (ring, NOT_JSON),
    "five thousand dataclasses, one in the other": (lambda: linked(5000), TOO_LARGE),
    "half a surrogate pair": (lambda: "half \ud800", NOT_JSON),
    "half a surrogate pair as a key": (lambda: [{"\udfff": 1}], NOT_JSON),
    "endless generator": (Count.numbers, TOO_LARGE),
    "generator": (lambda: (n for n in range(3)), NOT_JSON),
    "object of the host": (object, NOT_JSON),
    "class of the host": (lambda: Link, NOT_JSON),
    "object that has everything": (Yes, NOT_JSON),
    "object without a class": (NoClass, NOT_JSON),
    "endless object": (EndlessObject, TOO_LARGE),
    "endless list": (EndlessList, TOO_LARGE),
    "list that breaks": (lambda: Breaks(RuntimeError("broken")), NOT_JSON),
    "list that exits": (lambda: Breaks(SystemExit(3)), NOT_JSON),
    "list that interrupts": (lambda: [Breaks(KeyboardInterrupt())], NOT_JSON),
    "list that cancels": (lambda: {"k": Breaks(asyncio.CancelledError())}, NOT_JSON),
    "object that breaks in the middle": (lambda: BreaksInside(ValueError("broken")), NOT_JSON),
    "object that exits in the middle": (lambda: BreaksInside(GeneratorExit()), NOT_JSON),
}
PROGRAMS = {
    "python": "import asyncio\nasync def caught(one):\n    try:\n        return await one\n"
    "    except RuntimeError as e:\n        return str(e).split(':')[0]\n"
    "await asyncio.gather(caught(fine()), caught(odd()), caught(fine()))",
    "typescript": "const caught = async (one: Promise<any>) => { try { return await one } catch (e: any) "
    "{ return e.code } }; await Promise.all([caught(fine()), caught(odd()), caught(fine())])",
}
ROOMY = SessionLimits(wall_ms=30_000)


def tools(odd: Callable[[], Any], hint: Any = Any) -> list[Tool]:
    async def fine() -> str:
        return "fine"

    async def give() -> Any:
        return odd()

    give.__annotations__["return"] = hint
    return [Tool(fine), Tool(give, name="odd", limits=CapabilityLimits(max_response_bytes=4000))]


@pytest.fixture(scope="module")
async def cloister(anyio_backend: str) -> AsyncIterator[Cloister]:
    async with Cloister(workers=2, limits=ROOMY, snapshot_key=b"k" * 32) as cloister:
        yield cloister


@pytest.fixture(autouse=True)
async def _clean(cloister: Cloister) -> AsyncIterator[None]:
    Count.looks = Count.on_the_loop = 0
    yield
    await cloister.destroy_session("here")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("result", RESULTS)
async def test_only_the_call_with_the_bad_result_fails(
    cloister: Cloister, result: str, language: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    odd, code = RESULTS[result]
    session = await cloister.open_session("here", language=language, tools=tools(odd))
    ran = await session.run(PROGRAMS[language])
    assert ran.ok, ran.error
    assert ran.result == ["fine", code, "fine"]
    assert [record.status for record in ran.external_calls] == ["ok", "error", "ok"]
    assert Count.looks < ALLOWED
    assert Count.on_the_loop < ON_THE_LOOP
    assert (await session.call("odd")).external_calls[0].error == ran.external_calls[1].error


@pytest.mark.parametrize(
    ("odd", "hint"),
    [
        (Count.numbers, Iterable[int]),
        (lambda: [Part(), Count.numbers()], list[Any]),
        (lambda: {"k": Part(), "l": Count.numbers()}, dict[str, Any]),
        (lambda: doubled(Part(), 18), list[Any]),
        (lambda: iter(doubled(Part(), 18)), Iterable[Any]),
        (lambda: Holder(held=doubled(Part(), 18)), Holder),
        (lambda: Link(doubled(Part(), 18)), Link),
    ],
    ids=[
        "generator",
        "in a list",
        "in an object",
        "bomb",
        "bomb that is generated",
        "bomb in a model",
        "in a dataclass",
    ],
)
async def test_result_with_a_hint_is_not_taken_apart_for_ever(
    cloister: Cloister, odd: Callable[[], Any], hint: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    session = await cloister.open_session("here", tools=tools(odd, hint))
    ran = await session.run(PROGRAMS["python"])
    assert ran.result in (["fine", TOO_LARGE, "fine"], ["fine", NOT_JSON, "fine"]), ran.error
    assert Count.looks < ALLOWED
    assert Count.on_the_loop < ON_THE_LOOP


async def test_generator_with_a_hint_and_an_end_is_a_list(cloister: Cloister) -> None:
    session = await cloister.open_session("here", tools=tools(lambda: (n * n for n in range(4)), Iterable[int]))
    assert (await session.run("await odd()")).result == [0, 1, 4, 9]
