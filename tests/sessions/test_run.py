"""run and validate: what comes back, what is kept, and that bad input harms nothing."""

import asyncio
import os
import signal
from typing import Any

import pytest

from cloister import (
    CallStatus,
    CapabilityLimits,
    Cloister,
    RunStatus,
    Session,
    SessionLimits,
    Severity,
    Tool,
    ToolError,
    tool,
)
from tests.sessions.door import Door, codes, value

pytestmark = pytest.mark.anyio


@tool(side_effect="read")
async def get_order(order_id: str) -> dict[str, Any]:
    """Look up an order."""
    return {"id": order_id, "total": 12.5}


@tool
async def fail(code: str = "OUT_OF_STOCK") -> None:
    raise ToolError(code, "none left", "try tomorrow")


# -- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("1 + 1", 2),
        ("x = 5", None),
        ("", None),
        ("# only words", None),
        ("'é'", "é"),
        ("2 ** 100", 2**100),
        ("[1, 2.5, None, True, {'a': 'b'}]", [1, 2.5, None, True, {"a": "b"}]),
        ("(1, {2})", [1, [2]]),
        ("{1: 'a', None: 'b'}", {"1": "a", "null": "b"}),
        ("if True:\n    5", None),
    ],
)
async def test_value_of_a_cell_is_that_of_its_last_expression(session: Session, code: str, result: Any) -> None:
    made = await session.run(code)
    assert made.ok, made.error
    assert made.result == result


@pytest.mark.parametrize("code", ["float('nan')", "b'x'", "1j", "print", "object()", "a = []\na.append(a)\na"])
async def test_result_that_json_cannot_say_is_refused_and_the_session_goes_on(session: Session, code: str) -> None:
    await session.run("x = 1")
    result = await session.run(code)
    assert not result.ok
    assert result.result is None
    assert value(await session.run("x")) == 1


async def test_result_that_contains_itself_is_refused(session: Session) -> None:
    result = await session.run("a = []\na.append(a)\na")
    assert result.error is not None
    assert result.error.code == "RESULT_NOT_SERIALIZABLE"


async def test_result_that_would_be_huge_once_written_is_refused(session: Session) -> None:
    result = await session.run("a = [1]\nfor _ in range(30):\n    a = [a, a]\na")
    assert result.error is not None
    assert result.error.code in ("RESULT_TOO_LARGE", "MEMORY_EXCEEDED")
    assert result.status is RunStatus.RESOURCE_EXHAUSTED


async def test_inputs_are_variables_and_stay(session: Session) -> None:
    assert value(await session.run("[a, b]", inputs={"a": 1, "b": {"c": [None]}})) == [1, {"c": [None]}]
    assert value(await session.run("a")) == 1


async def test_printed_text_is_in_the_result_and_heard_as_it_comes(session: Session) -> None:
    heard: list[str] = []
    result = await session.run("print('a', 1)\nprint('b')", on_output=lambda _stream, text: heard.append(text))
    assert result.stdout == "a 1\nb\n"
    assert "".join(heard) == result.stdout


async def test_output_beyond_the_bound_is_cut_and_the_run_goes_on(session: Session) -> None:
    result = await session.run("print('é' * 40)\n7", limits={"max_stdout_bytes": 9})
    assert (value(result), result.stdout) == (7, "éééé")
    assert codes(result) == ["STDOUT_EXCEEDED"]
    assert result.diagnostics[0].severity is Severity.WARNING


async def test_result_has_ids_and_metrics(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order])
    result = await session.run("await get_order('A')\nsum(range(1000))")
    assert result.cell_id.startswith("cel_")
    assert len(result.cell_id) == 30
    assert [call.id[:4] for call in result.external_calls] == ["cal_"]
    assert result.metrics.external_calls_count == 1
    assert result.metrics.duration_ms > 0
    assert result.metrics.memory_peak_bytes > 0


async def test_no_two_cells_share_an_id(session: Session) -> None:
    made = [(await session.run(code)).cell_id for code in ("1", "(", "1/0", "2")]
    assert made == sorted(set(made))


# -- what goes wrong ----------------------------------------------------------------------------------------------

BIG = "#" + "x" * (1 << 20)
SELF: list[Any] = []
SELF.append(SELF)

