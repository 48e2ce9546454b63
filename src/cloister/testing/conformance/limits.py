"""Limits: each is enforced, none can be caught, and the worker that hit one is gone."""

import asyncio
import os

from cloister.core.codes import Code
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Program, Turn
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import CATALOG, NOW_MS, Lab, Seen, Text

chapter = Chapter[Lab]()


async def _ends(lab: Lab, text: Text, limits: SessionLimits, code: Code) -> Seen:
    seen = await lab.run(text, limits=limits)
    assert seen.error.code == code, seen.error
    assert seen.error.hint
    assert seen.fatal
    after = await lab.run(Text("1 + 1", "1 + 1"))
    assert after.value == 2
    return seen


@chapter("processor time is bounded")
async def _(lab: Lab) -> None:
    limits = SessionLimits(cpu_ms=150, wall_ms=20_000)
    await _ends(lab, Text("while True:\n    pass", "while (true) {}"), limits, Code.TIMEOUT_CPU)


@chapter("processor time cannot be had back by catching errors")
async def _(lab: Lab) -> None:
    text = Text(
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        "while (true) { try { while (true) {} } catch {} finally { continue } }",
    )
    await _ends(lab, text, SessionLimits(cpu_ms=150, wall_ms=20_000), Code.TIMEOUT_CPU)


@chapter("wall time is bounded")
async def _(lab: Lab) -> None:
    limits = SessionLimits(cpu_ms=20_000, wall_ms=150)
    await _ends(lab, Text("while True:\n    pass", "while (true) {}"), limits, Code.TIMEOUT_WALL)


@chapter("memory is bounded")
async def _(lab: Lab) -> None:
    text = Text(
        "a = []\nwhile True:\n    a.append('x' * 100_000)",
        "const a: any[] = []; while (true) a.push('x'.repeat(100000) + a.length)",
    )
    await _ends(lab, text, SessionLimits(memory_mb=16, wall_ms=20_000, cpu_ms=20_000), Code.MEMORY_EXCEEDED)


@chapter("running out of memory cannot be caught")
async def _(lab: Lab) -> None:
    text = Text(
        "try:\n    a = 'x' * (200 << 20)\nexcept BaseException:\n    pass\n'survived'",
        "try { new ArrayBuffer(200 << 20) } catch {} 'survived'",
    )
    await _ends(lab, text, SessionLimits(memory_mb=16, wall_ms=20_000, cpu_ms=20_000), Code.MEMORY_EXCEEDED)


@chapter("memory within the bound can be used")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("a = 'x' * (8 << 20)\nlen(a)", "const a = 'x'.repeat(8 << 20); a.length"),
        limits=SessionLimits(memory_mb=32),
    )
    assert seen.value == 8 << 20


@chapter("the depth of calls is bounded")
async def _(lab: Lab) -> None:
    text = Text("def f(n):\n    return f(n + 1)\nf(0)", "function f(n: number): number { return f(n + 1) }\nf(0)")
    await _ends(lab, text, SessionLimits(max_stack_depth=100, wall_ms=20_000, cpu_ms=20_000), Code.STACK_OVERFLOW)


@chapter("calls nested within the bound work")
async def _(lab: Lab) -> None:
    text = Text(
        "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nf(180)",
        "function f(n: number): number { return n === 0 ? 0 : 1 + f(n - 1) }\nf(180)",
    )
    seen = await lab.run(text, limits=SessionLimits(max_stack_depth=256))
    assert seen.value == 180


@chapter("the number of calls is bounded")
async def _(lab: Lab) -> None:
    limits = SessionLimits(max_external_calls=5, wall_ms=20_000)
    text = Text("for i in range(100):\n    await echo(i)", "for (let i = 0; i < 100; i++) await tools.echo(i)")
    seen = await _ends(lab, text, limits, Code.EXTERNAL_CALLS_EXCEEDED)
    assert {call.number for call in seen.calls} <= {1, 2, 3, 4, 5, 6}


@chapter("the bound on calls cannot be caught")
async def _(lab: Lab) -> None:
    limits = SessionLimits(max_external_calls=5, wall_ms=20_000, cpu_ms=20_000)
    text = Text(
        "while True:\n    try:\n        await echo(1)\n    except BaseException:\n        pass",
        "while (true) { try { await tools.echo(1) } catch {} }",
    )
    await _ends(lab, text, limits, Code.EXTERNAL_CALLS_EXCEEDED)


@chapter("as many calls as allowed can be made")
async def _(lab: Lab) -> None:
    text = Text("for i in range(5):\n    await echo(i)\n'ok'", "for (let i = 0; i < 5; i++) await tools.echo(i); 'ok'")
    seen = await lab.run(text, limits=SessionLimits(max_external_calls=5))
    assert seen.value == "ok"


@chapter("a flood of gathered calls is stopped")
async def _(lab: Lab) -> None:
    text = Text(
        "import asyncio\nawait asyncio.gather(*[echo(i) for i in range(5000)])",
        "await Promise.all(Array.from({length: 5000}, (_, i) => tools.echo(i)))",
    )
    await _ends(lab, text, SessionLimits(wall_ms=20_000, cpu_ms=20_000), Code.EXTERNAL_CALLS_EXCEEDED)


@chapter("a running program can be interrupted for sure")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        text = Text(
            "print('go')\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass",
            "console.log('go'); while (true) { try { while (true) {} } catch {} }",
        )
        loop, printed = asyncio.get_running_loop(), asyncio.Event()
        turn = Turn(
            NOW_MS, 60_000, 60_000, lambda _stream, _text: loop.call_soon_threadsafe(printed.set) and None, CATALOG
        )
        run = asyncio.ensure_future(interpreter.start(Program(text.of(lab.language)), turn))
        await printed.wait()
        interpreter.interrupt()
        seen = Seen(await run)
        assert seen.error.code == Code.INTERRUPTED
        assert seen.fatal
    finally:
        await interpreter.close()


@chapter("a worker that dies is reported, not waited for")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        seen = await lab.start(interpreter, Text("x = await echo(1)\nx", "const x = await tools.echo(1); x"))
        assert interpreter.pid is not None
        os.kill(interpreter.pid, 9)
        await lab.finish(interpreter, seen)
        assert seen.error.code == Code.ENGINE_CRASHED
        assert seen.fatal
    finally:
        await interpreter.close()


@chapter("a step says what it used")
async def _(lab: Lab) -> None:
    text = Text(
        "n = 0\nfor i in range(300_000):\n    n += i\nn", "let n = 0; for (let i = 0; i < 300000; i++) n += i; n"
    )
    seen = await lab.run(text)
    assert seen.step.usage.cpu_ms > 0
    assert seen.step.usage.memory_peak_bytes > 100_000
