"""list_tools, describe_tool and current_policy, as programs use them: what they answer, and that they cost nothing."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from cloister import CapabilityLimits, Deny, Event, Hook, HookedCall, Session, SessionLimits, Severity, Tool
from cloister.tools.contract import Contract
from cloister.tools.own import OWN_CAPABILITIES
from tests.sessions.door import codes, value
from tests.sessions.ways import LANGUAGES, WAYS, House, call

pytestmark = pytest.mark.anyio

both_languages = pytest.mark.parametrize("language", LANGUAGES)

# Every way to write each of them.
ASKED = {
    "python": {
        "list_tools": ["await list_tools()", "f = list_tools\nawait f()"],
        "describe_tool": ["await describe_tool('shop.buy')", "await describe_tool(name='shop.buy')"],
        "current_policy": ["await current_policy()"],
    },
    "typescript": {
        "list_tools": ["await list_tools()", "await tools.list_tools()", "const f = list_tools; await f()"],
        "describe_tool": [
            "await describe_tool('shop.buy')",
            "await describe_tool({name: 'shop.buy'})",
            "await tools.describe_tool({name: 'shop.buy'})",
        ],
        "current_policy": ["await current_policy()", "await tools.current_policy()"],
    },
}
WRITTEN = [(lang, name, code) for lang, asked in ASKED.items() for name, ways in asked.items() for code in ways]
DENY = {"rule": "args.sku == 'tea'", "tools": ["shop.*"], "message": "no tea"}


async def buy(sku: str, count: int = 1) -> str:
    """Buy something.

    It is sent at once.
    """
    return f"{count} {sku}"


def look(sku: str) -> str:
    """Look at it."""
    return sku


def _tools() -> list[Tool]:
    return [
        Tool(
            buy,
            namespace="shop",
            side_effect="write",
            idempotent=False,
            approval_policy={"auto": {"rule": "args.count < 5"}},
        ),
        Tool(look, limits=CapabilityLimits(rate_per_min=7)),
    ]


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


@pytest.fixture
async def shops(house: House) -> AsyncIterator[dict[str, Session]]:
    """A session of each language with the same tools, types looked at."""
    made = {
        way: await house.open(way, *_tools(), deny=[DENY], approvals={"look": "manual"}, type_check="strict")
        for way in WAYS
    }
    yield made
    for session in made.values():
        await session.close()


# -- what they answer -----------------------------------------------------------------------------------------------

LISTED = [
    {"name": "look", "description": "Look at it.", "side_effect": "none", "approval": "manual"},
    {
        "name": "shop.buy",
        "description": "Buy something.",
        "side_effect": "write",
        "approval": {"auto": {"rules": ["args.count < 5"]}},
    },
]


@pytest.mark.parametrize("way", WAYS)
async def test_list_tools_says_what_may_be_called(shops: dict[str, Session], way: str) -> None:
    assert value(await call(shops[way], way, "list_tools")) == LISTED


@pytest.mark.parametrize("way", WAYS)
async def test_describe_tool_says_all_about_one(shops: dict[str, Session], way: str) -> None:
    told: Any = value(await call(shops[way], way, "describe_tool", name="shop.buy"))
    assert told["description"] == "Buy something.\n\nIt is sent at once."
    assert (told["side_effect"], told["idempotent"]) == ("write", False)
    assert told["input_schema"]["properties"]["count"] == {"default": 1, "type": "integer"}
    assert told["output_schema"] == {"type": "string"}
    assert told["limits"]["concurrency"] == 16
    as_written = "buy({sku: string, count?: number})" if way == "typescript" else "buy(sku: str, count: int = 1)"
    assert as_written in told["signature"]


@pytest.mark.parametrize("way", WAYS)
async def test_current_policy_says_what_is_in_force(shops: dict[str, Session], way: str) -> None:
    told: Any = value(await call(shops[way], way, "current_policy"))
    assert told["deny"] == [DENY]
    assert told["calls"] == {"limit": 32, "left": 32}
    assert [(tool["name"], tool["approval"]) for tool in told["tools"]] == [
        ("look", "manual"),
        ("shop.buy", {"auto": {"rules": ["args.count < 5"]}}),
    ]
    assert told["tools"][0]["limits"]["rate_per_min"] == 7


@pytest.mark.parametrize(("language", "name", "code"), WRITTEN)
async def test_answer_has_the_shape_that_the_stubs_promise(
    shops: dict[str, Session], language: str, name: str, code: str
) -> None:
    (schema,) = [capability.output_schema for capability in OWN_CAPABILITIES if capability.name == name]
    result = await shops[language].run(code)
    assert result.ok, result.error
    assert result.diagnostics == ()
    assert Contract.compile(_closed(schema), what=name).check(result.result) is None


def _closed(schema: Any) -> Any:
    """The schema with no room for fields that it does not name: the stubs are closed, too."""
    if isinstance(schema, dict):
        made = {key: _closed(part) for key, part in cast("dict[str, Any]", schema).items()}
        return made | {"additionalProperties": False} if "properties" in made and "title" in made else made
    return [_closed(part) for part in cast("list[Any]", schema)] if isinstance(schema, list) else schema


async def test_every_field_can_be_used_under_strict_types(shops: dict[str, Session]) -> None:
    code = """