BAD: list[tuple[dict[str, Any], str]] = [
    ({"code": 5}, "INVALID_INPUT"),
    ({"code": None}, "INVALID_INPUT"),
    ({"code": b"1"}, "INVALID_INPUT"),
    ({"code": BIG}, "INVALID_INPUT"),
    ({"code": "é" * (1 << 19) + "ab"}, "INVALID_INPUT"),
    ({"code": "'\ud800'"}, "SYNTAX_ERROR"),
    ({"code": "("}, "SYNTAX_ERROR"),
    ({"code": "1 +"}, "SYNTAX_ERROR"),
    ({"code": "\x00"}, "SYNTAX_ERROR"),
    ({"code": "def f():\n    yield 1"}, "UNSUPPORTED_FEATURE"),
    ({"code": "import subprocess"}, "UNSUPPORTED_FEATURE"),
    ({"code": "await get_ordr('A')"}, "UNKNOWN_TOOL"),
    ({"code": "1", "inputs": {"a": object()}}, "INVALID_INPUT"),
    ({"code": "1", "inputs": {"a": float("nan")}}, "INVALID_INPUT"),
    ({"code": "1", "inputs": {"a": SELF}}, "INVALID_INPUT"),
    ({"code": "1", "inputs": [1]}, "INVALID_INPUT"),
    ({"code": "1", "inputs": "text"}, "INVALID_INPUT"),
    ({"code": "1", "inputs": {"a b": 1}}, "INVALID_INPUT"),
    ({"code": "1", "inputs": {"": 1}}, "INVALID_INPUT"),
    ({"code": "1", "inputs": {"class": 1}}, "INVALID_INPUT"),
    ({"code": "1", "inputs": {1: 1}}, "INVALID_INPUT"),
    ({"code": "1", "limits": {"memory_mb": 65}}, "INVALID_LIMITS"),
    ({"code": "1", "limits": {"memory": 1}}, "INVALID_LIMITS"),
    ({"code": "1", "limits": {"wall_ms": True}}, "INVALID_LIMITS"),
    ({"code": "1", "limits": SessionLimits(wall_ms=5001)}, "INVALID_LIMITS"),
    ({"code": "1", "limits": 5}, "INVALID_LIMITS"),
    ({"code": "1", "timeout_ms": 0}, "INVALID_LIMITS"),
    ({"code": "1", "timeout_ms": -5}, "INVALID_LIMITS"),
    ({"code": "1", "timeout_ms": True}, "INVALID_LIMITS"),
    ({"code": "1", "timeout_ms": "5"}, "INVALID_LIMITS"),
    ({"code": "1", "timeout_ms": 1.5}, "INVALID_LIMITS"),
]


@pytest.mark.parametrize(("request_", "code"), BAD, ids=[f"{n}-{code}" for n, (_, code) in enumerate(BAD)])
async def test_bad_input_has_its_code_and_leaves_the_session_unharmed(
    session: Session, request_: dict[str, Any], code: str
) -> None:
    await session.run("x = 1")
    result = await session.run(**request_)
    assert result.error is not None
    assert (result.error.code, result.status) == (code, RunStatus.VALIDATION_ERROR)
    assert result.external_calls == ()
    assert value(await session.run("x")) == 1


@pytest.mark.parametrize(("request_", "code"), [(r, c) for r, c in BAD if set(r) <= {"code", "inputs"}][:12])
async def test_validate_finds_what_run_would_refuse(session: Session, request_: dict[str, Any], code: str) -> None:
    result = await session.validate(**request_)
    assert result.error is not None
    assert result.error.code == code


async def test_uncaught_exception_is_a_runtime_error_with_its_place(session: Session) -> None:
    result = await session.run("a = 1\nb = a / 0")
    assert result.status is RunStatus.RUNTIME_ERROR
    assert result.error is not None
    assert result.error.code == "RUNTIME_ERROR"
    assert "ZeroDivisionError" in result.error.message
    assert result.error.span is not None
    assert result.error.span.line == 2


async def test_name_that_is_not_there_stays_a_runtime_error(session: Session) -> None:
    result = await session.run("nowhere")
    assert result.error is not None
    assert (result.error.code, result.status) == ("RUNTIME_ERROR", RunStatus.RUNTIME_ERROR)
    assert "NameError" in result.error.message


