"""Values that cross: out as results and arguments, in as inputs and answers."""

from typing import Any, cast

from cloister.core.codes import Code
from cloister.ports.engine import Returned
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import Lab, Text, same

chapter = Chapter[Lab]()

# sentence, the program in both languages, its value
RESULTS: list[tuple[str, Text, Any]] = [
    ("null crosses", Text("None", "null"), None),
    ("true and false cross as booleans", Text("[True, False]", "[true, false]"), [True, False]),
    ("an integer crosses as an integer", Text("42", "42"), 42),
    ("a negative integer crosses", Text("-7", "-7"), -7),
    ("a fraction crosses", Text("0.1", "0.1"), 0.1),
    ("a very small and a very large number cross", Text("[5e-324, 1e308]", "[5e-324, 1e308]"), [5e-324, 1e308]),
    ("minus zero keeps its sign", Text("-0.0", "-0"), -0.0),
    ("an integer beyond 2^53 crosses exactly", Text("2**60 + 1", "2n**60n + 1n"), 2**60 + 1),
    ("an integer of a thousand digits crosses exactly", Text("10**1000", "10n**1000n"), 10**1000),
    ("text crosses", Text("'hello'", "'hello'"), "hello"),
    ("empty text crosses", Text("''", "''"), ""),
    ("text in many scripts crosses", Text("'häß 日本 🎉'", "'häß 日本 🎉'"), "häß 日本 🎉"),
    ("control characters in text cross", Text("'a\\x00b\\n\\t\"'", "'a\\x00b\\n\\t\"'"), 'a\x00b\n\t"'),
    ("an empty list crosses", Text("[]", "[]"), []),
    ("a list of mixed kinds crosses", Text("[1, 'a', None, 2.5]", "[1, 'a', null, 2.5]"), [1, "a", None, 2.5]),
    ("an empty object crosses", Text("{}", "({})"), {}),
    ("an object crosses", Text("{'a': 1, 'b': [2]}", "({a: 1, b: [2]})"), {"a": 1, "b": [2]}),
    ("numbers as keys become text", Text("{1: 'x'}", "({1: 'x'})"), {"1": "x"}),
    ("an odd key crosses", Text("{'__proto__': 1, '': 2}", "({['__proto__']: 1, '': 2})"), {"__proto__": 1, "": 2}),
    (
        "deep nesting within the bound crosses",
        Text("x = 1\nfor i in range(100): x = [x]\nx", "let x: unknown = 1; for (let i = 0; i < 100; i++) x = [x]; x"),
        None,
    ),
    ("a shared part crosses as often as it stands there", Text("a = [1]\n[a, a]", "const a = [1]; [a, a]"), [[1], [1]]),
    ("a set crosses as a list", Text("{1}", "new Set([1])"), [1]),
    (
        "a date crosses as ISO text",
        Text(
            "import datetime\ndatetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc).isoformat()[:19]",
            "new Date(Date.UTC(2026, 0, 2, 3, 4, 5)).toISOString().slice(0, 19)",
        ),
        "2026-01-02T03:04:05",
    ),
    ("a program without a last expression has no value", Text("x = 5", "let x = 5"), None),
    ("an empty program has no value", Text("", ""), None),
    ("a program of comments has no value", Text("# nothing", "// nothing"), None),
    ("the value is that of the last expression", Text("1\n2\n3", "1\n2\n3"), 3),
]

