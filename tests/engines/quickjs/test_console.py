import pytest

from cloister.ports.engine import Finished

from .conftest import Driver

pytestmark = pytest.mark.anyio

SHOWN: list[tuple[str, str]] = [
    ("'text', 1, null, undefined, true", "text 1 null undefined true"),
    ("{a: 1, 'b-c': [1, 'x'], d: {}}", "{ a: 1, 'b-c': [ 1, 'x' ], d: {} }"),
    ("[[[[1]]]]", "[ [ [ [Array] ] ] ]"),
    ("new Map([['a', 1]]), new Set([1])", "Map(1) { 'a' => 1 } Set(1) { 1 }"),
    ("new Date(0), /x/g, 5n, -0, Symbol('s')", "1970-01-01T00:00:00.000Z /x/g 5n -0 Symbol(s)"),
    ("() => 1, class A {}, function f() {}", "[Function (anonymous)] [class: A] [Function: f]"),
    ("new (class P { x = 1 })", "P { x: 1 }"),
    ("{get a() { throw 1 }}", "{ a: [Getter/Setter] }"),
    ("'%s is %d%%', 'x', 5, 'more'", "x is 5% more"),
    ("'100%'", "100%"),
    ("'it\\'s'", "it's"),
    ('["it\'s"]', '[ "it\'s" ]'),
    ("'\\ud800'", "\ufffd"),
]


@pytest.mark.parametrize(("given", "line"), SHOWN, ids=[given for given, _ in SHOWN])
async def test_values_are_shown_as_node_shows_them(session: Driver, given: str, line: str) -> None:
    await session.run(f"console.log({given})")
    assert session.stdout == line + "\n"


async def test_streams_keep_their_order(session: Driver) -> None:
    await session.run("console.log(1); console.error(2); print(3); console.warn(4); console.info(5)")
    assert session.printed == [
        ("stdout", "1\n"),
        ("stderr", "2\n"),
        ("stdout", "3\n"),
        ("stderr", "4\n"),
        ("stdout", "5\n"),
    ]


async def test_error_is_shown_with_its_stack(session: Driver) -> None:
    await session.run("console.log(new TypeError('no'))")
    assert session.stdout.startswith("TypeError: no\n    at <eval> (cell:1:")


async def test_circular_and_endless_values_are_shown_within_bounds(session: Driver) -> None:
    await session.run("const a: any = {n: 1}; a.self = a; console.log(a)")
    assert session.stdout == "{ n: 1, self: [Circular *] }\n"
    session.printed.clear()
    await session.run("console.log(new Array(1e6).fill('x'.repeat(1e4)))")
    assert len(session.stdout) < 1 << 20
    assert "more items" in session.stdout


async def test_endless_line_is_cut(session: Driver) -> None:
    await session.run("console.log('x'.repeat(3e6))")
    assert len(session.stdout) < (1 << 20) + 100
    assert session.stdout.endswith("more characters\n")


async def test_flood_is_dropped_and_said_so(session: Driver) -> None:
    session.cpu_ms = 20_000
    step = await session.run("const line = 'x'.repeat(1 << 19); for (let i = 0; i < 40; i++) console.log(line); 'done'")
    assert isinstance(step, Finished)
    assert step.value == "done"
    assert len(session.stdout) <= 8 << 20
    assert "bytes of output were dropped" in session.stderr


async def test_printed_text_survives_a_limit(session: Driver) -> None:
    session.cpu_ms = 100
    await session.run("console.log('before'); while (true) {}")
    assert session.stdout == "before\n"
