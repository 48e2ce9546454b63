"""`secret` in TypeScript programs: where it stands, and that no program changes what it gives."""

import pytest

from cloister.ports.engine import Failed, Finished
from cloister.ports.secrets import handle

from .conftest import Driver, Opener

pytestmark = pytest.mark.anyio

MARK = "q7w3e9r5t1y8u2i6o4p0"


@pytest.fixture
def session(session: Driver) -> Driver:
    session.mark = MARK
    return session


async def _value(session: Driver, code: str) -> object:
    step = await session.run(code)
    assert isinstance(step, Finished), step
    return step.value


async def test_no_program_changes_what_secret_gives(session: Driver) -> None:
    await session.run(
        """
        String.prototype.charCodeAt = () => 65
        String.prototype.concat = () => 'mine'
        RegExp.prototype.test = () => true
        Object.defineProperty(Array.prototype, 0, { get: () => 'mine', set() {} })
        Object.prototype.mark = 'mine'
        """
    )
    assert await _value(session, "secret('TOKEN')") == handle(MARK, "TOKEN")
    assert await _value(session, "let got = 'none'; try { got = secret('a-b') } catch {} got") == "none"


async def test_secret_is_no_tool(session: Driver) -> None:
    assert await _value(session, "['secret' in tools, Object.keys(tools).includes('secret')]") == [False, False]
    step = await session.run("await tools.secret('TOKEN')")
    assert isinstance(step, Failed)
    assert step.error.code == "UNKNOWN_TOOL"


async def test_secret_can_be_awaited_in_the_first_cell(session: Driver) -> None:
    assert await _value(session, "await secret('TOKEN')") == handle(MARK, "TOKEN")


async def test_secret_that_is_awaited_without_a_mark_is_an_unknown_tool(session: Driver) -> None:
    session.mark = ""
    step = await session.run("await secret('TOKEN')")
    assert isinstance(step, Failed)
    assert step.error.code == "UNKNOWN_TOOL"


async def test_replaced_secret_stays_replaced_when_the_catalog_changes(session: Driver) -> None:
    await session.run("globalThis.secret = () => 'mine'")
    session.names |= {"another_tool"}
    assert await _value(session, "secret('TOKEN')") == "mine"
    session.mark = ""
    assert await _value(session, "secret('TOKEN')") == "mine"
    session.mark = MARK
    assert await _value(session, "secret('TOKEN')") == "mine"


async def test_new_mark_is_used_at_once(session: Driver) -> None:
    await session.run("const ask = () => secret('TOKEN')")
    session.mark = "another0mark0another"
    assert await _value(session, "ask()") == handle("another0mark0another", "TOKEN")


async def test_function_of_our_own_stops_being_one_when_it_is_none(open_session: Opener) -> None:
    session = await open_session()
    session.names |= {"list_tools"}
    session.own = frozenset({"list_tools"})
    session.max_calls = 0
    await session.run("void tools.list_tools(); void list_tools()")
    session.own = frozenset()
    step = await session.run("void tools.list_tools()")
    assert isinstance(step, Failed)
    assert step.error.code == "EXTERNAL_CALLS_EXCEEDED"