# sentence, the program, its code
REFUSED: list[tuple[str, Text, Code]] = [
    ("not a number is refused as a result", Text("float('nan')", "NaN"), Code.RESULT_NOT_SERIALIZABLE),
    ("infinity is refused as a result", Text("[float('inf')]", "[-Infinity]"), Code.RESULT_NOT_SERIALIZABLE),
    ("a function is refused as a result", Text("lambda: 1", "() => 1"), Code.RESULT_NOT_SERIALIZABLE),
    (
        "a function inside a list is refused",
        Text("[len, 1][:1] and [lambda: 1]", "[() => 1]"),
        Code.RESULT_NOT_SERIALIZABLE,
    ),
    (
        "a circular value is refused",
        Text("a = []\na.append(a)\na", "const a: any[] = []; a.push(a); a"),
        Code.RESULT_NOT_SERIALIZABLE,
    ),
    (
        "a value nested too deeply is refused",
        Text("x = 1\nfor i in range(300): x = [x]\nx", "let x: unknown = 1; for (let i = 0; i < 300; i++) x = [x]; x"),
        Code.RESULT_TOO_LARGE,
    ),
    (
        "a shared structure that explodes is refused",
        Text(
            "a = [1]\nfor i in range(60): a = [a, a]\na", "let a: any = [1]; for (let i = 0; i < 60; i++) a = [a, a]; a"
        ),
        Code.RESULT_TOO_LARGE,
    ),
    ("text of many megabytes is refused", Text("'x' * (9 << 20)", "'x'.repeat(9 << 20)"), Code.RESULT_TOO_LARGE),
    ("a list of many numbers is refused", Text("[0] * 300_000", "new Array(300000).fill(0)"), Code.RESULT_TOO_LARGE),
]

INPUTS: dict[str, Any] = {
    "null": None,
    "yes": True,
    "number": 3,
    "fraction": 2.5,
    "zero": -0.0,
    "large": 2**53 - 1,
    "words": "häß 🎉",
    "rows": [1, [2, {"a": None}]],
    "table": {"a": {"b": [True]}, "": 0},
}


def _expect(text: Text, value: Any) -> Any:
    async def check(lab: Lab) -> None:
        seen = await lab.run(text)
        if value is None and "range(100)" in text.python:
            depth, inner = 0, seen.value
            while isinstance(inner, list):
                depth, inner = depth + 1, cast("list[Any]", inner)[0]
            assert (depth, inner) == (100, 1)
            return
        assert same(seen.value, value), seen.value

    return check


def _refuse(text: Text, code: Code) -> Any:
    async def check(lab: Lab) -> None:
        interpreter = await lab.open()
        try:
            seen = await lab.start(interpreter, text)
            assert seen.error.code == code, seen.error
            assert not seen.fatal
            assert seen.error.hint
            # The program had ended well; only its value stays behind.
            after = await lab.start(interpreter, Text("1 + 1", "1 + 1"))
            assert after.value == 2
        finally:
            await interpreter.close()

    return check


for _sentence, _text, _value in RESULTS:
    chapter(_sentence)(_expect(_text, _value))
for _sentence, _text, _code in REFUSED:
    chapter(_sentence)(_refuse(_text, _code))


@chapter("inputs arrive as variables with their values and kinds")
async def _(lab: Lab) -> None:
    names = list(INPUTS)
    listed = ", ".join(names)
    seen = await lab.run(Text(f"[{listed}]", f"[{listed}]"), inputs=INPUTS)
    assert same(seen.value, [INPUTS[name] for name in names]), seen.value


@chapter("answers of calls arrive with their values and kinds")
async def _(lab: Lab) -> None:
    value: Any = [None, True, 3, 2.5, -0.0, "häß 🎉", {"a": [1, {"b": ""}]}]
    seen = await lab.run(Text("await echo()", "await tools.echo()"), answers=lambda call: Returned(call.number, value))
    assert same(seen.value, value), seen.value


@chapter("a large integer survives the way in and out")
async def _(lab: Lab) -> None:
    big = 2**70 + 3
    seen = await lab.run(
        Text("await echo()", "await tools.echo()"), answers=lambda call: Returned(call.number, [big, -big])
    )
    assert same(seen.value, [big, -big]), seen.value


@chapter("an answer cannot change what an object inherits")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "r = await echo()\n[r['__proto__']['x'], hasattr({}, 'x')]",
            "const r: any = await tools.echo(); [Object.keys(r), ({} as any).x === undefined]",
        ),
        answers=lambda call: Returned(call.number, {"__proto__": {"x": 1}}),
    )
    assert seen.value in ([1, False], [["__proto__"], True]), seen.value
