"""The value of a secret is nowhere: whatever a tool does with it, nobody who may not know it gets to see it.

Searched is everything that leaves a session: output as it comes and as it is kept, results, errors, records, events,
approvals, the journal, snapshots unpacked to the last byte, and every line of every log.
"""

import asyncio
import logging
from urllib.parse import quote

import pytest

from cloister import Cloister, Deny, Hook, HookedCall, Secret
from tests.security.careless import LANGUAGES, RETURNS, SPEECHES, TOKEN, VALUES, Stage, attempts, call
from tests.security.leaks import KEY, Witness, found_in

pytestmark = pytest.mark.anyio


# -- what tools do with it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", VALUES)
async def test_value_that_a_tool_gives_back_is_nowhere(stage: Stage, kind: str, language: str) -> None:
    value = VALUES[kind]
    session = await stage.open(language, value)
    calls = [call(language, "give_back", token=TOKEN, how=how) for how in RETURNS]
    result = await stage.witness.run(session, attempts(language, calls))
    assert result.ok, result.error
    assert stage.careless.given == [value] * len(RETURNS)
    assert result.result[0].strip() == "[secret TOKEN]"
    assert found_in(await stage.seen(), value) == set()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", VALUES)
async def test_value_that_a_tool_speaks_of_is_nowhere(stage: Stage, kind: str, language: str) -> None:
    value = VALUES[kind]
    session = await stage.open(language, value)
    tools = ("speak", "speak_plainly")
    calls = [call(language, tool, token=TOKEN, how=how) for tool in tools for how in SPEECHES]
    calls.append(call(language, "break_promise", token=TOKEN))
    result = await stage.witness.run(session, attempts(language, calls))
    assert result.ok, result.error
    assert stage.careless.given == [value] * len(calls)
    assert found_in(await stage.seen(), value) == set()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", VALUES)