async def test_unknown_tool_is_found_before_anything_happens(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order])
    result = await session.run("print('begun')\nx = 1\nawait get_ordr('A')")
    assert result.error is not None
    assert result.error.code == "UNKNOWN_TOOL"
    assert "get_order" in (result.error.hint or "")
    assert result.error.span is not None
    assert result.error.span.line == 3
    assert result.stdout == ""


async def test_span_points_into_this_cell_when_an_earlier_one_failed_too(session: Session) -> None:
    await session.run("def f():\n    return 1 / 0")
    result = await session.run("\n\nf()")
    assert result.error is not None
    assert result.error.span is not None
    assert result.error.span.line == 3


# -- what is kept -------------------------------------------------------------------------------------------------


async def test_functions_classes_and_values_stay_from_cell_to_cell(session: Session) -> None:
    await session.run("import math\nclass P:\n    def __init__(self, n):\n        self.n = n\np = P(3)")
    await session.run("def area():\n    return math.floor(p.n * 2.5)")
    assert value(await session.run("area()")) == 7


async def test_failed_cell_keeps_what_it_had_assigned(session: Session) -> None:
    result = await session.run("x = 1\ny = 2\n1 / 0\nz = 3")
    assert "ROLLED_BACK" not in codes(result)
    assert value(await session.run("[x, y]")) == [1, 2]
    missing = await session.run("z")
    assert missing.error is not None


@pytest.mark.parametrize(
    ("code", "limits", "stopped"),
    [
        ("x = 2\nwhile True:\n    pass", {"cpu_ms": 20}, "TIMEOUT_CPU"),
        ("x = 2\nimport time\ntime.sleep(60)", {"wall_ms": 30}, "TIMEOUT_WALL"),
        ("x = 2\ny = 'a' * 200_000_000", {}, "MEMORY_EXCEEDED"),
        ("x = 2\ndef f(n):\n    return f(n + 1)\nf(0)", {}, "STACK_OVERFLOW"),
        ("x = 2\nawait get_order('A')\nawait get_order('B')", {"max_external_calls": 1}, "EXTERNAL_CALLS_EXCEEDED"),
    ],
    ids=lambda part: part if isinstance(part, str) and part.isupper() else "",
)
async def test_cell_stopped_by_a_limit_leaves_nothing_and_says_so(
    cloister: Cloister, code: str, limits: dict[str, int], stopped: str
) -> None:
    session = await cloister.open_session(tools=[get_order])
    await session.run("x = 1")
    result = await session.run(code, limits=limits)
    assert result.error is not None
    assert result.error.code == stopped
    assert "ROLLED_BACK" in codes(result)
    assert value(await session.run("x")) == 1


@pytest.mark.parametrize(
    ("code", "limits", "stopped"),
    [
        ("while True:\n        pass", {"cpu_ms": 20}, "TIMEOUT_CPU"),
        ("y = 'a' * 200_000_000", {}, "MEMORY_EXCEEDED"),
        ("await get_order('A')\n    await get_order('B')", {"max_external_calls": 1}, "EXTERNAL_CALLS_EXCEEDED"),
    ],
    ids=lambda part: part if isinstance(part, str) and part.isupper() else "",
)
async def test_limit_cannot_be_caught_by_the_program(
    cloister: Cloister, code: str, limits: dict[str, int], stopped: str
) -> None:
    session = await cloister.open_session(tools=[get_order])
    result = await session.run(f"try:\n    {code}\nexcept BaseException:\n    pass\n'caught'", limits=limits)
    assert result.error is not None
    assert result.error.code == stopped


async def test_wall_time_covers_waiting_for_a_tool(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool], type_check="off")
    result = await session.run("await knock(n=1)", timeout_ms=1000)
    assert result.error is not None
    assert (result.error.code, result.status) == ("TIMEOUT_WALL", RunStatus.TIMEOUT)
    assert "knock" in result.error.message
    assert door.cancelled == [1]


async def test_message_of_a_wall_timeout_names_the_time_the_run_had(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[Door().tool], type_check="off")
    result = await session.run("await knock(n=1)", timeout_ms=123)
    assert result.error is not None
    assert "123 ms" in result.error.message