listed = await list_tools()
one = await describe_tool(listed[-1]["name"])
policy = await current_policy()
words: list[str] = [tool["name"] + tool["description"] + tool["side_effect"] for tool in listed]
texts: str = one["name"] + one["description"] + one["signature"] + one["side_effect"]
schemas: list[str] = list(one["input_schema"]) + list(one["output_schema"]) + list(one["limits"])
number: int = policy["calls"]["left"] + policy["calls"]["limit"]
rules: list[str] = [deny["rule"] for deny in policy["deny"]]
terms: list[str] = [tool["name"] + tool["side_effect"] for tool in policy["tools"]]
[len(words), one["idempotent"], len(schemas) > 3, number, rules, len(terms), listed[0]["approval"]]
"""
    result = await shops["python"].run(code)
    assert value(result) == [2, False, True, 64, ["args.sku == 'tea'"], 2, "manual"]
    assert result.diagnostics == ()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("(await list_tools())[0]['nmae']", '"nmae"'),
        ("(await describe_tool('look'))['signature'] + 1", "str"),
        ("(await current_policy())['calls']['rest']", '"rest"'),
        ("await describe_tool(5)", "describe_tool"),
        ("await describe_tool()", "name"),
        ("await list_tools(1)", "list_tools"),
    ],
)
async def test_wrong_use_of_them_is_found_before_anything_runs(shops: dict[str, Session], code: str, said: str) -> None:
    result = await shops["python"].run(f"print('begun')\n{code}")
    assert result.error is not None
    assert result.error.code == "TYPE_ERROR"
    assert said in result.error.message
    assert result.stdout == ""


# -- a missing await --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["list_tools()[0]", "len(list_tools())", "current_policy()['calls']"])
async def test_missing_await_is_found_by_the_check_with_the_hint_to_add_it(
    shops: dict[str, Session], code: str
) -> None:
    result = await shops["python"].run(code)
    assert result.error is not None
    assert (result.error.code, result.error.hint) == ("TYPE_ERROR", "add `await` in front of the tool call")
    assert [found.severity for found in result.diagnostics] == [Severity.ERROR]


@both_languages
async def test_call_that_nobody_awaits_is_told_and_leaves_no_record(house: House, language: str) -> None:
    async with await house.open(language, *_tools()) as session:
        result = await session.run("list_tools()\n7")
        assert value(result) == 7
        assert codes(result) == ["CALL_NOT_AWAITED"]
        assert "add `await`" in str(result.diagnostics[0].hint)
        assert result.external_calls == ()


# -- what they cost ---------------------------------------------------------------------------------------------------

MANY = {
    "python": "import asyncio\nlen(await asyncio.gather(*[list_tools() for _ in range(50)], describe_tool('look')))",
    "typescript": "(await Promise.all([...Array(50)].map(() => list_tools()).concat(describe_tool('look')))).length",
}


@pytest.mark.parametrize("way", WAYS)
async def test_they_leave_no_record_cost_no_call_and_tell_nobody(way: str) -> None:
    heard: list[Event] = []

    class Never(Hook):
        async def before_call(self, call: HookedCall) -> Deny:
            raise AssertionError("nothing leaves the cell")

    none = SessionLimits(max_external_calls=0)
    async with House(on_event=heard.append, hooks=[Never()], deny=["true"], limits=none) as house:
        session = await house.open(way, *_tools())
        result = await (session.call("list_tools") if way == "host" else session.run(MANY[way]))
        assert result.ok, result.error
        assert (result.external_calls, result.metrics.external_calls_count) == ((), 0)
        assert [event for event in heard if not event.kind.startswith(("cell.", "session."))] == []


@both_languages
async def test_policy_counts_the_calls_that_are_left(house: House, language: str) -> None:
    code = {
        "python": (
            "left = []\nfor sku in 'ab':\n    await look(sku)\n    left.append((await current_policy())['calls'])\nleft"
        ),
        "typescript": (
            "const left = []; for (const sku of 'ab') { await look({sku}); left.push((await current_policy()).calls) }"
            " left"
        ),
    }
    async with await house.open(language, *_tools(), limits=SessionLimits(max_external_calls=3)) as session:
        result = await session.run(code[language])
        assert value(result) == [{"limit": 3, "left": 2}, {"limit": 3, "left": 1}]


# -- what there is --------------------------------------------------------------------------------------------------

NAMES = {
    "python": "[tool['name'] for tool in await list_tools()]",
    "typescript": "(await list_tools()).map(t => t.name)",
}


@both_languages
async def test_they_see_tools_that_came_and_went(house: House, language: str) -> None:
    async with await house.open(language) as session:
        assert value(await session.run(NAMES[language])) == []
        session.tools.register(Tool(look))
        assert value(await session.run(NAMES[language])) == ["look"]
        assert (await session.run("await describe_tool('look')")).ok
        session.tools.remove("look")
        assert value(await session.run(NAMES[language])) == []


@both_languages
async def test_they_see_a_tool_that_came_while_the_cell_ran(house: House, language: str) -> None:
    async with await house.open(language) as session:

        async def bring() -> None:
            session.tools.register(Tool(look))

        session.tools.register(Tool(bring))
        result = await session.run(f"await bring();\n{NAMES[language]}")
        assert value(result) == ["bring", "look"]


@both_languages
async def test_tool_of_the_same_name_comes_first_and_is_a_call_like_any_other(house: House, language: str) -> None:
    async def list_tools() -> str:
        return "mine"

    async with await house.open(language, Tool(list_tools)) as session:
        result = await session.run("await list_tools()")
        assert value(result) == "mine"
        assert [record.name for record in result.external_calls] == ["list_tools"]
        assert (await session.run("await describe_tool('list_tools')")).external_calls == ()
        session.tools.remove("list_tools")
        assert value(await session.run("await list_tools()")) == []


@both_languages
async def test_program_s_own_function_of_that_name_is_the_program_s(house: House, language: str) -> None:
    code = {
        "python": "async def list_tools():\n    return 'ours'\n",
        "typescript": "async function list_tools() { return 'ours' }\n",
    }
    async with await house.open(language, *_tools()) as session:
        assert value(await session.run(code[language] + "await list_tools()")) == "ours"
        assert value(await session.run("await list_tools()")) == "ours"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "hint"), [("shop.by", "did you mean `shop.buy`?"), ("zzz", "`await list_tools()` shows what there is")]
)
async def test_tool_that_is_not_there_is_said_to_be_unknown_with_a_way_on(
    shops: dict[str, Session], way: str, name: str, hint: str
) -> None:
    result = await call(shops[way], way, "describe_tool", name=name)
    assert result.error is not None
    assert (result.error.code, result.error.hint) == ("UNKNOWN_TOOL", hint)
    assert name in result.error.message
    assert result.external_calls == ()
