"""Capabilities: their names, their approval policy, their digest."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.capability import (
    ApprovalPolicy,
    Capability,
    SideEffect,
    capability_digest,
    check_tool_name,
    parse_side_effect,
)
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.limits import CapabilityLimits

BASE = Capability("get_order", input_schema={"type": "object"}, output_schema={"type": "string"})


@pytest.mark.parametrize("name", ["get_order", "a", "_x", "A1", "print"])
def test_identifier_is_a_tool_name(name: str) -> None:
    assert check_tool_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "1a", "a-b", "a.b", "a b", "a\n", "größe", "class", "await", "None", None, 5, b"a"]
)
def test_other_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidToolName) as refusal:
        check_tool_name(name)
    assert refusal.value.code == "INVALID_TOOL_NAME"


@given(st.text(max_size=8))
def test_taken_name_can_be_written_in_a_program(name: str) -> None:
    try:
        check_tool_name(name)
    except InvalidToolName:
        return
    compile(f"def {name}(): ...", "name", "exec")


def test_capability_with_a_bad_name_or_namespace_is_refused() -> None:
    with pytest.raises(InvalidToolName):
        Capability("a b")
    with pytest.raises(InvalidToolName):
        Capability("a", namespace="b c")


def test_full_name_is_what_a_program_writes() -> None:
    assert Capability("get_order").full_name == "get_order"
    assert Capability("get_order", namespace="shop").full_name == "shop.get_order"


@pytest.mark.parametrize("word", ["none", "read", "write", "network", "database", "external_system"])
def test_side_effect_is_read_by_its_word(word: str) -> None:
    assert parse_side_effect(word) is SideEffect(word)


@pytest.mark.parametrize("word", ["", "READ", "delete", None, 5, []])
def test_unknown_side_effect_is_refused_with_the_choices(word: object) -> None:
    with pytest.raises(InvalidInput, match="'external_system'"):
        parse_side_effect(word)


@pytest.mark.parametrize("value", ["none", "manual", {"auto": {"rule": "args.n < 5"}}])
def test_approval_policy_is_written_as_it_is_read(value: Any) -> None:
    assert ApprovalPolicy.parse(value).to_json() == value


def test_approval_policy_that_is_parsed_already_is_kept() -> None:
    policy = ApprovalPolicy("manual")
    assert ApprovalPolicy.parse(policy) is policy


@pytest.mark.parametrize(
    "value",
    [
        "always",
        "auto",
        "",
        None,
        5,
        [],
        {},
        {"auto": {}},
        {"auto": {"rule": ""}},
        {"auto": {"rule": 5}},
        {"auto": {"rule": "x", "other": 1}},
        {"auto": {"rule": "x"}, "manual": True},
    ],
)
def test_other_approval_policy_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        ApprovalPolicy.parse(value)


def test_rule_belongs_to_auto_and_only_to_it() -> None:
    with pytest.raises(InvalidInput, match="rule"):
        ApprovalPolicy("manual", "x")
    with pytest.raises(InvalidInput, match="rule"):
        ApprovalPolicy("auto")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "get_orders"},
        {"namespace": "shop"},
        {"input_schema": {"type": "array"}},
        {"output_schema": {"type": "number"}},
        {"side_effect": SideEffect.READ},
    ],
    ids=lambda change: next(iter(change)),
)
def test_digest_changes_with_what_a_program_relies_on(change: dict[str, Any]) -> None:
    assert capability_digest(replace(BASE, **change)) != capability_digest(BASE)


@pytest.mark.parametrize(
    "change",
    [
        {"description": "other words"},
        {"limits": CapabilityLimits(timeout_ms=1)},
        {"approval_policy": ApprovalPolicy("manual")},
        {"idempotent": False},
        {"defer_loading": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_digest_does_not_change_with_the_rest(change: dict[str, Any]) -> None:
    assert capability_digest(replace(BASE, **change)) == capability_digest(BASE)
