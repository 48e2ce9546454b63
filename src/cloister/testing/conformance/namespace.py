"""What lasts between the cells of one namespace."""

from typing import Any

from cloister.core.codes import Code
from cloister.ports.engine import TypeCheck
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import Lab, Text

chapter = Chapter[Lab]()


@chapter("a variable lasts from cell to cell")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("x = 41", "let x = 41"), Text("x + 1", "x + 1"))
    assert seen.value == 42


@chapter("a function lasts from cell to cell")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("def double(n):\n    return n * 2", "function double(n: number): number { return n * 2 }"),
        Text("double(4)", "double(4)"),
    )
    assert seen.value == 8


@chapter("a class and its instances last from cell to cell")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "class Point:\n    def __init__(self, x):\n        self.x = x\np = Point(3)",
            "class Point { x: number; constructor(x: number) { this.x = x } }\nconst p = new Point(3)",
        ),
        Text("q = Point(p.x + 1)\nq.x", "const q = new Point(p.x + 1);\nq.x"),
    )
    assert seen.value == 4


@chapter("a closure keeps what it closed over")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "def counter():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        return n\n"
            "    return step\nstep = counter()\nstep()",
            "function counter() { let n = 0; return () => ++n }\nconst step = counter();\nstep()",
        ),
        Text("step()", "step()"),
    )
    assert seen.value == 2


@chapter("a name can be declared again in a later cell")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("a = 1\ndef f(): return 1\nclass K: pass", "let a = 1; const c = 1; function f() { return 1 } class K {}"),
        Text(
            "a = 2\ndef f(): return 3\nclass K: pass\na + f()",
            "const a = 2; let c = 2; function f() { return 3 } class K {}\na + f()",
        ),
    )
    assert seen.value == 5


@chapter("a shared part stays one object between cells")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("a = [1]\nb = [a, a]", "const a = [1]; const b = [a, a]"), Text("a.append(2)\nb", "a.push(2); b")
    )
    assert seen.value == [[1, 2], [1, 2]]


@chapter("inputs last as variables")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        await lab.start(interpreter, Text("k", "k"), inputs={"k": 5})
        seen = await lab.start(interpreter, Text("k + 1", "k + 1"))
        assert seen.value == 6
    finally:
        await interpreter.close()


@chapter("a failed cell keeps what it had assigned")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("kept = 1\nraise ValueError('no')", "let kept = 1; throw new Error('no')"), Text("kept", "kept")
    )
    assert seen.value == 1


@chapter("two namespaces do not see each other")
async def _(lab: Lab) -> None:
    one, two = await lab.open(), await lab.open()
    try:
        await lab.start(one, Text("mine = 1", "let mine = 1"))
        seen = await lab.start(two, Text("mine", "mine"))
        assert seen.error.code == Code.RUNTIME_ERROR
    finally:
        await one.close()
        await two.close()


@chapter("what one session did to builtins does not reach the next on the same worker")
async def _(lab: Lab) -> None:
    one = await lab.open()
    await lab.start(one, Text("print = 5\nlen = 6", "(globalThis as any).JSON = 5; (Array.prototype as any).map = 6"))
    await one.close()
    seen = await lab.run(Text("len([1])", "JSON.stringify([1].map(n => n))"))
    assert seen.value in (1, "[1]")


@chapter("chance comes from the seed and is the same for the same seed")
async def _(lab: Lab) -> None:
    text = Text("import random\n[random.random(), random.random()]", "[Math.random(), Math.random()]")
    values: list[Any] = []
    for seed in (1, 1, 2):
        interpreter = await lab.open(seed=seed)
        values.append((await lab.start(interpreter, text)).value)
        await interpreter.close()
    assert values[0] == values[1] != values[2]
    assert values[0][0] != values[0][1]


@chapter("time is what the host says")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("import time\ntime.time()", "Date.now() / 1000"))
    assert seen.value == 1_700_000_000


@chapter("a check knows the names of earlier cells")
async def _(lab: Lab) -> None:
    checked = await lab.check(
        Text("await helper(1)", "await helper(1)"),
        Text("async def helper(n):\n    return n", "async function helper(n: number) { return n }"),
        types=TypeCheck.WARN,
    )
    assert not [d for d in checked.diagnostics if d.severity == "error"], checked
