"""The gate, stage by stage: what is refused, with which code, and what is on record afterwards."""

import asyncio
import dataclasses
import datetime
import enum
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import digest_json
from cloister.core.limits import CapabilityLimits
from cloister.gate import Budget, Outcome
from cloister.ports.engine import Call, Raised, Returned
from cloister.tools import Tool, ToolError
from tests.gate.lab import Lab

SECRET = "db-password-hunter2"

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="cloister.gate")


async def _handle(
    handler: Callable[..., Any],
    *args: Any,
    name: str = "it",
    limits: CapabilityLimits | None = None,
    budget: Budget | None = None,
    call: Call | None = None,
    **kwargs: Any,
) -> Outcome:
    lab = Lab([Tool(handler, name="it", side_effect="read", limits=limits)], budget=budget or Budget(9, 9))
    passed = await lab.pass_call(call or Call(1, name, args, kwargs))
    assert isinstance(passed, Outcome)
    return passed


def _error(outcome: Outcome) -> ErrorObject:
    assert isinstance(outcome.settlement, Raised)
    record, error = _record(outcome), outcome.settlement.error
    # How a call is written differs from language to language, so that hint is not on record.
    assert record.error in (error, replace(error, hint=None))
    assert record.response_digest is None
    assert len(record.request_digest) == 64
    return error


def _record(outcome: Outcome) -> ExternalCallRecord:
    assert outcome.record is not None
    return outcome.record


def _value(outcome: Outcome) -> Any:
    assert isinstance(outcome.settlement, Returned)
    assert _record(outcome).status is CallStatus.OK
    return outcome.settlement.value


async def double(n: int) -> int:
    return n * 2


# -- a call that passes -------------------------------------------------------------------------------------------


async def test_call_that_passes_is_settled_with_the_tool_s_value() -> None:
    outcome = await _handle(double, 21)
    assert outcome.settlement == Returned(1, 42)


async def test_call_that_passes_is_on_record_with_both_digests() -> None:
    record = _record(await _handle(double, n=21))
    assert record.id.startswith("cal_")
    assert (record.name, record.side_effect, record.status) == ("it", "read", CallStatus.OK)
    assert record.request_digest == digest_json(["it", {"n": 21}])
    assert record.response_digest == digest_json(42)
    assert record.error is None


async def test_same_request_has_the_same_digest_and_another_has_another() -> None:
    first, again, other = [_record(await _handle(double, n)).request_digest for n in (1, 1, 2)]
    assert first == again != other


async def test_settlement_carries_the_call_s_number() -> None:
    outcome = await _handle(double, call=Call(7, "it", (1,)))
    assert outcome.settlement.number == 7


# -- 1 resolve ----------------------------------------------------------------------------------------------------


async def test_unknown_tool_is_refused_with_the_nearest_name() -> None:
    async def get_order() -> None: ...

    error = _error(await Lab([get_order]).call("get_ordr"))
    assert error.code == "UNKNOWN_TOOL"
    assert error.hint == "did you mean `get_order`?"


async def test_unknown_tool_that_is_like_no_other_has_no_guess() -> None:
    assert _error(await _handle(double, name="zzz")).hint is None


async def test_unknown_tool_costs_no_budget() -> None:
    budget = Budget(1, 1)
    await _handle(double, name="zzz", budget=budget)
    assert budget.left == 1


# -- 2 shape and size ---------------------------------------------------------------------------------------------


async def test_value_that_may_not_cross_is_refused_as_the_engine_said() -> None:
    refused = ErrorObject("INVALID_ARGUMENTS", "a function cannot be sent", "send data")
    assert _error(await _handle(double, call=Call(1, "it", refused=refused))) == refused


async def test_request_that_is_too_large_never_reaches_the_tool() -> None:
    reached: list[str] = []

    def take(text: str) -> None:
        reached.append(text)

    call = Call(1, "it", ("a" * 200,), size=202)
    error = _error(await _handle(take, call=call, limits=CapabilityLimits(max_request_bytes=100)))
    assert error.code == "INVALID_ARGUMENTS"
    assert "100" in error.message
    assert reached == []


