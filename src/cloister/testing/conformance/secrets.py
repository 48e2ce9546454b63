"""Secrets: a program gets handles, made inside of its step, and nothing else."""

from dataclasses import replace

from cloister.core.codes import Code
from cloister.core.language import Language
from cloister.ports.engine import Returned, Suspended, TypeCheck
from cloister.ports.secrets import handle
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import CATALOG, Lab, Text, answer

chapter = Chapter[Lab]()

TOKEN = handle(CATALOG.mark, "TOKEN")
ASKED = Text("secret('TOKEN')", "secret('TOKEN')")
UNMARKED = replace(CATALOG, mark="")
WRONG_NAMES = ("", "1A", "a-b", "a.b", "a b", "ä", "A\n", "x" * 65)


@chapter("a secret is a text with the session's mark and its name")
async def _(lab: Lab) -> None:
    seen = await lab.run(ASKED)
    assert seen.value == f"~secret.{CATALOG.mark}.TOKEN." == TOKEN
    assert seen.calls == []


@chapter("the longest and the shortest name of a secret are names")
async def _(lab: Lab) -> None:
    longest = "_" + "aZ9" * 21
    seen = await lab.run(Text(f"[secret('{longest}'), secret('x')]", f"[secret('{longest}'), secret('x')]"))
    assert seen.value == [handle(CATALOG.mark, longest), handle(CATALOG.mark, "x")]


@chapter("a secret can be put into other text and given to a tool")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("await echo(f\"Bearer {secret('TOKEN')}\")", "await tools.echo(`Bearer ${secret('TOKEN')}`)")
    )
    assert seen.calls[0].args == (f"Bearer {TOKEN}",)
    assert seen.value == f"Bearer {TOKEN}"


@chapter("what cannot be the name of a secret is an error that the program can catch")
async def _(lab: Lab) -> None:
    for wrong in (*map(repr, WRONG_NAMES), "5", "['A']", "'A', 'B'", ""):
        seen = await lab.run(
            Text(
                f"try:\n    got = secret({wrong})\nexcept ValueError as e:\n    got = 'no: ' + str(e)\ngot",
                f"let got = ''; try {{ got = (secret as any)({wrong}) }} catch (e: any) "
                "{ got = (e instanceof TypeError ? 'no: ' : '') + e.message } got",
            )
        )
        assert seen.value.startswith("no: secret() takes the name of a secret"), (wrong, seen.value)


@chapter("a name that was refused is not repeated")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("secret('sk-live-1234')", "secret('sk-live-1234')"))
    assert seen.error.code == Code.RUNTIME_ERROR
    assert seen.error.message.startswith(
        "ValueError: secret()" if lab.language is Language.PYTHON else "TypeError: secret()"
    )
    assert "sk-live" not in seen.error.message


@chapter("a program's own variable named secret wins")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("secret = 5", "const secret = 5"), Text("secret + 1", "secret + 1"))
    assert seen.value == 6


@chapter("an input named secret wins")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("secret + 1", "secret + 1"), inputs={"secret": 5})
    assert seen.value == 6


@chapter("a tool named secret wins")
async def _(lab: Lab) -> None:
    catalog = replace(CATALOG, names=CATALOG.names | {"secret"}, revision="a tool named secret")
    text = Text("await secret('TOKEN')", "await secret('TOKEN')")
    seen = await lab.run(text, catalog=catalog, answers=lambda call: Returned(call.number, call.name))
    assert seen.value == "secret"
    assert [call.args for call in seen.calls] == [("TOKEN",)]


@chapter("secrets are back when the tool named secret is gone")
async def _(lab: Lab) -> None:
    catalog = replace(CATALOG, names=CATALOG.names | {"secret"}, revision="a tool named secret")
    interpreter = await lab.open()
    try:
        first = await lab.start(interpreter, Text("await secret('A')", "await secret('A')"), catalog=catalog)
        await lab.finish(interpreter, first, lambda call: Returned(call.number, None))
        assert (await lab.start(interpreter, ASKED)).value == TOKEN
    finally:
        await interpreter.close()


@chapter("without a mark there is no secret")
async def _(lab: Lab) -> None:
    for text in (ASKED, Text("kept = secret", "const kept = secret")):
        seen = await lab.run(text, catalog=UNMARKED)
        assert seen.error.code == Code.RUNTIME_ERROR
        assert "secret" in seen.error.message
        assert "not defined" in seen.error.message


@chapter("a session that gets a mark has secrets from then on, also in functions that it had before")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        early = Text("def ask():\n    return secret('TOKEN')", "function ask() { return secret('TOKEN') }")
        await lab.start(interpreter, early, catalog=UNMARKED)
        assert (await lab.start(interpreter, Text("ask()", "ask()"))).value == TOKEN
        late = await lab.start(interpreter, Text("ask()", "ask()"), catalog=UNMARKED)
        assert late.error.code == Code.RUNTIME_ERROR
    finally:
        await interpreter.close()


@chapter("secret can be kept in a variable")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("s = secret", "const s = secret"), Text("s('TOKEN')", "s('TOKEN')"))
    assert seen.value == TOKEN


@chapter("a secret wakes as it fell asleep, and can be asked for again")
async def _(lab: Lab) -> None:
    first = await lab.open()
    text = Text(
        "s, kept = secret, secret('TOKEN')\nn = await echo(1)\n[kept, s('TOKEN'), secret('OTHER')]",
        "const s = secret, kept = secret('TOKEN'); const n = await tools.echo(1); [kept, s('TOKEN'), secret('OTHER')]",
    )
    seen = await lab.start(first, text)
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        await lab.settle(second, seen, [answer(seen.calls[0])])
        assert seen.value == [TOKEN, TOKEN, handle(CATALOG.mark, "OTHER")]
        at_rest = await second.dump()
    finally:
        await second.close()
    third = await lab.open(at_rest)
    try:
        assert (await lab.start(third, Text("[kept, s('TOKEN')]", "[kept, s('TOKEN')]"))).value == [TOKEN, TOKEN]
    finally:
        await third.close()


@chapter("asking for a secret is no wait")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        seen = await lab.start(
            interpreter,
            Text(
                "import asyncio\nawait asyncio.gather(*[echo(secret(n)) for n in ('A', 'B')])",
                "await Promise.all(['A', 'B'].map(n => tools.echo(secret(n))))",
            ),
        )
        assert isinstance(seen.step, Suspended)
        assert [call.args for call in seen.calls] == [((handle(CATALOG.mark, name)),) for name in ("A", "B")]
    finally:
        await interpreter.close()


@chapter("a check knows secret, and that there is none without a mark")
async def _(lab: Lab) -> None:
    text = Text("x = secret('TOKEN')\nawait echo(x)", "const x = await secret('TOKEN'); await tools.echo(x)")
    assert (await lab.check(text, types=TypeCheck.STRICT)).diagnostics == ()
    assert (await lab.check(text, types=TypeCheck.STRICT, catalog=UNMARKED)).diagnostics != ()
