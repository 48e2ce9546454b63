"""Helpers: what a program says to its host within a step."""

from dataclasses import replace

from cloister.core.codes import Code
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.ports.engine import Finished, Returned, TypeCheck
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import CATALOG, Lab, Text, answer, same

chapter = Chapter[Lab]()

WITHOUT = replace(CATALOG, helpers=frozenset[str](), revision="without helpers")


def both(code: str) -> Text:
    return Text(code, code)


def caught(call: str) -> Text:
    """What a program makes of an error: its kind and its message."""
    return Text(
        f"try:\n    {call}\n    got = 'none'\nexcept Exception as e:\n    got = type(e).__name__ + ': ' + str(e)\ngot",
        f"let got = 'none'; try {{ {call} }} catch (e: any) {{ got = e.name + ': ' + e.message }} got",
    )


def kind_of(lab: Lab, python: str) -> str:
    """The name of a refusal in each language."""
    return python if lab.language is Language.PYTHON else "TypeError"


async def said(lab: Lab, value: Text) -> str:
    """What `text` and `notify` make of a value, which must be the same."""
    program = Text(
        f"v = {value.python}\ntext(v)\nnotify(v)\n'on'", f"const v: any = {value.typescript}; text(v); notify(v); 'on'"
    )
    seen = await lab.run(program)
    assert seen.value == "on"
    (_, first), (_, second) = seen.helped
    assert [name for name, _ in seen.helped] == ["text", "notify"]
    assert first == second
    assert isinstance(first[0], str)
    return first[0]


# -- text and notify --------------------------------------------------------------------------------------------------


@chapter("text is given on as it is")
async def _(lab: Lab) -> None:
    for code, text in ((r"'a\nb'", "a\nb"), ("''", ""), ("'äöü €'", "äöü €"), ("'\"x\"'", '"x"'), ("'[...]'", "[...]")):
        assert await said(lab, both(code)) == text


@chapter("what JSON can say is given on as JSON")
async def _(lab: Lab) -> None:
    assert await said(lab, Text("None", "null")) == "null"
    assert await said(lab, Text("True", "true")) == "true"
    assert await said(lab, both("42")) == "42"
    assert await said(lab, both("1.5")) == "1.5"
    for code in ("[1, 'ä', [2.5, {}]]", '{"a": {"b": [1, 2]}, "c": "x"}'):
        written = await said(lab, both(code))
        assert written.replace(", ", ",").replace(": ", ":") == code.replace("'", '"').replace(", ", ",").replace(
            ": ", ":"
        )


@chapter("an error is given on as its name and message")
async def _(lab: Lab) -> None:
    assert await said(lab, Text("ValueError('no way')", "new RangeError('no way')")) in (
        "ValueError: no way",
        "RangeError: no way",
    )
    assert await said(lab, Text("KeyError('k')", "new TypeError('k')")) in ("KeyError: k", "TypeError: k")
    assert await said(lab, Text("ValueError()", "new Error()")) in ("ValueError", "Error")


@chapter("what JSON cannot say is given on as something to read")
async def _(lab: Lab) -> None:
    for value, part in (
        (Text("float('nan')", "NaN"), ""),
        (Text("[1, float('inf')]", "[1, Infinity]"), "1"),
        (Text("b'ab'", "new Uint8Array([97])"), ""),
        (Text("[b'ab', 'seven']", "[new Map([[7, 'seven']])]"), "seven"),
        (Text("{(1, 2): 'seven'}", "new Map([[7, 'seven']])"), "seven"),
        (both("echo"), "echo"),
        (Text("lambda: 1", "() => 1"), "unction"),
        (Text("[echo]", "[echo]"), "echo"),
        (Text("10 ** 6000", "10n ** 6000n"), ""),
        (Text("...", "undefined"), ""),
        (Text("{3}", "new Set([3])"), "3"),
        (Text("[ValueError('why')]", "[Symbol('why')]"), "why"),
    ):
        written = await said(lab, value)
        assert written
        assert part in written, (value, written)
        assert len(written) < 10_000