# -- 3 bind -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "path"), [((), {}, "$.n"), (("x",), {}, "$.n"), ((1,), {"m": 2}, "$.m"), ((1, 2), {}, "$")]
)
async def test_arguments_that_do_not_fit_are_refused_with_path_and_signature(
    args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> None:
    error = _error(await _handle(double, *args, **kwargs))
    assert error.code == "INVALID_ARGUMENTS"
    assert path in error.message
    assert error.hint == "it(n: int) -> int"


async def test_validator_of_the_host_that_breaks_says_nothing_to_the_program() -> None:
    def look_up(key: str) -> str:
        raise KeyError(SECRET)

    async def handler(key: Annotated[str, AfterValidator(look_up)]) -> None: ...

    error = _error(await _handle(handler, "a"))
    assert error.code == "TOOL_ERROR"
    assert SECRET not in str(error)


# -- 4 budget -----------------------------------------------------------------------------------------------------


async def test_call_beyond_the_budget_is_refused_and_never_reaches_the_tool() -> None:
    reached: list[int] = []
    budget = Budget(2, 2)

    async def note(n: int) -> None:
        reached.append(n)

    outcomes = [await _handle(note, n, budget=budget) for n in range(3)]
    error = _error(outcomes[2])
    assert error.code == "EXTERNAL_CALLS_EXCEEDED"
    assert "2 calls" in error.message
    assert reached == [0, 1]


async def test_refused_arguments_cost_no_budget() -> None:
    budget = Budget(1, 1)
    await _handle(double, "x", budget=budget)
    assert budget.left == 1


# -- 9 dispatch ---------------------------------------------------------------------------------------------------


class Opaque(Exception):
    """An exception of the host's own making."""


@pytest.mark.parametrize(
    "raised",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        Opaque(SECRET),
        TimeoutError(SECRET),
        OSError(5, SECRET),
        StopIteration(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_host_s_exception_reaches_the_program_as_a_bare_tool_error(raised: Exception, kind: str) -> None:
    def fails() -> None:
        raise raised

    async def fails_later() -> None:
        raise raised

    outcome = await _handle(fails if kind == "sync" else fails_later)
    error = _error(outcome)
    assert (error.code, error.message, error.hint) == ("TOOL_ERROR", "`it` failed", None)
    assert _record(outcome).status is CallStatus.ERROR


async def test_host_s_exception_is_logged_for_the_host(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="cloister.gate")

    async def fails() -> None:
        raise ValueError(SECRET)

    await _handle(fails)
    assert SECRET in caplog.text


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_tool_error_reaches_the_program_as_the_tool_said_it(kind: str) -> None:
    def fails() -> None:
        raise ToolError("OUT_OF_STOCK", "none left", "try tomorrow")

    async def fails_later() -> None:
        fails()

    error = _error(await _handle(fails if kind == "sync" else fails_later))
    assert error == ErrorObject("OUT_OF_STOCK", "none left", "try tomorrow")


async def test_tool_that_takes_too_long_is_cancelled_and_on_record_as_timeout() -> None:
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outcome = await _handle(waits, limits=CapabilityLimits(timeout_ms=1))
    assert _error(outcome).code == "TIMEOUT_TOOL"
    assert _record(outcome).status is CallStatus.TIMEOUT
    assert ended.is_set()


async def test_sync_tool_that_takes_too_long_is_left_alone() -> None:
    release = threading.Event()
    try:
        outcome = await _handle(lambda: release.wait(30), limits=CapabilityLimits(timeout_ms=1))
        assert _error(outcome).code == "TIMEOUT_TOOL"
    finally:
        release.set()


async def test_sync_tool_does_not_block_the_loop() -> None:
    """The tool waits for something that only the loop can do."""
    loop_ran = threading.Event()
    asyncio.get_running_loop().call_soon(loop_ran.set)

    def waits() -> bool:
        return loop_ran.wait(30)

    assert _value(await _handle(waits)) is True


async def test_two_sync_tools_run_side_by_side() -> None:
    both = threading.Barrier(2)

    def meet() -> bool:
        both.wait(30)
        return True

    outcomes = await asyncio.gather(_handle(meet), _handle(meet))
    assert [_value(outcome) for outcome in outcomes] == [True, True]


async def test_cancellation_reaches_an_async_tool() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(_handle(waits))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()


async def test_tool_that_cancels_itself_is_a_failed_tool_not_a_cancelled_run() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    assert _error(await _handle(gives_up)).code == "TOOL_ERROR"


async def test_object_with_an_async_call_is_awaited() -> None:
    class Adder:
        async def __call__(self, n: int) -> int:
            return n + 1

    assert _value(await _handle(Adder(), 1)) == 2


# -- 10 response --------------------------------------------------------------------------------------------------


class Model(BaseModel):
    id: str = "A"
    on: datetime.date = datetime.date(2026, 1, 2)


@dataclasses.dataclass
class Record:
    id: str = "A"
    parts: list[Model] = dataclasses.field(default_factory=lambda: [Model()])


class Colour(str, enum.Enum):  # noqa: UP042 - the older form, whose str() is not its value
    RED = "red"


MODEL = {"id": "A", "on": "2026-01-02"}
RECORD = {"id": "A", "parts": [MODEL]}


def model() -> Model:
    return Model()


def record() -> Record:
    return Record()


def no_hint():
    return Model()


def vague_hint() -> dict[str, Any]:
    return Model()  # pyright: ignore[reportReturnType]


def list_of_models() -> list[Model]:
    return [Model()]


def dict_of_records() -> dict[str, Record]:
    return {"a": Record()}


def hidden_model() -> dict[str, Any]:
    return {"a": [Model()]}


def colour() -> Colour:
    return Colour.RED


def pair() -> tuple[int, str]:
    return (1, "a")


@pytest.mark.parametrize(
    ("handler", "value"),
    [
        (model, MODEL),
        (record, RECORD),
        (no_hint, MODEL),
        (vague_hint, MODEL),
        (list_of_models, [MODEL]),
        (dict_of_records, {"a": RECORD}),
        (hidden_model, {"a": [MODEL]}),
        (colour, "red"),
        (pair, [1, "a"]),
    ],
)
async def test_result_arrives_as_plain_data(handler: Callable[..., Any], value: Any) -> None:
    assert _value(await _handle(handler)) == value


class Lazy(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(SECRET)

    def __iter__(self) -> Iterator[str]:
        return iter("a")

    def __len__(self) -> int:
        return 1


class Bytes(BaseModel):
    data: bytes = b"\xff"


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    "make",
    [object, lambda: [object()], lambda: float("nan"), Lazy, Bytes, _circle, lambda: print],
    ids=["object", "inside", "nan", "broken mapping", "bytes", "circle", "function"],
)
async def test_result_that_is_not_json_is_a_tool_error_without_details(make: Callable[[], Any]) -> None:
    outcome = await _handle(lambda: make())
    error = _error(outcome)
    assert (error.code, error.message) == ("TOOL_ERROR", "`it` returned what is not JSON")
    assert _record(outcome).status is CallStatus.ERROR


async def test_result_that_is_too_large_is_refused() -> None:
    outcome = await _handle(lambda: "a" * 200, limits=CapabilityLimits(max_response_bytes=100))
    error = _error(outcome)
    assert error.code == "RESULT_TOO_LARGE"
    assert "100" in error.message


async def test_result_of_exactly_the_bound_passes() -> None:
    assert _value(await _handle(lambda: "a" * 98, limits=CapabilityLimits(max_response_bytes=100))) == "a" * 98


async def test_coroutine_out_of_a_sync_tool_is_awaited_or_refused_but_never_lost() -> None:
    async def inner() -> int:
        return 5

    outcome = await _handle(lambda: inner())
    settled = outcome.settlement
    assert isinstance(settled, Raised) or settled.value == 5