async def test_value_that_a_validator_complains_about_is_nowhere(stage: Stage, kind: str, language: str) -> None:
    session = await stage.open(language, VALUES[kind])
    calls = [call(language, name, token=TOKEN) for name in ("check_value", "check_at_length", "break_on_value")]
    result = await stage.witness.run(session, attempts(language, calls))
    codes = [record.error and record.error.code for record in result.external_calls]
    assert codes == ["INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "TOOL_ERROR"]
    assert all(record.error and len(record.error.message) < 400 for record in result.external_calls)
    assert found_in(await stage.seen(), VALUES[kind]) == set()


async def test_value_is_nowhere_in_what_the_hosts_own_calls_come_to(stage: Stage) -> None:
    value = VALUES["quotes"]
    session = await stage.open("python", value)
    handle = (await session.run("secret('TOKEN')")).result
    for how in RETURNS:
        assert stage.witness.look(await session.call("give_back", {"token": handle, "how": how})).ok
    for how in SPEECHES:
        stage.witness.look(await session.call("speak", {"token": handle, "how": how}))
    stage.witness.look(await session.call("break_promise", [handle]))
    waiting = stage.witness.look(await session.call("ask", {"text": [handle]}))
    assert waiting.status == "waiting_for_approval"
    assert stage.careless.given == [value] * (len(RETURNS) + len(SPEECHES) + 1)
    assert found_in(await stage.seen(), value) == set()


class Gossip(Hook):
    """Knows more than it should, and says so."""

    def __init__(self, when: str, value: str) -> None:
        self.when = when
        self.value = value

    async def before_call(self, call: HookedCall) -> Deny | None:
        return Deny(f"not with {self.value}", f"nor {quote(self.value)}") if self.when == "before" else None

    async def after_call(self, call: HookedCall, record: object) -> Deny | None:
        return Deny(f"not with {self.value}", f"nor {quote(self.value)}") if self.when == "after" else None


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_value_that_a_hook_speaks_of_is_nowhere(stage: Stage, when: str, language: str) -> None:
    value = VALUES["signs of URLs"]
    session = await stage.open(language, value, hooks=[Gossip(when, value)])
    result = await stage.witness.run(session, attempts(language, [call(language, "send", text=TOKEN)]))
    assert "not with [secret TOKEN]" in result.stdout
    assert found_in(await stage.seen(), value) == set()


@pytest.mark.parametrize("language", LANGUAGES)
async def test_of_two_values_of_which_one_holds_the_other_neither_is_seen(stage: Stage, language: str) -> None:
    inner, outer = "hunter2-hunter2", "pre-hunter2-hunter2-post"
    session = await stage.open(language, inner, more={"OUTER": outer})
    tokens = (TOKEN, "=secret('OUTER')", "=secret('TOKEN') + secret('OUTER') + secret('TOKEN')")
    calls = [call(language, "give_back", token=token, how=how) for token in tokens for how in list(RETURNS)[:9]]
    result = await stage.witness.run(session, attempts(language, calls))
    assert result.ok, result.error
    assert set(stage.careless.given) == {inner, outer, inner + outer + inner}
    seen = await stage.seen()
    assert (found_in(seen, inner), found_in(seen, outer)) == (set(), set())
    assert not [part for part in seen if "pre-" in str(part) or "-post" in str(part)]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_value_that_is_replaced_in_the_middle_of_a_call_is_nowhere(
    language: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    old, new = "old-value-of-yesterday", "new-value-of-tomorrow"
    given: list[str] = []
    witness = Witness()

    async def rotate(token: str) -> list[str]:
        given.append(token)
        # There is no public way yet; whoever keeps secrets changes them while programs run.
        getattr(cloister, "_secrets").set("TOKEN", Secret(new, ("rotate",)))  # noqa: B009
        return [token, old, new]

    secrets = {"TOKEN": {"value": old, "allowed": ["rotate"]}}
    async with Cloister(
        tools=[rotate], workers=2, secrets=secrets, snapshot_key=KEY, on_event=witness.events.append
    ) as cloister:
        session = await cloister.open_session(language=language)
        one = call(language, "rotate", token=TOKEN)
        result = await witness.run(session, attempts(language, [one, one]))
        seen = [*await witness.all(cloister), caplog.text]
    assert given == [old, new]
    assert result.result == [["[secret TOKEN]"] * 3] * 2
    assert (found_in(seen, old), found_in(seen, new)) == (set(), set())


@pytest.mark.parametrize("language", LANGUAGES)
async def test_asyncio_in_debug_mode_shows_no_value(stage: Stage, language: str) -> None:
    """It then logs the result of every task that it thinks slow; here it thinks so of all of them."""
    loop = asyncio.get_running_loop()
    patience = loop.slow_callback_duration
    session = await stage.open(language, VALUES["short"])
    loop.set_debug(True)
    loop.slow_callback_duration = 0
    try:
        calls = [
            call(language, "give_back", token=TOKEN, how="as it is"),
            call(language, "speak", token=TOKEN, how="exception"),
        ]
        assert (await session.run(attempts(language, calls))).ok
    finally:
        loop.set_debug(False)
        loop.slow_callback_duration = patience
    seen = await stage.seen()
    assert any("Executing" in str(part) for part in seen)
    assert found_in(seen, VALUES["short"]) == set()


# -- what programs do with what they got piece by piece --------------------------------------------------------------

# With `a` and `b`, the beginning of the value and its end.
PIECED = {
    "two prints": ("print(a, end='')\nprint(b)", "console.log(a); console.log(b)"),
    "letter by letter": ("for c in a + b: print(c, end='')", "for (const c of a + b) console.log(c)"),
    "one print": ("print('it is', a + b, 'ok')", "console.log('it is', a + b, 'ok', {k: a + b, [a + b]: 1})"),
    "on stderr": ("import sys\nprint(a + b, file=sys.stderr)", "console.error(a); console.error(b)"),
    "returned": ("[a + b, {a + b: a + b}]", "[a + b, {[a + b]: a + b}]"),
    "raised": ("raise ValueError(a + b)", "throw new Error(a + b)"),
    "thrown": ("assert False, a + b", "throw {k: a + b}"),
    "a missing key": ("{}[a + b]", "(null as any)[a + b]"),
    "sent": ("await send(text={a + b: [a + b]})", "await tools.send({text: {[a + b]: [a + b]}})"),
    "a wrong argument": ("await send(**{a + b: 1})", "await tools.send({[a + b]: 1})"),
    "asked about": ("await ask(text=[a + b])", "await tools.ask({text: [a + b]})"),
    "asked about by a rule": ("await judge(text=a + b)", "await tools.judge({text: a + b})"),
    "described": ("await describe_tool(a + b)", "await describe_tool(a + b)"),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("way", PIECED)
async def test_value_that_a_program_puts_together_is_nowhere_outside(stage: Stage, way: str, language: str) -> None:
    # Another one in each test: the desk remembers.
    value = f"sk-{language}-{way.replace(' ', '-')}"
    session = await stage.open(language, value)
    get = {"python": "a, b = ", "typescript": "const [a, b] = "}[language] + call(language, "give_pieces", token=TOKEN)
    assert (await session.run(get)).ok
    code = PIECED[way][LANGUAGES.index(language)]
    stage.witness.look(await session.run(code, on_output=stage.witness.hear))
    assert found_in(await stage.seen(), value) - {"half"} == set()
