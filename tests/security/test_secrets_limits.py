"""Where scrubbing ends: what is known not to be caught (docs/secrets.md says so too), and output that falls asleep.

A test here that fails because something is caught after all is good news: tell it in the docs.
"""

import html
from base64 import b32decode, b32encode, b64decode, b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest

from cloister import Cloister, Session
from cloister.sessions.envelope import unseal
from tests.security.careless import LANGUAGES, RETURNS, TOKEN, VALUES, Careless, Stage, attempts, call
from tests.security.leaks import KEY, Witness, found_in, texts_in, texts_of_snapshot

pytestmark = pytest.mark.anyio

VALUE = "hunter2-AND-Hunter3"


async def with_pieces(stage: Stage, language: str, value: str = VALUE) -> Session:
    """A session whose program has `a` and `b`, the two halves of the value."""
    session = await stage.open(language, value)
    get = {"python": "a, b = ", "typescript": "const [a, b] = "}[language]
    result = await session.run(get + call(language, "give_pieces", token=TOKEN))
    assert result.ok, result.error
    return session


# -- the search itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", ["plain", "quotes", "unicode", "digits"])
async def test_where_nothing_is_secret_the_search_finds_every_form(kind: str, language: str) -> None:
    """Or the tests that find nothing would find nothing wherever they looked."""
    careless, witness, value = Careless(), Witness(), VALUES[kind]
    async with Cloister(tools=careless.tools, workers=1, snapshot_key=KEY) as cloister:
        for how in RETURNS:
            session = await cloister.open_session(language=language)
            result = await session.run(attempts(language, [call(language, "give_back", token=value, how=how)]))
            assert result.ok, result.error
            if how != "as a number" or value.isdecimal():
                assert found_in(texts_in(result.result), value), how
            await session.close()
        assert found_in(await witness.all(cloister), value) >= {"raw"}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_search_looks_into_the_memory_of_the_engine(language: str) -> None:
    async with Cloister(workers=1, snapshot_key=KEY) as cloister:
        session = await cloister.open_session(language=language)
        code = {"python": "x = 'canary-' + 'пароль'", "typescript": "const x = 'canary-' + 'пароль'"}
        assert (await session.run(code[language])).ok
        found = found_in(texts_of_snapshot(await session.snapshot()), "canary-пароль")
    assert "raw" in found


# -- what is not caught ----------------------------------------------------------------------------------------------

# How a tool can write a value so that it is not found, and how a reader gets it back.
DISGUISES: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "backwards": (lambda v: v[::-1], lambda seen: seen[::-1]),
    "in another case": (str.swapcase, str.swapcase),
    "with signs in between": ("-".join, lambda seen: seen[::2]),
    "as numbers": (lambda v: [ord(c) for c in v], lambda seen: "".join(map(chr, seen))),
    "in two fields": (lambda v: {"a": v[:9], "b": v[9:]}, lambda seen: seen["a"] + seen["b"]),
    "as HTML": (lambda v: "".join(f"&#{ord(c)};" for c in v), html.unescape),
    "in base32": (lambda v: b32encode(v.encode()).decode(), lambda seen: b32decode(seen).decode()),
    "in UTF-16": (lambda v: v.encode("utf-16-be").hex(), lambda seen: bytes.fromhex(seen).decode("utf-16-be")),
    "in base64 of base64": (
        lambda v: b64encode(b64encode(v.encode())).decode(),
        lambda seen: b64decode(b64decode(seen)).decode(),
    ),
    "three times over": (
        lambda v: "".join(f"%2525{ord(c):02X}" for c in v),
        lambda seen: unquote(unquote(unquote(seen))),
    ),
    "but for its last letter": (lambda v: v[:-1], lambda seen: seen + VALUE[-1]),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("how", DISGUISES)
async def test_value_that_a_tool_disguises_is_not_caught(stage: Stage, how: str, language: str) -> None:
    disguise, undo = DISGUISES[how]

    async def give(token: str) -> Any:
        return disguise(token)

    secrets = {"TOKEN": {"value": VALUE, "allowed": ["give"]}}
    session = await stage.cloister.open_session("here", language=language, tools=[give], secrets=secrets)
    result = await session.run(call(language, "give", token=TOKEN))
    assert undo(result.result) == VALUE


