"""exit: a program ends itself, wherever it is, and that is a success."""

from cloister.ports.engine import Finished, Suspended
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.helping import both
from cloister.testing.conformance.lab import Lab, Seen, Text, answer

chapter = Chapter[Lab]()


async def ends_well(lab: Lab, program: Text) -> Seen:
    """Run a program that exits, and see that the namespace goes on."""
    interpreter = await lab.open()
    try:
        seen = await lab.finish(interpreter, await lab.start(interpreter, program))
        assert isinstance(seen.step, Finished), seen.step
        assert seen.step.value is None
        after = await lab.start(interpreter, both("text('after')\n1 + 1"))
        assert (after.value, after.helped) == (2, [("text", ("after",))])
    finally:
        await interpreter.close()
    return seen


@chapter("exit ends the program as a success and runs nothing after it")
async def _(lab: Lab) -> None:
    seen = await ends_well(lab, both("text('a')\nexit()\ntext('b')\n'value'"))
    assert seen.helped == [("text", ("a",))]


@chapter("exit keeps what was assigned before it, and that only")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("x = 1\ny = 1\nexit()\ny = 2", "let x = 1; let y = 1; exit(); y = 2"), both("[x, y]"))
    assert seen.value == [1, 1]


@chapter("exit ends the program from inside functions too")
async def _(lab: Lab) -> None:
    for program in (
        Text(
            "def f():\n    for i in range(5):\n        exit()\n        text(i)\nf()\ntext('no')",
            "function f() { for (let i = 0; i < 5; i++) { exit(); text(i) } } f(); text('no')",
        ),
        Text(
            "async def f():\n    exit()\nasync def g():\n    await f()\n    text('no')\nawait g()\ntext('no')",
            "async function f() { exit() } async function g() { await f(); text('no') } await g(); text('no')",
        ),
        Text(
            "async def f():\n    await echo(1)\n    exit()\nawait f()\ntext('no')",
            "async function f() { await tools.echo(1); exit() } await f(); text('no')",
        ),
    ):
        assert (await ends_well(lab, program)).helped == []


@chapter("exit is no error that a program would catch by mistake")
async def _(lab: Lab) -> None:
    program = Text(
        "try:\n    exit()\nexcept Exception:\n    text('caught')\ntext('no')",
        "try { exit() } catch (e) { text('caught') } text('no')",
    )
    assert (await ends_well(lab, program)).helped == []


@chapter("exit after a call was answered ends the program")
async def _(lab: Lab) -> None:
    program = Text(
        "n = await echo(3)\nif n == 3:\n    exit()\ntext('no')",
        "const n = await tools.echo(3); if (n === 3) exit(); text('no')",
    )
    seen = await ends_well(lab, program)
    assert seen.helped == []
    assert [call.name for call in seen.calls] == ["echo"]


@chapter("a call that nobody awaited before exit is told of as left over")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("c = echo(1)\nexit()", "const c = tools.echo(1); exit()"))
    assert isinstance(seen.step, Finished)
    assert [(call.name, call.args) for call in seen.step.calls] == [("echo", (1,))]


@chapter("exit beside a call that is pending ends the program without it")
async def _(lab: Lab) -> None:
    program = Text(
        "import asyncio\nasync def leave():\n    await echo('first')\n    exit()\n"
        "async def stay():\n    await get_order('A')\n    text('no')\nawait asyncio.gather(stay(), leave())",
        "async function leave() { await tools.echo('first'); exit() }\n"
        "async function stay() { await tools.get_order('A'); text('no') }\nawait Promise.all([stay(), leave()])",
    )
    interpreter = await lab.open()
    try:
        seen = await lab.start(interpreter, program)
        assert isinstance(seen.step, Suspended)
        first = next(call for call in seen.calls if call.name == "echo")
        await lab.settle(interpreter, seen, [answer(first)])
        assert isinstance(seen.step, Finished), seen.step
        assert (seen.step.value, seen.helped) == (None, [])
        assert (await lab.start(interpreter, both("1 + 1"))).value == 2
    finally:
        await interpreter.close()


@chapter("a namespace that was left by exit can be dumped and woken")
async def _(lab: Lab) -> None:
    first = await lab.open()
    await lab.start(first, Text("x = 7\nexit()", "let x = 7; exit()"))
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        seen = await lab.start(second, both("text(x)\nx + 1"))
        assert (seen.value, seen.helped) == (8, [("text", ("7",))])
    finally:
        await second.close()
