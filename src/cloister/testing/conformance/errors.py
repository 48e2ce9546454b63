"""Errors: what happened, where in this cell's source, what to do."""

from cloister.core.codes import Code
from cloister.ports.engine import Program, TypeCheck
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import Lab, Text

chapter = Chapter[Lab]()


async def _place(lab: Lab, text: Text, line: int, column: int) -> None:
    seen = await lab.run(text)
    span = seen.error.span
    assert seen.error.code == Code.RUNTIME_ERROR, seen.error
    assert span is not None
    assert (span.line, span.column) == (line, column), span


@chapter("an error on the first line is reported there")
async def _(lab: Lab) -> None:
    await _place(lab, Text("nowhere", "nowhere"), 1, 1)


@chapter("an error in the middle of a later line is reported there")
async def _(lab: Lab) -> None:
    await _place(lab, Text("a = 1\nb = 2\nc = a + missing", "let a = 1;\nlet b = 2;\na = b + missing"), 3, 9)


@chapter("columns count characters, not bytes")
async def _(lab: Lab) -> None:
    await _place(lab, Text("x = 1\ny = 'häß🎉' + missing", "let x = 1;\ny = 'häß🎉' + missing"), 2, 14)


@chapter("an error inside a function of this cell is reported inside the function")
async def _(lab: Lab) -> None:
    await _place(
        lab,
        Text("def f():\n    return missing\n\nf()", "function f() {\n    return missing\n}\nf()"),
        2,
        12,
    )


@chapter("an error inside a function of an earlier cell is reported where this cell called it")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("\n\n\ndef bad():\n    return [][5].x", "\n\n\nfunction bad() {\n    return (null as any).x }"),
        Text("a = 1\nbad()", "let a = 1;\nbad()"),
    )
    assert seen.error.span is not None
    assert seen.error.span.line == 2, seen.error


@chapter("an error after a wait is reported at its place")
async def _(lab: Lab) -> None:
    await _place(lab, Text("a = await echo(1)\n\nb = missing", "let b = await tools.echo(1)\n\nb = missing"), 3, 5)


@chapter("a thrown value that is no error is still reported")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("raise ValueError('42')", "throw 42"))
    assert seen.error.code == Code.RUNTIME_ERROR
    assert "42" in seen.error.message


@chapter("the message names the kind of error")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("{}['k']", "(undefined as any).k"))
    assert seen.error.message.startswith(("KeyError", "TypeError"))


@chapter("a syntax error stops the program before anything runs")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("print('no')\nx = = 1", "console.log('no')\nlet x = = 1"))
    assert seen.error.code == Code.SYNTAX_ERROR
    assert seen.text() == ""
    assert seen.error.span is not None
    assert (seen.error.span.line, seen.error.span.column) == (2, 5 if lab.language == "python" else 9)


@chapter("a check reports a syntax error with its place")
async def _(lab: Lab) -> None:
    checked = await lab.check(Text("a = 1\nb = )", "let a = 1\nlet b = )"))
    first = checked.diagnostics[0]
    assert (first.code, first.severity) == (Code.SYNTAX_ERROR, "error")
    assert first.span is not None
    assert first.span.line == 2


@chapter("a check runs nothing")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        code = Text("ran = 1\nawait echo(1)", "let ran = 1; await tools.echo(1)").of(lab.language)
        await interpreter.check(Program(code), TypeCheck.WARN, lab.turn(), starting=False)
        seen = await lab.start(interpreter, Text("ran", "ran"))
        assert seen.error.code == Code.RUNTIME_ERROR
    finally:
        await interpreter.close()


@chapter("a check of a program that never ends comes back")
async def _(lab: Lab) -> None:
    checked = await lab.check(Text("while True:\n    pass", "while (true) {}"))
    assert not [d for d in checked.diagnostics if d.severity == "error"]


@chapter("a tool that is not there is found before the program starts, with a suggestion")
async def _(lab: Lab) -> None:
    checked = await lab.check(Text("x = 1\nawait get_ordr('A7')", "let x = 1\nawait tools.get_ordr('A7')"))
    (found,) = [d for d in checked.diagnostics if d.severity == "error"]
    assert found.code == Code.UNKNOWN_TOOL
    assert found.hint is not None
    assert "get_order" in found.hint
    assert found.span is not None
    assert found.span.line == 2


@chapter("a plain unknown name stays an error of the run")
async def _(lab: Lab) -> None:
    checked = await lab.check(Text("foo + 1", "foo + 1"))
    assert not [d for d in checked.diagnostics if d.severity == "error"]
    seen = await lab.run(Text("foo + 1", "foo + 1"))
    assert seen.error.code == Code.RUNTIME_ERROR


@chapter("what the language does not support is named before the program starts, with a hint")
async def _(lab: Lab) -> None:
    checked = await lab.check(Text("def f():\n    yield 1", "import fs from 'fs'"))
    (found,) = [d for d in checked.diagnostics if d.severity == "error"]
    assert found.code == Code.UNSUPPORTED_FEATURE
    assert found.hint
    assert found.span is not None


@chapter("a good program has a clean check")
async def _(lab: Lab) -> None:
    checked = await lab.check(
        Text(
            "o = await get_order('A7')\nprint(o['total'])",
            "const o: any = await tools.get_order('A7')\nconsole.log(o.total)",
        )
    )
    assert checked.diagnostics == ()


@chapter("a failed program does not spoil the next")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("nowhere", "nowhere"), Text("x = = 1", "let x = = 1"), Text("1 + 1", "1 + 1"))
    assert seen.value == 2
