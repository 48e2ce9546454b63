"""Cloister's own functions: called like tools, and not counted."""

from dataclasses import replace

from cloister.core.codes import Code
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Call, Returned, Settlement
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import CATALOG, Lab, Text, answer

chapter = Chapter[Lab]()

OWN = replace(CATALOG, names=CATALOG.names | {"list_tools"}, own=frozenset({"list_tools"}), revision="own")
TWO = SessionLimits(max_external_calls=2, wall_ms=20_000, cpu_ms=10_000)
MANY = Text(
    "import asyncio\nawait asyncio.gather(*[list_tools() for _ in range(5)])",
    "await Promise.all(Array.from({length: 5}, () => list_tools()))",
)


def _answer(call: Call) -> Settlement:
    return Returned(call.number, ["echo"]) if call.name == "list_tools" else answer(call)


@chapter("a function of our own is called like a tool")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("await list_tools()", "await list_tools()"), answers=_answer, catalog=OWN)
    assert [(call.number, call.name, call.kind) for call in seen.calls] == [(1, "list_tools", "tool")]
    assert seen.value == ["echo"]


@chapter("a function of our own can be reached where tools are")
async def _(lab: Lab) -> None:
    text = Text("f = list_tools\nawait f()", "[await tools.list_tools(), 'list_tools' in tools]")
    seen = await lab.run(text, answers=_answer, catalog=OWN)
    assert seen.value in (["echo"], [["echo"], True])


@chapter("calls of our own functions do not count toward the bound on calls")
async def _(lab: Lab) -> None:
    seen = await lab.run(MANY, limits=TWO, answers=_answer, catalog=OWN)
    assert seen.value == [["echo"]] * 5


@chapter("beside our own functions as many tools can be called as without them")
async def _(lab: Lab) -> None:
    text = Text(
        "for i in range(3):\n    await list_tools()\n[await echo(1), await echo(2)]",
        "for (let i = 0; i < 3; i++) await list_tools(); [await tools.echo(1), await tools.echo(2)]",
    )
    seen = await lab.run(text, limits=TWO, answers=_answer, catalog=OWN)
    assert seen.value == [1, 2]


@chapter("beside our own functions calls of tools are bounded as ever")
async def _(lab: Lab) -> None:
    text = Text(
        "await list_tools()\nfor i in range(3):\n    await echo(i)\n'through'",
        "await list_tools(); for (let i = 0; i < 3; i++) await tools.echo(i); 'through'",
    )
    seen = await lab.run(text, limits=TWO, answers=_answer, catalog=OWN)
    assert seen.error.code == Code.EXTERNAL_CALLS_EXCEEDED
    assert seen.fatal


@chapter("what was counted before a wake counts after it")
async def _(lab: Lab) -> None:
    text = Text(
        "await list_tools()\nawait echo(1)\nawait list_tools()\nawait echo(2)\nawait echo(3)",
        "await list_tools(); await tools.echo(1); await list_tools(); await tools.echo(2); await tools.echo(3)",
    )
    first = await lab.open(limits=TWO)
    seen = await lab.start(first, text, limits=TWO, catalog=OWN)
    for number in (1, 2):
        await lab.settle(first, seen, [_answer(seen.calls[number - 1])])
    state = await first.dump()
    await first.close()
    second = await lab.open(state, limits=TWO)
    try:
        for number in (3, 4):
            await lab.settle(second, seen, [_answer(seen.calls[number - 1])])
        assert seen.error.code == Code.EXTERNAL_CALLS_EXCEEDED
        assert [call.name for call in seen.calls[:4]] == ["list_tools", "echo", "list_tools", "echo"]
    finally:
        await second.close()


@chapter("a flood of our own functions is stopped too")
async def _(lab: Lab) -> None:
    text = Text(
        "import asyncio\nawait asyncio.gather(*[list_tools() for _ in range(20_000)])",
        "await Promise.all(Array.from({length: 20000}, () => list_tools()))",
    )
    limits = SessionLimits(wall_ms=20_000, cpu_ms=20_000)
    seen = await lab.run(text, limits=limits, answers=_answer, catalog=OWN)
    assert seen.error.code in (Code.EXTERNAL_CALLS_EXCEEDED, Code.RUNTIME_ERROR)
    assert len(seen.calls) <= 10_000
