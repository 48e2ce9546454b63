"""Sleep and wake: a namespace as bytes, at rest and in the middle of a call, here and in another process."""

import asyncio
import sys

from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import SnapshotCorrupt
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Raised, Returned
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import Lab, Text, answer

chapter = Chapter[Lab]()

FIFTY = Text(
    "import asyncio\nbase = 100\nrows = await asyncio.gather(*[echo(n) for n in range(50)])\nbase + sum(rows)",
    "const base = 100;\nconst rows: number[] = await Promise.all(Array.from({length: 50}, (_, n) => tools.echo(n)));\n"
    "base + rows.reduce((a, b) => a + b, 0)",
)
ROOM_FOR_FIFTY = SessionLimits(wall_ms=20_000, cpu_ms=10_000, max_external_calls=64)


@chapter("a namespace at rest wakes with its variables, functions and classes")
async def _(lab: Lab) -> None:
    first = await lab.open()
    await lab.start(
        first,
        Text(
            "x = [1]\ny = x\ndef f(n): return n + len(x)\nclass K:\n    def __init__(self): self.v = 5\nk = K()",
            "const x = [1]; const y = x; function f(n: number) { return n + x.length } class K { v = 5 }"
            " const k = new K()",
        ),
    )
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        seen = await lab.start(second, Text("y.append(2)\n[f(1), k.v, x]", "y.push(2); [f(1), k.v, x]"))
        assert seen.value == [3, 5, [1, 2]]
    finally:
        await second.close()


@chapter("a dump leaves the interpreter as it was")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        await lab.start(interpreter, Text("x = 1", "let x = 1"))
        await interpreter.dump()
        assert (await lab.start(interpreter, Text("x + 1", "x + 1"))).value == 2
    finally:
        await interpreter.close()


@chapter("a fresh namespace can be dumped and loaded")
async def _(lab: Lab) -> None:
    first = await lab.open()
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        assert (await lab.start(second, Text("1 + 1", "1 + 1"))).value == 2
    finally:
        await second.close()


async def _wakes_with(lab: Lab, text: Text, orders: list[list[int]], expected: object) -> None:
    """Start, dump at the first wait, load elsewhere, settle in the given batches."""
    limits = ROOM_FOR_FIFTY
    first = await lab.open(limits=limits)
    seen = await lab.start(first, text, limits=limits)
    calls = {call.number: call for call in seen.suspended.calls}
    state = await first.dump()
    await first.close()
    second = await lab.open(state, limits=limits)
    try:
        for batch in orders:
            await lab.settle(second, seen, [answer(calls[number]) for number in batch])
            calls |= {call.number: call for call in seen.step.calls}
        assert seen.value == expected, seen.step
    finally:
        await second.close()


@chapter("a program asleep in one call wakes and finishes")
async def _(lab: Lab) -> None:
    text = Text("a = 40\nb = await echo(2)\na + b", "let a = 40; const b = await tools.echo(2); a + b")
    await _wakes_with(lab, text, [[1]], 42)


@chapter("a program asleep in two calls wakes and they settle in the other order")
async def _(lab: Lab) -> None:
    text = Text(
        "import asyncio\nawait asyncio.gather(echo('a'), echo('b'))",
        "await Promise.all([tools.echo('a'), tools.echo('b')])",
    )
    await _wakes_with(lab, text, [[2], [1]], ["a", "b"])


@chapter("a program asleep in fifty calls wakes and they settle backwards one by one")
async def _(lab: Lab) -> None:
    await _wakes_with(lab, FIFTY, [[number] for number in range(50, 0, -1)], 100 + sum(range(50)))


@chapter("a program asleep in fifty calls wakes and they settle together")
async def _(lab: Lab) -> None:
    await _wakes_with(lab, FIFTY, [list(range(1, 51))], 100 + sum(range(50)))


@chapter("half of fifty calls settle, the program sleeps again, the rest settle elsewhere")
async def _(lab: Lab) -> None:
    limits = ROOM_FOR_FIFTY
    first = await lab.open(limits=limits)
    seen = await lab.start(first, FIFTY, limits=limits)
    calls = {call.number: call for call in seen.suspended.calls}
    await lab.settle(first, seen, [answer(calls[number]) for number in range(1, 26)])
    state = await first.dump()
    await first.close()
    second = await lab.open(state, limits=limits)
    try:
        await lab.settle(second, seen, [answer(calls[number]) for number in range(50, 25, -1)])
        assert seen.value == 100 + sum(range(50))
    finally:
        await second.close()


