"""What is declared wrongly is refused when it is declared, with the reason and the fix, and nothing is half done."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from cloister import (
    Approval,
    ApprovalClosed,
    ApprovalState,
    CallContext,
    Cloister,
    DenyRule,
    Hook,
    InvalidInput,
    InvalidToolName,
    RunStatus,
    Tool,
)
from tests.sessions.door import value
from tests.sessions.ways import House

pytestmark = pytest.mark.anyio


def give(x: int) -> int:
    """Give it back."""
    return x


def _tools() -> list[Tool]:
    return [Tool(give), Tool(give, namespace="shop", name="refund", approval_policy="manual")]


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House(tools=_tools()) as made:
        yield made


def _runtime(**given: Any) -> Cloister:
    return Cloister(tools=_tools(), **given)


def _refused(declare: Callable[[], object], *said: str) -> InvalidInput:
    """What is raised says each of these, in its message or its hint."""
    with pytest.raises(InvalidInput) as raised:
        declare()
    text = f"{raised.value.message} | {raised.value.hint}"
    for words in said:
        assert words in text
    return raised.value


# -- schemas --------------------------------------------------------------------------------------------------------

SCHEMAS: list[tuple[Any, str, str]] = [
    (5, "it is of type int", '{"type": "object"'),
    ([], "it is of type list", '{"type": "object"'),
    (True, "it is of type bool", '{"type": "object"'),
    ({"type": "strng"}, "$.type", "use string, integer"),
    ({"properties": []}, "$.properties", "correct the schema at $.properties"),
    ({"properties": {"x": {"minimum": "5"}}}, "$.properties.x.minimum", "correct the schema"),
    ({"properties": {"x": {"pattern": "("}}}, "'('", "correct it"),
    ({"$schema": "https://example.com/mine"}, "no draft", 'leave "$schema" out'),
    ({"$ref": "#/$defs/nowhere"}, "#/$defs/nowhere", "correct the reference"),
    ({"$ref": "http://example.com/order.json"}, "nothing is ever fetched", '"#/$defs/<name>"'),
    ({"$ref": "https://example.com/order.json"}, "nothing is ever fetched", '"#/$defs/<name>"'),
    ({"$ref": "file:///etc/passwd"}, "nothing is ever fetched", '"#/$defs/<name>"'),
    ({"$ref": "order.json"}, "nothing is ever fetched", '"#/$defs/<name>"'),
    ({"$ref": "../order.json#/x"}, "nothing is ever fetched", '"#/$defs/<name>"'),
    ({"$id": "https://example.com/a", "$ref": "b"}, "nothing is ever fetched", '"#/$defs/<name>"'),
    ({"$dynamicRef": "https://example.com/a"}, "nothing is ever fetched", '"#/$defs/<name>"'),
    ({"properties": {"x": {"anyOf": [{"$ref": "https://example.com/a"}]}}}, "nothing is ever fetched", "$defs"),
]
SCHEMA_IDS = [str(schema)[:40] for schema, _, _ in SCHEMAS]


@pytest.mark.parametrize(("schema", "reason", "fix"), SCHEMAS, ids=SCHEMA_IDS)
def test_what_is_no_schema_is_refused_in_every_place(schema: Any, reason: str, fix: str) -> None:
    _refused(lambda: Tool(give, input_schema=schema), "the input schema of tool 'give'", reason, fix)
    _refused(lambda: Tool(give, output_schema=schema), "the output schema of tool 'give'", reason, fix)

    def by_hand() -> Tool:
        return Tool.from_schema(name="by_hand", description="", handler=any_name, input_schema=schema)

    _refused(by_hand, "the input schema of tool 'by_hand'", reason, fix)


# -- rules ----------------------------------------------------------------------------------------------------------

RULES: list[tuple[Any, str, str]] = [
    ("args.x <", "at column", "CEL writes &&"),
    ("args.x and args.y", "'and'", "&& for and"),
    ("x < 5", "there is no variable 'x'", "did you mean args.x?"),
    ("arg.x < 5", "there is no variable 'arg'", "did you mean 'args'?"),
    ("session.user == 'ann'", "session.user", "session.labels"),
    ("calls.total < 5", "calls.total", "calls.count"),
    ("namespace == 'shop'", "reserved word", "tool.namespace"),
    ("allow(args.x)", "no function 'allow'", "startsWith"),
    ("1 + 1", "it gives 2", "and not true or false"),
    ("args.x.matches('(')", "the pattern '('", "is not valid"),
    ("true || " * 1000 + "true", "bytes", "several rules"),
]


@pytest.mark.parametrize(("rule", "reason", "fix"), RULES, ids=[str(rule)[:30] for rule, _, _ in RULES])
async def test_rule_that_cannot_work_is_refused_in_every_place(house: House, rule: str, reason: str, fix: str) -> None:
    auto = {"auto": {"rule": rule}}
    _refused(lambda: Tool(give, approval_policy=auto), "tool 'give'", reason, fix)
    _refused(lambda: _runtime(approvals={"give": auto}), "'give'", reason, fix)
    _refused(lambda: _runtime(deny=[rule]), "deny", reason, fix)
    _refused(lambda: _runtime(deny=[DenyRule(rule)]), "deny", reason, fix)
    wrong: list[dict[str, Any]] = [{"approvals": {"give": auto}}, {"deny": [rule]}]
    for given in wrong:
        with pytest.raises(InvalidInput, match=re.escape(reason)):
            await house.cloister.open_session("never", **given)
        assert house.cloister.find("never") is None


# -- tools ----------------------------------------------------------------------------------------------------------


def any_number(*numbers: int) -> None: ...
def any_name(**names: int) -> None: ...
def only_by_position(x: int, /) -> None: ...
def hidden(_x: int) -> None: ...
def unreadable(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unreadable_result() -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821
def no_json(x: asyncio.Event) -> None: ...
def no_json_result() -> asyncio.Event: ...
def two_contexts(a: CallContext, b: CallContext) -> None: ...


SIGNATURES: list[tuple[Callable[..., Any], str, str]] = [
    (any_number, "parameter 'numbers' is variadic positional", "Tool.from_schema"),
    (any_name, "parameter 'names' is variadic keyword", "Tool.from_schema"),
    (only_by_position, "parameter 'x' is positional-only", "name its parameters"),
    (hidden, "'_x' must not start with an underscore", "rename it"),
    (unreadable, "the hint of parameter 'x' cannot be read: name 'Nowhere'", "import what it names"),
    (unreadable_result, "the hint of its result cannot be read: name 'Nowhere'", "import what it names"),
    (no_json, "a parameter has no JSON form", "use plain types"),
    (no_json_result, "its result has no JSON form", "use plain types"),
    (two_contexts, "'a' and 'b' are both annotated CallContext", "keep one of them"),
]


@pytest.mark.parametrize(("function", "reason", "fix"), SIGNATURES, ids=lambda it: getattr(it, "__name__", ""))
async def test_function_that_no_program_could_call_is_refused(
    house: House, function: Callable[..., Any], reason: str, fix: str
) -> None:
    _refused(lambda: Cloister(tools=[function]), f"tool {function.__name__!r}", reason, fix)
    with pytest.raises(InvalidInput, match=re.escape(reason)):
        await house.cloister.open_session("never", tools=[function])
    assert house.cloister.find("never") is None


OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"approval_policy": "sometimes"}, "unknown approval policy 'sometimes'", '"manual"'),
    ({"approval_policy": "auto"}, "has a rule when it is 'auto'", '{"auto": {"rule": "<CEL>"}}'),
    ({"approval_policy": None}, "not an approval policy: None", '"manual"'),
    ({"approval_policy": {"auto": {"rule": 5}}}, "not an approval policy", '{"auto": {"rule": "<CEL>"}}'),
    ({"approval_policy": {"auto": {"rule": ""}}}, "has a rule", '{"auto": {"rule": "<CEL>"}}'),
    ({"approval_policy": {"auto": {"rule": "true"}, "manual": {}}}, "not an approval policy", '"manual"'),
    ({"side_effect": "reed"}, "unknown side effect 'reed'", "'read'"),
    ({"limits": {"timeout_ms": 5}}, "limits are of type dict", "CapabilityLimits(...)"),
    ({"idempotent": "yes"}, "idempotent='yes'", "True nor False"),
    ({"description": 5}, "description is of type int", "give it as text"),
]


@pytest.mark.parametrize(("options", "reason", "fix"), OPTIONS, ids=[str(options) for options, _, _ in OPTIONS])
def test_option_of_a_tool_that_means_nothing_is_refused(options: dict[str, Any], reason: str, fix: str) -> None:
    _refused(lambda: Tool(give, **options), "tool 'give'", reason, fix)


async def test_name_that_is_taken_is_refused_and_the_first_tool_stays(house: House) -> None:
    def other() -> str:
        return "other"

    taken = Tool(other, name="give")
    _refused(lambda: Cloister(tools=[give, taken]), "there is a tool 'give' already", "replace()")
    with pytest.raises(InvalidInput, match="'give' already"):
        await house.cloister.open_session("never", tools=[taken])
    assert house.cloister.find("never") is None
    async with await house.open("python") as session:
        before = session.tools.generation
        _refused(lambda: session.tools.register(taken), "'give'")
        _refused(lambda: session.tools.register(Tool(other, name="shop")), "a namespace and of a tool", "rename")
        _refused(lambda: session.tools.remove("nothing"), "there is no tool 'nothing'", "give")
        assert session.tools.generation == before
        assert value(await session.run("await give(5)")) == 5


@pytest.mark.parametrize(("function", "reason", "fix"), SIGNATURES, ids=lambda it: getattr(it, "__name__", ""))
async def test_late_tool_that_no_program_could_call_is_refused_and_the_session_goes_on(
    house: House, function: Callable[..., Any], reason: str, fix: str
) -> None:
    async with await house.open("python") as session:
        before = session.tools.names(), session.tools.generation
        _refused(lambda: session.tools.register(function), reason, fix)
        assert (session.tools.names(), session.tools.generation) == before
        assert value(await session.run("await give(5)")) == 5


@pytest.mark.parametrize("name", ["get-order", "class", "get.order", 5])
def test_name_that_cannot_be_written_is_refused(name: Any) -> None:
    with pytest.raises(InvalidToolName, match=f"{name}"):
        Tool.from_schema(name=name, description="", handler=lambda: None)


# -- what is given to a runtime or a session ---------------------------------------------------------------------------


class Deaf:
    """Has what a hook needs, but it cannot be called like one."""

    def before_call(self) -> None: ...


class Blind:
    before_call = 5


def _secret(**fields: Any) -> dict[str, Any]:
    return {"secrets": {"TOKEN": {"value": "hunter2-hunter2"} | fields}}


GIVEN: list[tuple[dict[str, Any], str, str]] = [
    ({"approvals": "manual"}, "approvals must map names of tools to policies", '{"shop.*": "manual"}'),
    ({"approvals": ["give"]}, "approvals must map names of tools to policies", '{"shop.*": "manual"}'),
    ({"approvals": {"gvie": "manual"}}, "'gvie'", "did you mean 'give'?"),
    ({"approvals": {"refund": "manual"}}, "'refund'", "did you mean 'shop.refund'?"),
    ({"approvals": {"shp.*": "manual"}}, "no such namespace", "did you mean 'shop.*'?"),
    ({"approvals": {5: "manual"}}, "5, which cannot be a tool", "write a full name"),
    ({"approvals": {"give": "sometimes"}}, "'give': unknown approval policy 'sometimes'", "'manual'"),
    ({"approvals": {"give": 5}}, "'give': not an approval policy: 5", '"manual"'),
    ({"approvals": {"shop.refund": "none"}}, "'shop.refund'", "manual"),
    ({"deny": "args.x > 5"}, "deny must be a list of rules", 'deny=["'),
    ({"deny": {"rule": "true"}}, "deny must be a list of rules", 'deny=["'),
    ({"deny": 5}, "deny must be a list of rules", 'deny=["'),
    ({"deny": [5]}, "not a deny rule: 5", '{"rule": "<CEL>"'),
    ({"deny": [{"tools": ["give"]}]}, "needs a rule", '{"rule": "<CEL>"'),
    ({"deny": [{"rule": "true", "tool": "give"}]}, "no field 'tool'", '"tools": ["shop.*"]'),
    ({"deny": [{"rule": "true", "tools": ["gvie"]}]}, "'gvie'", "did you mean 'give'?"),
    ({"deny": [{"rule": "true", "tools": 5}]}, "must be a list of names", "not 5"),
    ({"deny": [{"rule": "true", "message": 5}]}, "must be text", "not 5"),
    ({"deny": [{"rule": 5}]}, "must be text", "write CEL"),
    ({"deny": ['calls.by_name["gvie"] > 1']}, "names 'gvie'", "did you mean 'give'?"),
    ({"hooks": Hook()}, "hooks are a list of them, not Hook", "hooks=[...]"),
    ({"hooks": "hook"}, "hooks are a list of them, not str", "hooks=[...]"),
    ({"hooks": [5]}, "neither before_call nor after_call", "derive from cloister.Hook"),
    ({"hooks": [Hook]}, "Hook is a class", "give an instance: Hook()"),
    ({"hooks": [Hook(), lambda call: None]}, "is not a hook", "derive from cloister.Hook"),  # pyright: ignore[reportUnknownLambdaType]
    ({"hooks": [Deaf()]}, "Deaf.before_call cannot be called with (call)", "async def before_call(self, call)"),
    ({"hooks": [Blind()]}, "Blind.before_call cannot be called", "async def before_call(self, call)"),
    ({"secrets": ["TOKEN"]}, "secrets are a mapping of names, not list", '{"TOKEN": {"value"'),
    ({"secrets": {"TOKEN": "hunter2-hunter2"}}, "'TOKEN' is a mapping", '"allowed": ['),
    ({"secrets": {"MY TOKEN": {"value": "hunter2-hunter2"}}}, "'MY TOKEN' cannot be the name", "underscores"),
    ({"secrets": {"TOKEN": {"allowed": ["give"]}}}, "'TOKEN' has no `value`", '{"value": "..."'),
    (_secret(value=5), "'TOKEN': the value of a secret is text, not int", "write it as text"),
    (_secret(value="abc"), "at least 4 characters", "a shorter one would be found"),
    (_secret(allow=["give"]), "unknown 'allow'", "`allowed`"),
    (_secret(allowed="give"), "`allowed` is a list of tools, not str", '["shop.buy"]'),
    (_secret(allowed=["give it"]), "'give it' is not a tool", "`shop.*`"),
    ({"type_check": "loose"}, "not 'loose'", "'strict', 'warn' or 'off'"),
]
GIVEN_IDS = [re.sub(r" at 0x\w+", "", str(given))[:60] for given, _, _ in GIVEN]


@pytest.mark.parametrize(("given", "reason", "fix"), GIVEN, ids=GIVEN_IDS)
async def test_what_a_runtime_or_a_session_is_given_wrongly_is_refused(
    house: House, given: dict[str, Any], reason: str, fix: str
) -> None:
    said = _refused(lambda: _runtime(**given), reason, fix)
    # A secret is not told, least of all where somebody got it wrong.
    assert "hunter2" not in f"{said.message} {said.hint}"
    with pytest.raises(InvalidInput) as raised:
        await house.cloister.open_session("never", **given)
    assert (raised.value.message, raised.value.hint) == (said.message, said.hint)
    assert house.cloister.find("never") is None


RUNTIME: list[tuple[dict[str, Any], str, str]] = [
    ({"approver": "allow"}, "an approver is a function that takes an approval, not str", "'allow_always'"),
    ({"approver": 5}, "not int", "returns 'allow'"),
    ({"approval_ttl_ms": 0}, "between 1 and", "leave it out"),
    ({"approval_ttl_ms": "5"}, "'5'", "whole number of milliseconds"),
    ({"on_event": 5}, "on_event is a function", "takes an event, not int"),
    ({"on_event": []}, "on_event is a function", "takes an event, not list"),
    ({"workers": 0}, "at least 1", "not 0"),
]


@pytest.mark.parametrize(("given", "reason", "fix"), RUNTIME, ids=[str(given) for given, _, _ in RUNTIME])
def test_what_a_runtime_is_given_wrongly_is_refused(given: dict[str, Any], reason: str, fix: str) -> None:
    _refused(lambda: Cloister(**given), reason, fix)


async def test_session_that_was_refused_can_be_opened_as_it_should_be(house: House) -> None:
    with pytest.raises(InvalidInput):
        await house.cloister.open_session("mine", tools=[Tool(give, name="extra")], deny=["args.x >"])
    assert [meta.id for meta in await house.cloister.list_sessions()] == []
    async with await house.cloister.open_session("mine", deny=["args.x > 5"]) as session:
        assert session.tools.names() == ["give", "shop.refund"]
        assert value(await session.run("await give(5)")) == 5


async def test_restored_session_is_held_to_the_same(house: House) -> None:
    async with await house.open("python") as session:
        blob = await session.snapshot()
    wrong: list[dict[str, Any]] = [{"approvals": {"gvie": "manual"}}, {"deny": ["args.x >"]}, {"hooks": [5]}]
    for given in wrong:
        with pytest.raises(InvalidInput):
            await house.cloister.restore_session(blob, **given)
        assert house.cloister.find(session.id) is None
    async with await house.cloister.restore_session(blob) as restored:
        assert value(await restored.run("await give(5)")) == 5


# -- decisions ------------------------------------------------------------------------------------------------------

DECISIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"decision": "perhaps"}, "unknown decision 'perhaps'", "'allow', 'allow_always', 'deny'"),
    ({"decision": "ALLOW"}, "unknown decision 'ALLOW'", "'allow'"),
    ({"decision": True}, "unknown decision True", "'allow'"),
    ({"decision": None}, "unknown decision None", "'allow'"),
    ({"decision": "allow", "rule": "args.x < 5"}, "a rule goes with 'allow_always'", "not with 'allow'"),
    ({"decision": "deny", "rule": "args.x < 5"}, "a rule goes with 'allow_always'", "not with 'deny'"),
    ({"decision": "allow_always", "rule": "args.x <"}, "cannot be used", "CEL writes"),
    ({"decision": "allow_always", "rule": "x < 5"}, "there is no variable 'x'", "args.x"),
    ({"decision": "allow_always", "rule": 5}, "must be text", "write CEL"),
    ({"decision": "deny", "message": 5}, "message", "text"),
]


async def _asked(house: House) -> tuple[Any, Approval]:
    session = await house.open("python")
    waiting = await session.run("from shop import refund\nawait refund(7)")
    assert waiting.status is RunStatus.WAITING_FOR_APPROVAL
    return session, waiting.approvals[0]


@pytest.mark.parametrize(("given", "reason", "fix"), DECISIONS, ids=[str(given) for given, _, _ in DECISIONS])
async def test_decision_that_means_nothing_decides_nothing(
    house: House, given: dict[str, Any], reason: str, fix: str
) -> None:
    session, approval = await _asked(house)
    async with session:
        with pytest.raises(InvalidInput) as raised:
            await house.cloister.decide(approval.id, **given)
        said = f"{raised.value.message} | {raised.value.hint}"
        assert reason in said
        assert fix in said
        (decided,) = await house.cloister.decide_many([{"id": approval.id, **given}])
        assert decided.error is not None
        assert (decided.error["code"], decided.error["message"]) == ("INVALID_INPUT", raised.value.message)
        assert await house.cloister.approvals(state="pending", session_id=session.id) == [approval]
        # Nothing was granted either: it still needs an answer, and takes a good one.
        await house.cloister.decide(approval.id, "allow")
        assert value(await session.resume()) == 7
        assert (await session.run("await refund(7)")).status is RunStatus.WAITING_FOR_APPROVAL


BATCHES: list[Any] = ["allow", 5, ["apr_1"], [5], {"id": "apr_1", "decision": "allow"}]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
async def test_batch_of_decisions_that_is_none_is_refused_whole(house: House, batch: Any) -> None:
    with pytest.raises(InvalidInput, match=r"decision"):
        await house.cloister.decide_many(batch)


async def test_decision_with_what_is_no_part_of_one_is_refused_by_itself(house: House) -> None:
    session, approval = await _asked(house)
    async with session:
        wrong = [
            {"id": approval.id},
            {"decision": "allow"},
            {"id": 5, "decision": "allow"},
            {"id": approval.id, "decision": "allow", "reason": "why not"},
        ]
        decided = await house.cloister.decide_many(wrong)
        assert [one.ok for one in decided] == [False] * 4
        assert "reason" in str(decided[3].error)
        assert (await house.cloister.approvals(session_id=session.id))[0].state is ApprovalState.PENDING


async def test_state_that_approvals_do_not_have_is_refused(house: House) -> None:
    with pytest.raises(InvalidInput, match=r"'open'.*'pending'"):
        await house.cloister.approvals(state="open")


async def test_second_decision_is_refused_and_says_how_the_first_was(house: House) -> None:
    session, approval = await _asked(house)
    async with session:
        await house.cloister.decide(approval.id, "deny")
        with pytest.raises(ApprovalClosed, match=r"decided before: 'deny'"):
            await house.cloister.decide(approval.id, "allow")