@pytest.mark.parametrize("language", LANGUAGES)
async def test_halves_in_two_cells_are_not_caught(stage: Stage, language: str) -> None:
    session = await with_pieces(stage, language)
    cells = {"python": ("print(a)", "print(b)"), "typescript": ("console.log(a)", "console.log(b)")}[language]
    assert "".join([(await session.run(cell)).stdout.strip() for cell in cells]) == VALUE


@pytest.mark.parametrize("language", LANGUAGES)
async def test_halves_in_two_places_are_not_caught(stage: Stage, language: str) -> None:
    session = await with_pieces(stage, language)
    code = {
        "python": "import sys\nprint(a)\nprint(b, file=sys.stderr)\n[a, b]",
        "typescript": "console.log(a); console.error(b); [a, b]",
    }
    result = await session.run(code[language])
    assert "".join(result.result) == VALUE
    assert result.stdout.strip() + result.stderr.strip() == VALUE


@pytest.mark.parametrize("language", LANGUAGES)
async def test_value_that_a_program_puts_together_is_in_its_own_memory_and_what_it_sends(
    stage: Stage, language: str
) -> None:
    session = await with_pieces(stage, language)
    code = {"python": "x = a + b\nawait send(text=x)", "typescript": "const x = a + b; await tools.send({text: x})"}
    assert (await session.run(code[language])).ok
    assert stage.careless.sent == [VALUE]
    assert "raw" in found_in(texts_of_snapshot(await session.snapshot()), VALUE)


# -- output in the middle --------------------------------------------------------------------------------------------

HALVES = {
    "python": "print('it is', a, end='')\nawait ask(text='?')\nprint(b)",
    "typescript": "console.log('it is', a); await tools.ask({text: '?'}); console.log(b)",
}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_half_of_a_value_is_not_shown_while_its_program_waits(stage: Stage, language: str) -> None:
    session = await with_pieces(stage, language)
    heard = stage.witness.heard
    waiting = await session.run(HALVES[language], on_output=stage.witness.hear)
    assert waiting.status == "waiting_for_approval"
    assert found_in([*texts_in(waiting), *heard.values()], VALUE) == set()
    await stage.cloister.decide(waiting.approvals[0].id, "allow")
    done = await session.resume(waiting.cell_id, on_output=stage.witness.hear)
    assert done.stdout.split() == ["it", "is", "[secret", "TOKEN]"]
    assert found_in([*texts_in(done), *heard.values()], VALUE) == set()


@pytest.mark.parametrize("language", LANGUAGES)
async def test_value_of_which_one_half_is_printed_before_a_snapshot_is_never_seen_whole(
    stage: Stage, language: str
) -> None:
    """Its beginning is in no snapshot, so where it wakes the end of it is only a part, and parts are not caught."""
    session = await with_pieces(stage, language)
    waiting = await session.run(HALVES[language])
    snapshot = await session.snapshot()
    await session.close()
    kept = unseal(snapshot, KEY).cell
    assert kept is not None
    printed = "".join(text for stream, text in kept["said"] if stream == "stdout")
    assert printed.split() == ["it", "is", "[secret", "TOKEN]"]
    assert found_in(texts_in(kept), VALUE) == set()
    secrets = {"TOKEN": {"value": VALUE, "allowed": ["*"]}}
    woken = await stage.cloister.restore_session(snapshot, secrets=secrets)
    asked = (await woken.resume()).approvals[0]
    await stage.cloister.decide(asked.id, "allow")
    done = await woken.resume(waiting.cell_id, on_output=stage.witness.hear)
    assert done.ok, done.error
    assert found_in([done.stdout, stage.witness.heard["stdout"]], VALUE) == set()


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_only_begins_like_a_value_is_not_lost(stage: Stage, language: str) -> None:
    """A text that only begins like a value must be there in full in the end."""
    session = await with_pieces(stage, language)
    code = {
        "python": "print('it is hunt', end='')\nawait ask(text='?')\nprint('ing')",
        "typescript": "console.log('it is hunt'); await tools.ask({text: '?'}); console.log('ing')",
    }
    waiting = await session.run(code[language])
    assert waiting.status == "waiting_for_approval"
    assert waiting.stdout.rstrip() == "it is hunt"
    snapshot = await session.snapshot()
    await session.close()
    secrets = {"TOKEN": {"value": VALUE, "allowed": ["*"]}}
    woken = await stage.cloister.restore_session(snapshot, secrets=secrets)
    asked = (await woken.resume()).approvals[0]
    await stage.cloister.decide(asked.id, "allow")
    assert (await woken.resume()).stdout.replace("\n", "") == "it is hunting"
