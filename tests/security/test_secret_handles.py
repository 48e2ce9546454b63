"""Handles: only what `secret()` gave in this very session turns into a value, and only for the tools it may go to."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cloister import CallStatus, Cloister, Session, tool
from tests.security.leaks import KEY, found_in, texts_in, texts_of_snapshot

pytestmark = pytest.mark.anyio

LANGUAGES = ("python", "typescript")
VALUE = "hunter2-hunter2"
SECRETS = {
    "TOKEN": {"value": VALUE, "allowed": ["send", "wait_for", "shop.*"]},
    "NOBODYS": {"value": "nobody-may-have-it"},
}


class Post:
    """Tools, and what they were given."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.told: Any = None
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

        @tool
        async def send(text: Any) -> str:
            self.sent.append(text)
            return "sent"

        @tool(namespace="shop")
        async def buy(text: Any) -> str:
            self.sent.append(text)
            return "bought"

        @tool
        async def publish(text: Any) -> str:
            self.sent.append(text)
            return "published"

        @tool
        async def tell() -> Any:
            return self.told

        @tool
        async def wait_for(text: Any) -> str:
            self.sent.append(text)
            self.asked.set()
            await self.answer.wait()
            return "done"

        self.tools = [send, buy, publish, tell, wait_for]


@pytest.fixture(scope="module")
async def grounds(anyio_backend: str) -> AsyncIterator[tuple[Cloister, Post]]:
    post = Post()
    async with Cloister(tools=post.tools, workers=2, snapshot_key=KEY, secrets=SECRETS) as cloister:
        yield cloister, post


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def post(grounds: tuple[Cloister, Post]) -> Post:
    post = grounds[1]
    post.sent.clear()
    post.asked, post.answer = asyncio.Event(), asyncio.Event()
    return post


@pytest.fixture
async def cloister(grounds: tuple[Cloister, Post]) -> AsyncIterator[Cloister]:
    yield grounds[0]
    for meta in await grounds[0].list_sessions():
        await grounds[0].destroy_session(meta.id)


@pytest.fixture
async def session(cloister: Cloister, language: str) -> Session:
    return await cloister.open_session("here", language=language)


def sends(session: Session, text: str, name: str = "send") -> str:
    """A program that gives `text`, an expression, to a tool, and whose value is the error or the answer."""
    if session.language == "python":
        module = f"import {name.partition('.')[0]}\n" if "." in name else ""
        return f"{module}try:\n    got = await {name}(text={text})\nexcept RuntimeError as e:\n    got = str(e)\ngot"
    name = name if "." in name else f"tools.{name}"
    caught = "catch (e: any) { got = e.code + ': ' + e.message }"
    return f"var got: any; try {{ got = await {name}({{text: {text}}}) }} {caught}; got"


# -- where they go ---------------------------------------------------------------------------------------------------


async def test_value_reaches_the_tools_that_it_is_allowed_for(session: Session, post: Post) -> None:
    assert (await session.run(sends(session, "secret('TOKEN')"))).result == "sent"
    assert (await session.run(sends(session, "['Bearer ' + secret('TOKEN')]", "shop.buy"))).result == "bought"
    assert post.sent == [VALUE, [f"Bearer {VALUE}"]]


@pytest.mark.parametrize(("name", "secret"), [("publish", "TOKEN"), ("send", "NOBODYS"), ("shop.buy", "NOBODYS")])
async def test_tool_that_may_not_have_it_is_not_reached_and_the_program_goes_on(
    session: Session, post: Post, name: str, secret: str
) -> None:
    result = await session.run(sends(session, f"{{'deep': ['x' + secret('{secret}')]}}", name))
    assert result.result.startswith("PERMISSION_DENIED")
    assert [record.status for record in result.external_calls] == [CallStatus.DENIED]
    assert post.sent == []
    assert (await session.run("1 + 1")).result == 2


async def test_secret_that_is_not_there_is_refused_by_name(session: Session, post: Post) -> None:
    result = await session.run(sends(session, "secret('TOKENS')"))
    assert result.result.startswith("INVALID_ARGUMENTS: there is no secret 'TOKENS'")
    assert post.sent == []


async def test_handle_in_a_key_is_refused(session: Session, post: Post) -> None:
    text = "{secret('TOKEN'): 1}" if session.language == "python" else "{[secret('TOKEN')]: 1}"
    assert (await session.run(sends(session, text))).result.startswith("INVALID_ARGUMENTS")
    assert post.sent == []


async def test_host_may_use_a_handle_of_the_session_in_its_own_calls(session: Session, post: Post) -> None:
    handle = (await session.run("secret('TOKEN')")).result
    assert (await session.call("send", {"text": handle})).result == "sent"
    denied = await session.call("publish", {"text": handle})
    assert denied.error is not None
    assert denied.error.code == "PERMISSION_DENIED"
    assert post.sent == [VALUE]