async def test_timeout_wider_than_the_session_s_is_refused(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[Door().tool], limits=SessionLimits(wall_ms=100), type_check="off")
    result = await session.run("await knock(n=1)", timeout_ms=60_000)
    assert result.error is not None
    assert result.error.code == "INVALID_LIMITS"
    assert result.external_calls == ()


async def test_narrowed_run_s_effects_are_kept(session: Session) -> None:
    await session.run("x = 1")
    assert value(await session.run("x += 1\nx", limits={"memory_mb": 32, "max_stack_depth": 50})) == 2
    assert value(await session.run("x += 1\nx")) == 3


async def test_narrowed_run_has_its_limits_and_the_next_one_has_not(session: Session) -> None:
    code = "def f(n):\n    return f(n - 1) if n else 0\nf(100)"
    narrow = await session.run(code, limits={"max_stack_depth": 20})
    assert narrow.error is not None
    assert narrow.error.code == "STACK_OVERFLOW"
    assert value(await session.run(code)) == 0


# -- tools --------------------------------------------------------------------------------------------------------


async def test_tool_is_called_and_on_record(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order])
    result = await session.run("o = await get_order(order_id='A7')\no['total'] * 2")
    assert value(result) == 25.0
    assert [(call.name, call.side_effect, call.status) for call in result.external_calls] == [
        ("get_order", "read", CallStatus.OK)
    ]


async def test_tool_of_a_namespace_is_imported_from_it(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[Tool(get_order.handler, namespace="shop")])
    result = await session.run("from shop import get_order\nawait get_order('A')")
    assert result.result == {"id": "A", "total": 12.5}
    assert [call.name for call in result.external_calls] == ["shop.get_order"]


async def test_caught_tool_error_lets_the_run_go_on(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[fail])
    result = await session.run("try:\n    await fail()\nexcept RuntimeError as e:\n    said = str(e)\nsaid")
    assert str(value(result)).startswith("OUT_OF_STOCK: none left")
    assert [call.status for call in result.external_calls] == [CallStatus.ERROR]


async def test_uncaught_tool_error_ends_the_run_with_the_tool_s_code_and_place(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[fail])
    result = await session.run("x = 1\nawait fail()")
    assert result.error is not None
    assert (result.error.code, result.error.message, result.error.hint) == ("OUT_OF_STOCK", "none left", "try tomorrow")
    assert result.status is RunStatus.RUNTIME_ERROR
    assert result.error.span is not None
    assert result.error.span.line == 2
    assert value(await session.run("x")) == 1


async def test_gathered_calls_are_under_way_together(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool])
    run = asyncio.create_task(session.run("import asyncio\nawait asyncio.gather(knock(n=1), knock(n=2), knock(n=3))"))
    await door.until_knocked(3)
    door.open()
    assert value(await run) == [1, 2, 3]


async def test_call_that_is_never_awaited_is_cancelled_and_on_record(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool])
    result = await session.run("knock(n=1)\n7")
    assert value(result) == 7
    assert "CALL_NOT_AWAITED" in codes(result)
    assert [(call.name, call.error and call.error.code) for call in result.external_calls] == [("knock", "CANCELLED")]
    assert door.arrived == []


async def test_call_of_a_gather_that_failed_is_cancelled_before_the_run_ends(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool, fail])
    result = await session.run("import asyncio\nawait asyncio.gather(knock(n=1), fail())")
    assert result.error is not None
    assert result.error.code == "OUT_OF_STOCK"
    assert door.cancelled == door.arrived == [1]
    assert [call.name for call in result.external_calls] == ["knock", "fail"]


async def test_tool_s_own_timeout_can_be_caught(cloister: Cloister) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    session = await cloister.open_session(tools=[Tool(never, limits=CapabilityLimits(timeout_ms=5))])
    result = await session.run("try:\n    await never()\nexcept RuntimeError as e:\n    said = str(e)[:12]\nsaid")
    assert value(result) == "TIMEOUT_TOOL"
    assert [call.status for call in result.external_calls] == [CallStatus.TIMEOUT]


async def test_tool_added_later_can_be_called_by_the_next_cell(cloister: Cloister) -> None:
    session = await cloister.open_session()
    before = await session.run("await get_order('A')")
    assert before.error is not None
    session.tools.register(get_order)
    assert value(await session.run("(await get_order('A'))['id']")) == "A"