@chapter("an instance is given on with its attributes")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "class Point:\n    def __init__(self):\n        self.x = 17\ntext(Point())\ntext([Point(), b''])",
            "class Point { x = 17 }; text(new Point()); text([new Point(), () => 1])",
        )
    )
    for _, (written,) in seen.helped:
        assert isinstance(written, str)
        assert "x" in written
        assert "17" in written


@chapter("a value that holds itself is given on all the same")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("v = [1, 'two']\nv.append(v)\ntext(v)", "const v: any[] = [1, 'two']; v.push(v); text(v)"),
    )
    ((_, (written,)),) = seen.helped
    assert isinstance(written, str)
    assert "two" in written
    assert len(written) < 1000


@chapter("a value of shared parts without number is cut and takes no time")
async def _(lab: Lab) -> None:
    for twist in (Text("", ""), Text("v = [v, float('nan')]", "v = [v, () => 1];")):
        seen = await lab.run(
            Text(
                f"v = ['x']\nfor i in range(60):\n    v = [v, v]\n{twist.python}\ntext(v)",
                f"let v: any = ['x']; for (let i = 0; i < 60; i++) v = [v, v]; {twist.typescript} text(v)",
            )
        )
        ((_, (written,)),) = seen.helped
        assert isinstance(written, str)
        assert 0 < len(written) < 1_100_000


@chapter("more than a million characters are cut with a note")
async def _(lab: Lab) -> None:
    for value in (Text("'x' * 3_000_000", "'x'.repeat(3000000)"), Text("['x' * 2_000_000]", "['x'.repeat(2000000)]")):
        written = await said(lab, value)
        assert 1_000_000 < len(written) < 1_100_000
        assert "x..." in written


@chapter("what was printed before a helper was asked is heard before it")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "for i in range(3):\n    print(i)\n    text(i)\nprint('end')",
            "for (let i = 0; i < 3; i++) { console.log(i); text(i) } console.log('end')",
        )
    )
    assert seen.heard == ["0\n", "text", "1\n", "text", "2\n", "text", "end\n"]


@chapter("a thousand helpers of one step keep their order")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("for i in range(1000):\n    text(i)", "for (let i = 0; i < 1000; i++) text(i)"),
    )
    assert seen.helped == [("text", (str(i),)) for i in range(1000)]


# -- the others -------------------------------------------------------------------------------------------------------


@chapter("helpers give nothing back")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "[v is None for v in (text(1), image('i'), notify(1), store('k', 1), yield_control())]",
            "[text(1), image('i'), notify(1), store('k', 1), yield_control()].map(v => v === undefined)",
        )
    )
    assert seen.value == [True] * 5
    assert [name for name, _ in seen.helped] == ["text", "image", "notify", "store", "yield_control"]


@chapter("an image is given on as it is")
async def _(lab: Lab) -> None:
    data = "A" * 5_000_000
    seen = await lab.run(
        both("image('data:image/png;base64,' + data)\nimage({'data': data, 'mime_type': 'image/png'})"),
        inputs={"data": data},
    )
    assert seen.helped == [
        ("image", (f"data:image/png;base64,{data}",)),
        ("image", ({"data": data, "mime_type": "image/png"},)),
    ]


@chapter("what can be no image does not reach the helper")
async def _(lab: Lab) -> None:
    seen = await lab.run(caught("image(print)"))
    assert seen.value.startswith(f"{kind_of(lab, 'ValueError')}: image: ")
    seen = await lab.run(
        caught("image('A' * 9_000_000)" if lab.language is Language.PYTHON else "image('A'.repeat(9e6))")
    )
    assert seen.value.startswith(f"{kind_of(lab, 'ValueError')}: image: ")
    assert seen.helped == []


@chapter("stored values are plain JSON")
async def _(lab: Lab) -> None:
    value: Json = {"n": [1, -0.5, True, None, "ä"], "deep": {"er": []}}
    seen = await lab.run(both("store('k', given)"), inputs={"given": value})
    ((name, (key, stored)),) = seen.helped
    assert (name, key) == ("store", "k")
    assert same(stored, value)


