"""Stubs in use: a program that is wrong about a tool is told so, with the place, before anything runs; one that is
right is not."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

from cloister import Cloister, Session, SessionLimits, Tool
from cloister.engines.monty import MontyEngine
from cloister.ports.engine import Catalog, Program, Turn, TypeCheck
from cloister.tools.stubs import header, python_stub
from tests.tools.schemas import some_capabilities

pytestmark = pytest.mark.anyio

calls: list[str] = []


@dataclass
class Line:
    sku: str
    quantity: int = 1


@dataclass
class Folder:
    name: str
    folders: "list[Folder]" = field(default_factory=list["Folder"])
    parent: "Folder | None" = None


class Order(BaseModel):
    """An order of a customer."""

    id: Annotated[str, Field(description="Which one.")]
    lines: list[Line]
    state: Literal["open", "paid"]
    pair: tuple[str, int]
    weights: dict[str, float]
    note: str | None = None


class Wish(TypedDict):
    item: str
    most: NotRequired[float]
    tags: NotRequired[list[str]]


class Stub(TypedDict):
    """Of an order, as much as is needed to put it away. `weights` are wider than an order's, `reason` it has not."""

    id: str
    lines: list[Line]
    weights: dict[str, float | None]
    state: NotRequired[str]
    reason: NotRequired[str]


class Cat(TypedDict):
    kind: Literal["cat"]
    lives: int


class Dog(TypedDict):
    kind: Literal["dog"]
    tricks: list[str]


class Found(TypedDict):
    at: str


class Missing(TypedDict):
    why: str


Value = TypeAliasType("Value", "str | list[Value]")


async def get_order(order_id: str, most: int = 5) -> Order:
    """Look up an order."""
    calls.append("get_order")
    raise NotImplementedError


async def save(order: Order, weights: list[float] = [], state: Literal["open", "paid"] = "open") -> None:  # noqa: B006
    calls.append("save")


async def wish(for_: Wish, also: list[Wish] = []) -> None:  # noqa: B006
    calls.append("wish")


async def archive(order: Stub, also: list[Stub] = []) -> None: ...  # noqa: B006
async def root() -> Folder: ...
async def keep(folder: Folder) -> None: ...
async def animal(name: str) -> Cat | Dog: ...
async def find(name: str) -> Found | Missing: ...
async def say(value: Value) -> Value: ...
async def place(at: tuple[float, float], labels: dict[str, str | float]) -> list[Order]: ...
async def buy(item: str, lines: list[Line] = []) -> Order: ...  # noqa: B006


TOOLS = [get_order, save, wish, archive, root, keep, animal, find, say, place, Tool(buy, namespace="shop")]


@pytest.fixture(scope="module")
async def session() -> AsyncIterator[Session]:
    async with Cloister(tools=TOOLS) as cloister:
        yield await cloister.open_session(type_check="strict")