async def test_tool_that_was_removed_cannot_be_called(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order])
    session.tools.remove("get_order")
    result = await session.run("await get_order('A')")
    assert result.error is not None
    assert result.error.code == "UNKNOWN_TOOL"


# -- checks -------------------------------------------------------------------------------------------------------


async def test_validate_runs_nothing(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool])
    result = await session.validate("x = 1\nprint('a')\nawait knock(n=1)")
    assert result.ok, result.error
    assert (result.stdout, door.arrived) == ("", [])
    missing = await session.run("x")
    assert missing.error is not None


async def test_validate_only_is_validate(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order])
    result = await session.run("await get_ordr('A')", validate_only=True)
    assert codes(result) == ["UNKNOWN_TOOL"]
    assert result.status is RunStatus.VALIDATION_ERROR


async def test_validate_knows_what_earlier_cells_defined(session: Session) -> None:
    await session.run("def helper():\n    return 1\nx = 5")
    assert (await session.validate("helper() + x", inputs={"k": 1})).diagnostics == ()


BAD_TYPE = "await get_order(order_id=5)"


async def test_type_error_is_a_warning_by_default_and_the_run_goes_on(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order])
    result = await session.run("def f() -> int:\n    return 'a'\n7")
    assert value(result) == 7
    assert [(found.code, found.severity) for found in result.diagnostics] == [("TYPE_ERROR", Severity.WARNING)]


async def test_type_error_stops_the_run_when_types_are_strict(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order], type_check="strict")
    result = await session.run(f"x = 1\n{BAD_TYPE}")
    assert result.error is not None
    assert (result.error.code, result.status) == ("TYPE_ERROR", RunStatus.VALIDATION_ERROR)
    assert result.external_calls == ()
    assert "get_order(order_id: str)" in (result.error.hint or "")


async def test_types_are_not_looked_at_when_they_are_off(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order], type_check="off")
    result = await session.run("def f() -> int:\n    return 'a'\n7")
    assert (value(result), result.diagnostics) == (7, ())


async def test_missing_await_is_found_with_the_hint_to_add_it(cloister: Cloister) -> None:
    session = await cloister.open_session(tools=[get_order])
    result = await session.run("o = get_order('A')\no['total']")
    hints = [found.hint or "" for found in result.diagnostics] + [(result.error and result.error.hint) or ""]
    assert any("add `await`" in hint for hint in hints)


# -- order and endings --------------------------------------------------------------------------------------------


async def test_runs_of_one_session_are_in_the_order_they_were_asked_for(session: Session) -> None:
    await session.run("log = []")
    await asyncio.gather(*(session.run(f"log.append({n})") for n in range(20)))
    assert value(await session.run("log")) == list(range(20))


async def test_second_run_waits_while_the_first_waits_for_a_tool(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool])
    first = asyncio.create_task(session.run("x = await knock(n=1)"))
    await door.until_knocked()
    second = asyncio.create_task(session.run("x"))
    door.open()
    assert value(await second) == 1
    assert first.done()


async def test_fifty_sessions_on_two_workers_keep_their_own_variables(cloister: Cloister) -> None:
    sessions = [await cloister.open_session(f"s{n}", type_check="off") for n in range(50)]
    await asyncio.gather(*(one.run("n = k", inputs={"k": n}) for n, one in enumerate(sessions)))
    for _ in range(2):
        await asyncio.gather(*(one.run("n += 100") for one in sessions))
    results = await asyncio.gather(*(one.run("n") for one in reversed(sessions)))
    assert [value(result) for result in reversed(results)] == [n + 200 for n in range(50)]


async def test_two_sessions_taking_turns_on_one_worker_keep_their_variables() -> None:
    async with Cloister(workers=1, type_check="off") as cloister:
        one, other = await cloister.open_session("one"), await cloister.open_session("other")
        await one.run("n = 0")
        await other.run("n = 1000")
        for _ in range(15):
            await asyncio.gather(one.run("n += 1"), other.run("n += 1"))
            await asyncio.gather(other.run("n += 1"), one.run("n += 1"))
        assert (value(await one.run("n")), value(await other.run("n"))) == (30, 1030)