# -- where they came from --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "guess",
    [
        "'secret.aaaaaaaaaaaaaaaaaaaa.TOKEN.'",
        "'secret..TOKEN.'",
        "'secret.TOKEN.'",
        "'[secret TOKEN]'",
        "'secret(\"TOKEN\")'",
        "secret('TOKEN').replace('secret', 'Secret')",
        "secret('TOKEN').replace('TOKEN', 'TO KEN')",
        "secret('TOKEN').replace('.', '..')",
        "secret('TOKEN').split('.')[1] + '.TOKEN.'",
    ],
)
async def test_text_that_only_looks_like_a_handle_is_sent_as_it_is(session: Session, post: Post, guess: str) -> None:
    if session.language == "typescript":
        guess = guess.replace(".replace(", ".replaceAll(")
    text = (await session.run(guess)).result
    assert (await session.run(sends(session, guess))).result == "sent"
    assert post.sent == [text]
    # Nor does anybody ask whether a tool may have it.
    assert (await session.run(sends(session, guess, "publish"))).result == "published"


async def test_handle_of_another_session_is_a_text_like_any(cloister: Cloister, session: Session, post: Post) -> None:
    other = await cloister.open_session("other", language="python")
    post.told = (await other.run("secret('TOKEN')")).result
    assert post.told != (await session.run("secret('TOKEN')")).result
    told = {"python": "await tell()", "typescript": "await tools.tell()"}[session.language]
    assert (await session.run(sends(session, told))).result == "sent"
    assert (await session.run(sends(session, told, "publish"))).result == "published"
    assert post.sent == [post.told, post.told]


async def test_two_sessions_never_have_the_same_handles(cloister: Cloister, language: str) -> None:
    handles: set[str] = set()
    for number in range(5):
        session = await cloister.open_session(f"s{number}", language=language)
        handles.add((await session.run("secret('TOKEN')")).result)
    assert len(handles) == 5


# -- how long they live ----------------------------------------------------------------------------------------------


async def test_handle_lives_on_between_cells(session: Session, post: Post) -> None:
    keep = "kept = {'k': secret('TOKEN')}" if session.language == "python" else "const kept = {k: secret('TOKEN')}"
    assert (await session.run(keep)).ok
    assert (await session.run(sends(session, "kept['k']"))).result == "sent"
    assert post.sent == [VALUE]


async def test_handle_lives_on_in_a_snapshot_of_the_session(cloister: Cloister, session: Session, post: Post) -> None:
    keep = "kept = secret('TOKEN')" if session.language == "python" else "const kept = secret('TOKEN')"
    assert (await session.run(keep)).ok
    snapshot = await session.snapshot()
    await session.close()
    woken = await cloister.restore_session(snapshot)
    assert (await woken.run(sends(woken, "[kept, secret('TOKEN')]"))).result == "sent"
    assert post.sent == [[VALUE, VALUE]]
    assert found_in(texts_of_snapshot(snapshot), VALUE) == set()


async def test_handle_lives_on_in_a_snapshot_in_the_middle_of_a_call(
    cloister: Cloister, session: Session, post: Post
) -> None:
    """What is under way has the value; what is asleep has the handle."""
    calls = {
        "python": "kept = secret('TOKEN')\nawait wait_for(text=kept)\nawait send(text=kept)",
        "typescript": "const kept = secret('TOKEN'); await wait_for({text: kept}); await send({text: kept})",
    }
    running = asyncio.create_task(session.run(calls[session.language]))
    await post.asked.wait()
    snapshot = await session.snapshot()
    post.answer.set()
    assert (await running).result == "sent"
    copy = await cloister.restore_session(snapshot, session_id="copy")
    assert (await copy.resume()).result == "sent"
    assert post.sent == [VALUE] * 4
    assert found_in(texts_of_snapshot(snapshot), VALUE) == set()


async def test_handle_is_worth_nothing_where_the_secret_is_not_given_again(session: Session, post: Post) -> None:
    keep = "kept = secret('TOKEN')" if session.language == "python" else "const kept = secret('TOKEN')"
    assert (await session.run(keep)).ok
    async with Cloister(tools=post.tools, workers=1, snapshot_key=KEY) as elsewhere:
        woken = await elsewhere.restore_session(await session.snapshot())
        assert (await woken.run(sends(woken, "kept"))).result.startswith(
            "INVALID_ARGUMENTS: there is no secret 'TOKEN'"
        )
    assert post.sent == []


# -- what is asked about ---------------------------------------------------------------------------------------------


async def test_person_is_shown_the_handle_and_the_tool_gets_the_value(
    cloister: Cloister, language: str, post: Post
) -> None:
    session = await cloister.open_session("asks", language=language, approvals={"send": "manual"})
    first = await session.run(sends(session, "secret('TOKEN')"), return_snapshot=True)
    assert first.status == "waiting_for_approval"
    assert first.approvals[0].arguments["text"].endswith(".TOKEN.")
    assert first.snapshot is not None
    waiting = [*texts_in(first), *texts_of_snapshot(first.snapshot), *texts_in(await cloister.approvals())]
    assert found_in(waiting, VALUE) == set()
    assert post.sent == []
    await cloister.decide(first.approvals[0].id, "allow")
    assert (await session.resume(first.cell_id)).result == "sent"
    assert post.sent == [VALUE]
