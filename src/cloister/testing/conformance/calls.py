"""Calls: made, answered, failed, forgotten."""

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.ports.engine import Finished, Raised, Returned
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import Lab, Text

chapter = Chapter[Lab]()

GATHER = Text(
    "import asyncio\nawait asyncio.gather(echo(1), echo(2), echo(3))",
    "await Promise.all([tools.echo(1), tools.echo(2), tools.echo(3)])",
)


@chapter("a call carries its name and its named arguments")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("await get_order(order_id='A7')", "await tools.get_order({order_id: 'A7'})"))
    (call,) = seen.calls
    assert (call.name, call.args, dict(call.kwargs)) == ("get_order", (), {"order_id": "A7"})
    assert seen.value == {"id": "A7", "total": 12.5}


@chapter("a call carries its positional arguments")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("await get_order('A7')", "await tools.get_order('A7')"))
    (call,) = seen.calls
    assert (call.args, dict(call.kwargs)) == (("A7",), {})


@chapter("calls in sequence are numbered from one")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "a = await echo(1)\nb = await echo(2)\na + b",
            "const a = await tools.echo(1); const b = await tools.echo(2); a + b",
        )
    )
    assert [call.number for call in seen.calls] == [1, 2]
    assert seen.value == 3


@chapter("numbers start again in the next cell")
async def _(lab: Lab) -> None:
    text = Text("await echo(1)", "await tools.echo(1)")
    seen = await lab.run(text, text)
    assert [call.number for call in seen.calls] == [1]


@chapter("gathered calls become known together")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        seen = await lab.start(interpreter, GATHER)
        assert [call.number for call in seen.suspended.calls] == [1, 2, 3]
        assert seen.suspended.awaiting == {1, 2, 3}
        await lab.finish(interpreter, seen)
        assert seen.value == [1, 2, 3]
    finally:
        await interpreter.close()


@chapter("gathered calls may be settled one by one in any order")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        seen = await lab.start(interpreter, GATHER)
        for number in (2, 3, 1):
            await lab.settle(interpreter, seen, [Returned(number, number * 10)])
        assert seen.value == [10, 20, 30]
    finally:
        await interpreter.close()


@chapter("a caught failure lets the program go on")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "try:\n    await fail()\nexcept RuntimeError as e:\n    got = str(e)\ngot",
            "let got = ''; try { await tools.fail() } catch (e: any) { got = e.code + ': ' + e.message } got",
        )
    )
    assert seen.value.startswith("TOOL_ERROR: it is broken")


@chapter("an uncaught failure ends the program with the tool's code and hint")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("x = 1\nawait fail()", "let x = 1;\nawait tools.fail()"))
    assert (seen.error.code, seen.error.hint) == ("TOOL_ERROR", "try another one")
    assert "it is broken" in seen.error.message
    assert seen.error.span is not None
    assert seen.error.span.line == 2
    assert not seen.fatal


@chapter("one failure among gathered calls can be caught")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        seen = await lab.start(
            interpreter,
            Text(
                "import asyncio\nasync def safe(n):\n    try:\n        return await echo(n)\n"
                "    except RuntimeError:\n        return 'no'\nawait asyncio.gather(safe(1), safe(2))",
                "const safe = async (n: number) => { try { return await tools.echo(n) } catch { return 'no' } };\n"
                "await Promise.all([safe(1), safe(2)])",
            ),
        )
        settlements = [Returned(1, "yes"), Raised(2, ErrorObject("NOT_FOUND", "there is none"))]
        await lab.settle(interpreter, seen, settlements)
        assert seen.value == ["yes", "no"]
    finally:
        await interpreter.close()


@chapter("a call that nobody awaits is handed over at the end, not before")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("echo(1)\n'done'", "void tools.echo(1);\n'done'"))
    assert seen.value == "done"
    assert [call.name for call in seen.calls] == ["echo"]
    assert isinstance(seen.step, Finished)
    assert [call.number for call in seen.step.calls] == [1]


@chapter("a call of an ended cell settles nothing later")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("echo(1)\n'done'", "void tools.echo(1);\n'done'"), Text("await echo(2)", "await tools.echo(2)")
    )
    assert seen.value == 2


@chapter("a large argument crosses whole")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("len(await echo('x' * 500_000))", "(await tools.echo('x'.repeat(500000))).length"))
    assert seen.value == 500_000
    assert seen.calls[0].size >= 500_000 or len(str(seen.calls[0].args[0])) == 500_000


@chapter("an argument that cannot cross is refused and the program can catch it")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "try:\n    await echo(lambda: 1)\nexcept RuntimeError as e:\n    got = str(e)\ngot[:17]",
            "let got = ''; try { await tools.echo(() => 1) } catch (e: any) { got = e.code } got",
        )
    )
    assert seen.calls[0].refused is not None
    assert seen.value == Code.INVALID_ARGUMENTS


@chapter("an argument that explodes when written out is refused")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "a = [1]\nfor i in range(60): a = [a, a]\nawait echo(a)",
            "let a: any = [1]; for (let i = 0; i < 60; i++) a = [a, a];\nawait tools.echo([a])",
        )
    )
    assert seen.error.code == Code.INVALID_ARGUMENTS, seen.error


@chapter("a tool in a namespace is called by its full name")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("from shop import buy\nawait buy('tea')", "await shop.buy('tea')"))
    assert seen.calls[0].name == "shop.buy"
    assert seen.value == "bought tea"


@chapter("a tool can be kept in a variable and called through it")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "import asyncio\nf = echo\nawait asyncio.gather(*[f(n) for n in range(3)])",
            "const f = tools.echo; await Promise.all([0, 1, 2].map(n => f(n)))",
        )
    )
    assert seen.value == [0, 1, 2]


@chapter("calls can be made inside functions and loops")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "async def total(ns):\n    s = 0\n    for n in ns:\n        s += await echo(n)\n    return s\n"
            "await total([1, 2, 3])",
            "async function total(ns: number[]) { let s = 0; for (const n of ns) s += await tools.echo(n);"
            " return s }\nawait total([1, 2, 3])",
        )
    )
    assert seen.value == 6


@chapter("a sleep is a timer, not a call of a tool")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("import asyncio\nawait asyncio.sleep(2)\n'up'", "await new Promise(r => setTimeout(r, 2000)); 'up'")
    )
    assert [(call.kind, call.args) for call in seen.calls] == [("timer", (2.0,))]
    assert seen.value == "up"


@chapter("output is streamed in order while the program runs")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        text = Text(
            "print('one')\nawait echo(1)\nprint('two', 3)",
            "console.log('one'); await tools.echo(1); console.log('two', 3)",
        )
        seen = await lab.start(interpreter, text)
        assert seen.text() == "one\n"
        await lab.finish(interpreter, seen)
        assert seen.text() == "one\ntwo 3\n"
    finally:
        await interpreter.close()


@chapter("errors can be printed apart from output")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("import sys\nprint('bad', file=sys.stderr)", "console.error('bad')"))
    assert (seen.text(), seen.text("stderr")) == ("", "bad\n")


@chapter("a program that waits for what nothing can settle fails")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("x = echo(1)\n1", "let x = 1"), Text("await x", "await new Promise(() => {})"))
    assert seen.error.code == Code.RUNTIME_ERROR
    assert seen.error.hint
    assert seen.fatal