@chapter("what was stored is loaded as a value of the program's own")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("store('k', {'list': [1, 2]})", "store('k', {list: [1, 2]})"),
        Text(
            "v = load('k')\nv['list'].append(3)\n[v, load('k')]", "const v = load('k'); v.list.push(3); [v, load('k')]"
        ),
    )
    assert seen.value == [{"list": [1, 2, 3]}, {"list": [1, 2]}]


@chapter("large integers come back from a store as they went")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("store('k', [2 ** 80])", "store('k', [2n ** 80n])"), Text("load('k')[0] + 1", "load('k')[0] + 1n")
    )
    assert seen.value == 2**80 + 1


@chapter("what was never stored is loaded as nothing")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("load('nothing') is None", "load('nothing') === null"))
    assert seen.value is True


@chapter("what is not JSON is not stored, and the program can catch that")
async def _(lab: Lab) -> None:
    circle = Text("v = []\nv.append(v)", "const v: any[] = []; v.push(v)")
    values = ["lambda: 1", "float('nan')", "b'x'", "object_", "v"]
    if lab.language is Language.TYPESCRIPT:
        values = ["() => 1", "NaN", "Symbol('x')", "undefined", "new Map()", "v"]
    start = Text(f"class K:\n    pass\nobject_ = K()\n{circle.python}", circle.typescript)
    for value in values:
        seen = await lab.run(start, caught(f"store('k', {value})"))
        assert seen.value.startswith(f"{kind_of(lab, 'ValueError')}: store: "), (value, seen.value)
        assert seen.helped == []


@chapter("a key is text")
async def _(lab: Lab) -> None:
    for call in ("store(5, 1)", "load(5)", "load(['k'])", f"load({Text('None', 'null').of(lab.language)})"):
        seen = await lab.run(caught(call))
        assert seen.value.startswith(f"{kind_of(lab, 'ValueError')}: {call[: call.index('(')]}: the key is text")
        assert seen.helped == []


@chapter("what a helper refuses is an error with its message, which the program can catch")
async def _(lab: Lab) -> None:
    seen = await lab.run(caught("store('wrong', 1)"))
    assert seen.value == f"{kind_of(lab, 'ValueError')}: store: no value may be called wrong"
    seen = await lab.run(both("load('wrong')"))
    assert seen.error.code == Code.RUNTIME_ERROR
    assert seen.error.message == f"{kind_of(lab, 'ValueError')}: load: no value may be called wrong"
    assert not seen.fatal


@chapter("another number of arguments is an error that names them")
async def _(lab: Lab) -> None:
    for call, takes in (
        ("text()", "text() takes value"),
        ("text(1, 2)", "text() takes value"),
        ("store('k')", "store() takes key and value"),
        ("load()", "load() takes key"),
        ("yield_control(1)", "yield_control() takes nothing"),
        ("exit(1)", "exit() takes nothing"),
    ):
        seen = await lab.run(caught(call))
        assert seen.value == f"TypeError: {takes}"
        assert seen.helped == []


@chapter("control is yielded where the program says so")
async def _(lab: Lab) -> None:
    seen = await lab.run(both("text('a')\nyield_control()\ntext('b')\n'done'"))
    assert seen.helped == [("text", ("a",)), ("yield_control", ()), ("text", ("b",))]
    assert seen.value == "done"


@chapter("helpers are no calls and count toward no bound on them")
async def _(lab: Lab) -> None:
    limits = SessionLimits(max_external_calls=1, wall_ms=20_000, cpu_ms=10_000)
    seen = await lab.run(
        Text(
            "for i in range(50):\n    text(i)\nawait echo('x')",
            "for (let i = 0; i < 50; i++) text(i); await tools.echo('x')",
        ),
        limits=limits,
    )
    assert seen.value == "x"
    assert [(call.number, call.name) for call in seen.calls] == [(1, "echo")]


# -- whose name it is -------------------------------------------------------------------------------------------------