@chapter("a failure after waking is caught by the program that slept")
async def _(lab: Lab) -> None:
    first = await lab.open()
    seen = await lab.start(
        first,
        Text(
            "try:\n    await echo(1)\nexcept RuntimeError as e:\n    got = str(e)[:9]\ngot",
            "let got = ''; try { await tools.echo(1) } catch (e: any) { got = e.code } got",
        ),
    )
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [Raised(1, ErrorObject("NOT_FOUND", "gone"))])
        assert seen.value == "NOT_FOUND"
    finally:
        await second.close()


@chapter("an error after waking still points into the cell's source")
async def _(lab: Lab) -> None:
    first = await lab.open()
    seen = await lab.start(
        first, Text("a = await echo(1)\n\nmissing + a", "const a = await tools.echo(1)\n\nmissing + a")
    )
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [Returned(1, 1)])
        assert seen.error.span is not None
        assert (seen.error.span.line, seen.error.span.column) == (3, 1)
    finally:
        await second.close()


@chapter("one sleeping program can be woken twice and goes two ways")
async def _(lab: Lab) -> None:
    first = await lab.open()
    text = Text("a = 1\nb = await echo(0)\na + b", "let a = 1; const b = await tools.echo(0); a + b")
    seen = await lab.start(first, text)
    state = await first.dump()
    await first.close()
    results: list[object] = []
    for answered in (10, 20):
        copy = await lab.open(state)
        await lab.settle(copy, seen, [Returned(1, answered)])
        results.append(seen.value)
        await copy.close()
    assert results == [11, 21]


@chapter("new calls after waking are numbered on")
async def _(lab: Lab) -> None:
    first = await lab.open()
    text = Text(
        "a = await echo(1)\nb = await echo(2)\na + b",
        "const a = await tools.echo(1); const b = await tools.echo(2); a + b",
    )
    seen = await lab.start(first, text)
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [Returned(1, 1)])
        assert [call.number for call in seen.suspended.calls] == [2]
        await lab.settle(second, seen, [Returned(2, 2)])
        assert seen.value == 3
    finally:
        await second.close()


@chapter("what is printed after waking is heard")
async def _(lab: Lab) -> None:
    first = await lab.open()
    seen = await lab.start(first, Text("await echo(1)\nprint('up')", "await tools.echo(1); console.log('up')"))
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [Returned(1, None)])
        assert seen.text() == "up\n"
    finally:
        await second.close()


@chapter("a namespace whose cell woke and ended goes on with other cells")
async def _(lab: Lab) -> None:
    first = await lab.open()
    seen = await lab.start(first, Text("a = await echo(7)", "const a = await tools.echo(7)"))
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [Returned(1, 7)])
        assert (await lab.start(second, Text("a + 1", "a + 1"))).value == 8
    finally:
        await second.close()


@chapter("a sleep in the program is a wait like any other")
async def _(lab: Lab) -> None:
    first = await lab.open()
    seen = await lab.start(
        first,
        Text("import asyncio\nawait asyncio.sleep(60)\n'up'", "await new Promise(r => setTimeout(r, 60000)); 'up'"),
    )
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [Returned(1, None)])
        assert seen.value == "up"
    finally:
        await second.close()


@chapter("a sleeping program is a few kilobytes")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        await lab.start(interpreter, Text("a = 1\nb = await echo(a)\nb", "let a = 1; const b = await tools.echo(a); b"))
        assert len(await interpreter.dump()) < 32 * 1024
    finally:
        await interpreter.close()


@chapter("a sleeping program wakes in a fresh process")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    text = Text("a = 40\nb = await echo(2)\na + b", "let a = 40; const b = await tools.echo(2); a + b")
    await lab.start(interpreter, text)
    state = await interpreter.dump()
    await interpreter.close()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cloister.testing.conformance.wake", lab.language),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate(state)
    assert (process.returncode, printed.strip()) == (0, b"42")


@chapter("bytes that are no state are refused")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    await lab.start(interpreter, Text("x = 1", "let x = 1"))
    state = await interpreter.dump()
    await interpreter.close()
    for broken in (b"", b"nonsense", state[: len(state) // 2], state[:10]):
        try:
            opened = await lab.open(broken)
        except SnapshotCorrupt:
            continue
        await opened.close()
        raise AssertionError(f"{len(broken)} bytes of nonsense were taken")
    assert (await lab.run(Text("1 + 1", "1 + 1"))).value == 2
