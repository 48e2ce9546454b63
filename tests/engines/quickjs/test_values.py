"""Values that cross: out of a program by `Finished.value` and `Call`, into it by inputs and settlements."""

import math
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.codes import Code
from cloister.core.errors import InvalidInput
from cloister.ports.engine import Failed, Finished, Returned, Suspended

from .conftest import Driver, Opener

pytestmark = pytest.mark.anyio


async def value_of(session: Driver, code: str, inputs: dict[str, Any] | None = None) -> Any:
    step = await session.run(code, inputs)
    assert isinstance(step, Finished), step
    return step.value


OUT: list[tuple[str, Any]] = [
    ("undefined", None),
    ("null", None),
    ("[undefined, , 1]", [None, None, 1]),
    ("({a: undefined, b: 1})", {"b": 1}),
    ("true", True),
    ("'text \\u0000 é 😀'", "text \0 é 😀"),
    ("9007199254740991", 2**53 - 1),
    ("1.5", 1.5),
    ("1e21", 1e21),
    ("2n ** 100n", 2**100),
    ("-(2n ** 100n)", -(2**100)),
    ("new Date(0)", "1970-01-01T00:00:00.000Z"),
    ("new Set([1, [2], 'x'])", [1, [2], "x"]),
    ("new Error('boom')", {"name": "Error", "message": "boom"}),
    ("class P { x = 1; #hidden = 2; get y() { return 3 } }; new P()", {"x": 1}),
    ("({toJSON() { return {a: 1} }})", {"a": 1}),
    ("[Object(1), Object('s'), Object(false)]", [1, "s", False]),
    ("({['__proto__']: 1})", {"__proto__": 1}),
    ("Object.assign(Object.create(null), {a: 1})", {"a": 1}),
    ("new Proxy({a: [1]}, {})", {"a": [1]}),
    ("'a\\ud800b'", "a\ufffdb"),
    ("({'\\udc00': '\\ud800'})", {"\ufffd": "\ufffd"}),
]


@pytest.mark.parametrize(("code", "value"), OUT, ids=[code for code, _ in OUT])
async def test_value_leaves_a_program_as_documented(session: Driver, code: str, value: Any) -> None:
    assert await value_of(session, code) == value


async def test_negative_zero_leaves_as_it_is(session: Driver) -> None:
    value = await value_of(session, "-0")
    assert math.copysign(1, value) == -1


async def test_integers_leave_as_integers(session: Driver) -> None:
    assert [type(item) for item in await value_of(session, "[1, 1.0, 0.5, 3n]")] == [int, int, float, int]


REFUSED: list[tuple[str, str, str]] = [
    ("NaN", Code.RESULT_NOT_SERIALIZABLE, "null"),
    ("({a: [1, -Infinity]})", Code.RESULT_NOT_SERIALIZABLE, "null"),
    ("() => 1", Code.RESULT_NOT_SERIALIZABLE, "data"),
    ("({a: {b: Math.max}})", Code.RESULT_NOT_SERIALIZABLE, "data"),
    ("[Symbol('s')]", Code.RESULT_NOT_SERIALIZABLE, "text"),
    ("new Map([[1, 2]])", Code.RESULT_NOT_SERIALIZABLE, "Object.fromEntries"),
    ("new Uint8Array(2)", Code.RESULT_NOT_SERIALIZABLE, "Array.from"),
    ("new ArrayBuffer(2)", Code.RESULT_NOT_SERIALIZABLE, "Array.from"),
    ("new Date(NaN)", Code.RESULT_NOT_SERIALIZABLE, "check"),
    ("[get_order({})]", Code.RESULT_NOT_SERIALIZABLE, "await"),
    ("/x/", Code.RESULT_NOT_SERIALIZABLE, "plain data"),
    ("const a = {}; a.b = [a]; a", Code.RESULT_NOT_SERIALIZABLE, "circular"),
    ("let v = []; for (let i = 0; i < 200; i++) v = [v]; v", Code.RESULT_TOO_LARGE, "summary"),
    ("let v = []; for (let i = 0; i < 60; i++) v = [v, v]; v", Code.RESULT_TOO_LARGE, "summary"),
    ("new Array(4294967295)", Code.RESULT_TOO_LARGE, "summary"),
    ("'x'.repeat(5e6)", Code.RESULT_TOO_LARGE, "summary"),
    ("new Array(100).fill('x'.repeat(1e5))", Code.RESULT_TOO_LARGE, "summary"),
    ("1n << 100000n", Code.RESULT_TOO_LARGE, "summary"),
]