@chapter("a tool stands in front of the helper of its name, and no longer than it is there")
async def _(lab: Lab) -> None:
    named = replace(
        CATALOG, names=CATALOG.names | {"text"}, helpers=CATALOG.helpers - {"text"}, revision="a tool named text"
    )
    interpreter = await lab.open()
    try:
        first = await lab.start(interpreter, both("await text('a')"), catalog=named)
        assert [(call.name, call.args) for call in first.calls] == [("text", ("a",))]
        await lab.finish(interpreter, first, lambda call: Returned(call.number, "tool"))
        assert (first.value, first.helped) == ("tool", [])
        second = await lab.start(interpreter, both("text('b')"))
        assert (second.helped, second.calls) == ([("text", ("b",))], [])
    finally:
        await interpreter.close()


@chapter("a namespace stands in front of the helper of its name")
async def _(lab: Lab) -> None:
    named = replace(
        CATALOG, names=CATALOG.names | {"store.put"}, helpers=CATALOG.helpers - {"store"}, revision="a namespace store"
    )
    text = Text("import store\nawait store.put('a')", "await store.put('a')")
    seen = await lab.run(text, catalog=named, answers=lambda call: Returned(call.number, call.name))
    assert (seen.value, seen.helped) == ("store.put", [])


@chapter("a program's own variable wins over a helper")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "text = 5\ndef load(key): return key + '!'\nexit = 1",
            "let text = 5; function load(key: string) { return key + '!' } const exit = 1",
        ),
        Text("[text + 1, load('k'), exit]", "[text + 1, load('k'), exit]"),
    )
    assert seen.value == [6, "k!", 1]
    assert seen.helped == []


@chapter("an input wins over a helper")
async def _(lab: Lab) -> None:
    seen = await lab.run(both("text + 1"), inputs={"text": 5})
    assert seen.value == 6


@chapter("a helper can be kept in a variable and used in functions of other cells")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("say = text\ndef tell(v):\n    notify(v)", "const say = text; function tell(v: any) { notify(v) }"),
        both("say('a')\ntell('b')"),
    )
    assert seen.helped == [("text", ("a",)), ("notify", ("b",))]


@chapter("without helpers there are none")
async def _(lab: Lab) -> None:
    for code in ("text('a')", "exit()"):
        seen = await lab.run(both(code), catalog=WITHOUT)
        assert seen.error.code == Code.RUNTIME_ERROR
        assert "not defined" in seen.error.message
        assert seen.helped == []


@chapter("a session that gets helpers has them from then on, also in functions that it had before")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        await lab.start(
            interpreter, Text("def tell():\n    text('x')", "function tell() { text('x') }"), catalog=WITHOUT
        )
        assert (await lab.start(interpreter, both("tell()"))).helped == [("text", ("x",))]
        late = await lab.start(interpreter, both("tell()"), catalog=WITHOUT)
        assert late.error.code == Code.RUNTIME_ERROR
        assert late.helped == []
    finally:
        await interpreter.close()


@chapter("a check knows the helpers, and that there are none without them")
async def _(lab: Lab) -> None:
    text = Text("text('a')\nstore('k', load('k'))\nexit()", "await text('a'); store('k', await load('k')); exit()")
    assert (await lab.check(text, types=TypeCheck.STRICT)).diagnostics == ()
    assert (await lab.check(text, types=TypeCheck.STRICT, catalog=WITHOUT)).diagnostics != ()


@chapter("helpers work in a program that fell asleep in a call and woke elsewhere")
async def _(lab: Lab) -> None:
    program = Text(
        "say = text\nsay('before')\nn = await echo(1)\nsay(n)\nstore('k', n)\nv = load('k')\nnotify(v)\nexit()\n"
        "text('no')",
        "const say = text; say('before'); const n = await tools.echo(1); say(n); store('k', n); const v = load('k');"
        " notify(v); exit(); text('no')",
    )
    first = await lab.open()
    seen = await lab.start(first, program)
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [answer(seen.calls[0])])
        assert isinstance(seen.step, Finished), seen.step
        assert seen.helped == [
            ("text", ("before",)),
            ("text", ("1",)),
            ("store", ("k", 1)),
            ("load", ("k",)),
            ("notify", ("1",)),
        ]
        assert (await lab.start(second, both("say('again')\nv"))).value == 1
    finally:
        await second.close()