async def test_cancelled_run_leaves_the_session_as_it_was_before_and_usable(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool])
    await session.run("x = 1")
    run = asyncio.create_task(session.run("x = 2\nawait knock(n=1)"))
    await door.until_knocked()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert door.cancelled == [1]
    assert value(await session.run("x")) == 1


async def test_run_cancelled_while_it_computes_leaves_the_session_usable(session: Session) -> None:
    await session.run("x = 1")
    printed = asyncio.Event()
    loop = asyncio.get_running_loop()
    run = asyncio.create_task(
        session.run(
            "x = 2\nprint('begun', flush=True)\nwhile True:\n    pass",
            on_output=lambda _stream, _text: loop.call_soon_threadsafe(printed.set) and None,
        )
    )
    await asyncio.wait_for(printed.wait(), 10)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert value(await session.run("x")) == 1


async def test_cancelling_a_run_in_line_does_not_hold_up_the_next(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool])
    first = asyncio.create_task(session.run("await knock(n=1)"))
    await door.until_knocked()
    second = asyncio.create_task(session.run("2"))
    third = asyncio.create_task(session.run("3"))
    await asyncio.sleep(0)
    second.cancel()
    door.open()
    assert value(await third) == 3
    assert value(await first) == 1


# -- dead workers -------------------------------------------------------------------------------------------------


def _kill(session: Session) -> None:
    assert session.worker_pid is not None
    os.kill(session.worker_pid, signal.SIGKILL)


async def test_namespace_is_the_same_after_its_worker_was_killed_between_two_cells(cloister: Cloister) -> None:
    door = Door()
    door.open()
    session = await cloister.open_session(tools=[door.tool])
    await session.run(
        "import random, time\na = [random.random(), time.time(), await knock(n=5)]\ndef f():\n    return a"
    )
    before = value(await session.run("f()"))
    _kill(session)
    first = await session.run("f()")
    # The cell that found its worker dead may say so; the next one knows everything.
    assert first.ok or (first.error is not None and first.error.code == "ENGINE_CRASHED")
    assert value(await session.run("f()")) == before
    assert door.arrived == [5]


async def test_worker_killed_while_it_computes_is_a_crash_and_rolled_back(session: Session) -> None:
    await session.run("x = 1")
    printed = asyncio.Event()
    loop = asyncio.get_running_loop()
    run = asyncio.create_task(
        session.run(
            "x = 2\nprint('begun', flush=True)\nwhile True:\n    pass",
            on_output=lambda _stream, _text: loop.call_soon_threadsafe(printed.set) and None,
        )
    )
    await asyncio.wait_for(printed.wait(), 10)
    _kill(session)
    result = await run
    assert result.error is not None
    assert (result.error.code, result.status) == ("ENGINE_CRASHED", RunStatus.RUNTIME_ERROR)
    assert "ROLLED_BACK" in codes(result)
    assert value(await session.run("x")) == 1


async def test_worker_killed_while_the_program_waits_for_a_tool_is_a_crash(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool])
    await session.run("x = 1")
    run = asyncio.create_task(session.run("x = await knock(n=2)"))
    await door.until_knocked()
    _kill(session)
    door.open()
    result = await run
    assert result.error is not None
    assert result.error.code == "ENGINE_CRASHED"
    assert value(await session.run("x")) == 1


async def test_session_in_use_has_a_worker_and_a_resting_one_may_have_none(cloister: Cloister) -> None:
    session = await cloister.open_session()
    assert session.worker_pid is None
    await session.run("1")
    assert session.worker_pid is not None


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_call_beside_one_that_failed_is_not_called_never_awaited(cloister: Cloister, language: str) -> None:
    door = Door()

    async def fail() -> None:
        await door.until_knocked()
        raise ToolError("NOPE", "no")

    code = {
        "python": "import asyncio\nawait asyncio.gather(knock(1), fail())",
        "typescript": "await Promise.all([tools.knock({n: 1}), tools.fail()])",
    }
    session = await cloister.open_session(f"beside_{language}", language=language, tools=[door.tool, Tool(fail)])
    result = await session.run(code[language])
    assert result.error is not None
    assert result.error.code == "NOPE"
    assert "CALL_NOT_AWAITED" not in codes(result)