WRONG: dict[str, tuple[str, int, int, str]] = {
    # the arguments
    "argument of another type": ("await get_order(5)", 1, 17, "Expected `str`"),
    "argument by name": ("x = 1\nawait get_order(order_id='A', most='all')", 2, 31, "Expected `int`"),
    "argument that is not there": ("await get_order('A', limit=5)", 1, 22, "`limit`"),
    "argument left out": ("await get_order()", 1, 7, "`order_id`"),
    "argument too many": ("await get_order('A', 1, 2)", 1, 25, "Too many"),
    "word that is not one of the choices": ("await save({}, [], 'closed')", 1, 20, 'Literal["open", "paid"]'),
    "text for a list": ("await place((1, 2), {}) and await wish({'item': 'x', 'tags': 'a'})", 1, 62, "list[str]"),
    "field of an argument": ("await wish({'item': 5})", 1, 21, "`str`"),
    "field of an argument, misspelt": ("await wish({'itm': 'x'})", 1, 13, '"itm"'),
    "field of an argument, left out": ("await wish({'most': 5})", 1, 12, "'item'"),
    "field of an item": ("await wish({'item': 'a'}, [{'item': 5}])", 1, 37, "`str`"),
    "field of a recursive argument": ("await keep({'name': 'a', 'folders': [{'name': 5}]})", 1, 47, "`str`"),
    "recursive list": ("await say(['a', ['b', 5]])", 1, 11, "say"),
    "item of a tuple": ("await place(('a', 1), {})", 1, 13, "float"),
    "value of a map": ("await place((1, 2), {'a': None})", 1, 21, "float"),
    "argument of a tool of a namespace": ("from shop import buy\nawait buy(5)", 2, 11, "Expected `str`"),
    "tool of a namespace, misspelt": ("import shop\nawait shop.bye('a')", 2, 7, "bye"),
    # the result
    "field of a result": ("o = await get_order('A')\no['totl']", 2, 3, '"totl"'),
    "field of a field": ("o = await get_order('A')\no['lines'][0]['skuu']", 2, 15, '"skuu"'),
    "use of a field": ("o = await get_order('A')\no['lines'][0]['quantity'].upper()", 2, 1, "upper"),
    "use of an item of a tuple": ("o = await get_order('A')\no['pair'][1].upper()", 2, 1, "upper"),
    "use of a value of a map": ("o = await get_order('A')\no['weights']['a'].upper()", 2, 1, "upper"),
    "use of what may be nothing": ("o = await get_order('A')\no['note'].upper()", 2, 1, "None"),
    "comparison within a recursive result": ("f = await root()\nf['folders'][0]['folders'][0]['nam']", 2, 31, '"nam"'),
    "field of the other option": ("a = await animal('x')\nif a['kind'] == 'cat':\n    a['tricks']", 3, 7, '"tricks"'),
    "item of a recursive list": ("v = await say('a')\nif isinstance(v, list):\n    v[0].foo", 3, 5, "foo"),
    "result given to another tool": ("o = await get_order('A')\nawait get_order(o['pair'][1])", 2, 17, "`str`"),
    "result that lacks a field": ("await save(await root())", 1, 12, "save"),
    "result of a tool of a namespace": ("from shop import buy\n(await buy('a'))['idd']", 2, 18, '"idd"'),
    # no await
    "no await, field": ("o = get_order('A')\no['id']", 2, 1, "CoroutineType"),
    "no await, argument": ("await get_order(get_order('A'))", 1, 17, "CoroutineType"),
    # our own functions
    "argument of describe_tool": ("await describe_tool(5)", 1, 21, "Expected `str`"),
    "field of an entry": ("(await list_tools())[0]['nam']", 1, 25, '"nam"'),
    "field of the policy": ("p = await current_policy()\np['calls']['lft']", 2, 12, '"lft"'),
    "argument of secret": ("secret(5)", 1, 8, "Expected `str`"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_program_that_is_wrong_about_a_tool_is_told_where(session: Session, name: str) -> None:
    code, line, column, words = WRONG[name]
    calls.clear()
    result = await session.run(code)
    assert calls == []
    assert result.error is not None
    assert result.error.code == "TYPE_ERROR"
    places = [(d.span.line, d.span.column) for d in result.diagnostics if d.span and words in d.message]
    assert (line, column) in places, result.diagnostics


RIGHT: dict[str, str] = {
    "arguments by name and by position": "await get_order('A'); await get_order(order_id='A', most=3)",
    "whole number for a number": "await wish({'item': 'a', 'most': 3}); await save(await get_order('A'), [1, 2])",
    "list of whole numbers for a list of numbers": "w = [1, 2]\nawait save(await get_order('A'), w)",
    "list made by a loop": "await save(await get_order('A'), [n * 2 for n in range(3)])",
    "result given back": "o = await get_order('A')\nawait save(o, list(o['weights'].values()), o['state'])",
    "result given to a tool that asks for less": "await archive(await get_order('A'))",
    "results given to a tool that asks for less": "await archive(await get_order('A'), await place((1, 2), {}))",
    "objects made by a loop": "names = ['a']\nawait wish({'item': 'a'}, [{'item': n} for n in names])",
    "dict for a map": "labels = {'a': 1}\nawait place((1, 2), labels)",
    "list for a tuple": "await place([1, 2.5], {'a': 'b'})",
    "list of orders": "orders = await place((1, 2), {})\nsum(len(o['lines']) for o in orders)",
    "parts of a tuple": "o = await get_order('A')\nname, number = o['pair']\nname.upper() + str(number + 1)",
    "what may be nothing, asked": "o = await get_order('A')\nif o['note'] is not None: o['note'].upper()",
    "what may be nothing, replaced": "o = await get_order('A')\n(o['note'] or '').upper()",
    "field that may be missing": "o = await get_order('A')\no.get('note')",
    "recursive result": "f = await root()\nwhile f['folders']:\n    f = f['folders'][0]\nf['name'].upper()",
    "recursive argument": "await keep({'name': 'a', 'folders': [{'name': 'b', 'folders': []}]})",
    "recursive result as an argument": "await keep(await root())",
    "recursive list": "v = await say(['a', ['b']])\nv.upper() if isinstance(v, str) else len(v)",
    "options told apart by a word": "a = await animal('x')\na['lives'] + 1 if a['kind'] == 'cat' else a['tricks'][0]",
    "options told apart by a key": "f = await find('x')\nprint(f['at'].upper() if 'at' in f else f['why'].upper())",
    "tool of a namespace": "from shop import buy\n(await buy('a', [{'sku': 'x'}]))['lines'][0]['sku'].upper()",
    "module": "import shop\n(await shop.buy('a'))['id'].upper()",
    "together": "import asyncio\na, b = await asyncio.gather(get_order('A'), get_order('B'))\na['id'] + b['id']",
    "changed": "o = await get_order('A')\no['note'] = 'x'\no['lines'].append({'sku': 'y', 'quantity': 2})",
    "our own functions": "(await list_tools())[0]['name'].upper()\n(await describe_tool('save'))['signature'].upper()",
    "the policy": "p = await current_policy()\np['calls']['left'] + 1, p['tools'][0].get('rule'), p['deny']",
    "secret": "await get_order(secret('KEY'))",
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
async def test_program_that_is_right_has_nothing_to_be_told(session: Session, name: str) -> None:
    result = await session.validate(RIGHT[name])
    assert result.diagnostics == ()


async def test_type_error_shows_the_signature(session: Session) -> None:
    result = await session.validate("await get_order(5)")
    assert [found.hint for found in result.diagnostics] == ["get_order(order_id: str, most: int = 5) -> Order"]


async def test_tool_named_like_a_type_leaves_the_types_of_others_alone() -> None:
    async def listing(folder: str) -> list[str]: ...
    async def text(n: int) -> str: ...

    tools = [Tool(listing, name="list", namespace="disk"), Tool(text, name="str", namespace="texts")]
    async with Cloister(tools=tools) as cloister:
        session = await cloister.open_session(type_check="strict")
        names, word = "from disk import list as names\n", "from texts import str as word\n"
        for wrong in (
            f"{names}(await names('x'))[0].foo",
            f"{names}await names(5)",
            f"{word}await word('x')",
            "secret(5)",
        ):
            result = await session.validate(wrong)
            assert [found.code for found in result.diagnostics] == ["TYPE_ERROR"], wrong
        code = f"{names}{word}(await names(await word(5)))[0].upper()\n(await list_tools())[0]['name'].upper()"
        right = await session.validate(code)
        assert right.diagnostics == ()


async def test_tool_comes_before_our_own_function_of_its_name() -> None:
    async def list_tools(topic: int) -> int: ...

    async with Cloister(tools=[list_tools]) as cloister:
        session = await cloister.open_session(type_check="strict")
        result = await session.validate("(await list_tools(1)).foo\nawait list_tools('x')")
        assert [found.span.line for found in result.diagnostics if found.span] == [1, 2]


async def test_session_without_tools_knows_our_own_functions() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session(type_check="strict")
        assert (await session.validate("(await list_tools())[0]['name'].upper()")).diagnostics == ()


async def test_bad_argument_in_typescript_shows_how_typescript_writes_the_call() -> None:
    async def get_price(order_id: str) -> str:
        return order_id

    async with Cloister(tools=[get_price]) as cloister:
        session = await cloister.open_session(language="typescript")
        for code in ("await tools.get_price({order_id: 5})", "await tools.get_prce({})"):
            error = (await session.run(code)).error
            assert error is not None
            assert error.hint is not None
            assert "get_price({order_id: string}): Promise<string>" in error.hint


async def test_checker_makes_sense_of_stubs_of_any_schema() -> None:
    tools = some_capabilities(25)
    stubs = header() + "".join(python_stub(tool) for tool in tools)
    catalog = Catalog(names=frozenset(tool.name for tool in tools), stubs=stubs, revision="1")
    turn = Turn(1_700_000_000_000, 20_000, 20_000, lambda _stream, _text: None, catalog)
    async with MontyEngine() as engine:
        interpreter = await engine.open(SessionLimits())
        for some in (tools[:8], tools[8:16], tools[16:]):
            code = "".join(f"reveal_type({tool.name})\n" for tool in some)
            checked = await interpreter.check(Program(code), TypeCheck.WARN, turn, starting=False)
            said = [found.message for found in checked.diagnostics if found.message.startswith("Revealed")]
            assert len(said) == len(some)
            assert not [message for message in said if "Unknown" in message]
        await interpreter.close()