@pytest.mark.parametrize(("code", "error", "hint"), REFUSED, ids=[code for code, _, _ in REFUSED])
async def test_value_that_json_cannot_say_is_refused_and_the_session_goes_on(
    session: Driver, code: str, error: str, hint: str
) -> None:
    step = await session.run(code)
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (error, False)
    assert hint in (step.error.hint or "")
    assert await value_of(session, "1") == 1


async def test_refusal_names_the_place(session: Driver) -> None:
    step = await session.run("({rows: [{}, {total: NaN, f() {}}]})")
    assert isinstance(step, Failed)
    assert "value.rows[1].f" in step.error.message or "NaN" in step.error.message


async def test_error_of_a_getter_is_the_programs_own(session: Driver) -> None:
    step = await session.run("({get a() { throw new TypeError('mine') }})")
    assert isinstance(step, Failed)
    assert (step.error.code, step.error.message) == (Code.RUNTIME_ERROR, "TypeError: mine")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**300), 2**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def as_javascript(value: Any) -> Any:
    """What JSON a value is once it was a JavaScript value: whole floats are integers there, index-like keys first."""
    match value:
        case float() if value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0":
            return int(value)
        case list():
            return [as_javascript(item) for item in cast("list[Any]", value)]
        case dict():
            return {key: as_javascript(item) for key, item in sorted(cast("dict[str, Any]", value).items())}
        case _:
            return value


async def test_values_come_back_as_they_went_in(open_session: Opener) -> None:
    session = await open_session()
    examples: list[Any] = []

    @settings(max_examples=150, deadline=None)
    @given(JSON)
    def collect(value: Any) -> None:
        examples.append(value)

    collect()
    for example in examples:
        session.names = frozenset({"echo"})
        step = await session.run("const was = await echo({x}); [x, was]", {"x": example})
        assert isinstance(step, Suspended), step
        assert repr(as_javascript(step.calls[0].kwargs)) == repr({"x": as_javascript(example)})
        step = await session.settle(Returned(1, example))
        assert isinstance(step, Finished)
        assert repr(as_javascript(step.value)) == repr([as_javascript(example)] * 2)


async def test_integers_that_a_number_cannot_hold_arrive_exact(session: Driver) -> None:
    big = {"a": [2**53, -(2**64), 2**53 - 1], "__proto__": {"b": 2**70}}
    code = "[typeof x.a[0], typeof x.a[1], typeof x.a[2], x.a[1] * 2n, Object.keys(x).length]"
    assert await value_of(session, code, {"x": big}) == ["bigint", "bigint", "number", -(2**65), 2]


async def test_incoming_keys_pollute_no_prototype(session: Driver) -> None:
    inputs = {"x": {"__proto__": {"polluted": True}, "constructor": 1}}
    assert await value_of(session, "[({}).polluted, Object.keys(x).length]", inputs) == [None, 2]


async def test_inputs_are_variables_and_replace_those_of_earlier_cells(session: Driver) -> None:
    await session.run("let order = 'old'; const total = 1")
    assert await value_of(session, "[order, total]", {"order": "new", "total": 2}) == ["new", 2]


async def test_half_a_surrogate_pair_can_go_in(session: Driver) -> None:
    assert await value_of(session, "x.length", {"x": "a\ud800b"}) == 3


async def test_input_that_json_cannot_say_is_the_hosts_mistake(session: Driver) -> None:
    with pytest.raises(InvalidInput):
        await session.run("x", {"x": float("nan")})
    assert await value_of(session, "1") == 1


async def test_largest_value_that_may_leave_does(session: Driver) -> None:
    session.cpu_ms = 20_000
    deep = "let v: any = []; for (let i = 0; i < 127; i++) v = [v]"
    assert isinstance(await session.run(f"{deep}; v"), Finished)
    assert isinstance(await session.run(f"{deep}; await get_order(v, v)"), Suspended)
    assert isinstance(await session.run("new Array(199_999).fill(1)"), Finished)
    step = await session.run("'x'.repeat((4 << 20) - 2)")
    assert isinstance(step, Finished)
    assert step.value == "x" * ((4 << 20) - 2)
