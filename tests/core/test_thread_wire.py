"""Threads, turns, items and their events on the wire."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cloister.core.dynamic import DynamicToolCallParams, DynamicToolCallResult, DynamicToolSpec
from cloister.core.envelope import Envelope, envelope_from_json, envelope_to_json
from cloister.core.errors import CloisterError, InvalidInput
from cloister.core.item import DETAILS, Item, ItemKind, item_from_json, item_to_json
from cloister.core.thread import Thread, ThreadParams, parse_patch
from cloister.core.turn import (
    Receipt,
    Status,
    SteerParams,
    SteerReceipt,
    Turn,
    TurnBudget,
    TurnEnvironmentParams,
    TurnParams,
    TurnUsage,
)
from cloister.core.wire import from_json, keep_json, to_json

AT = "2026-11-18T22:00:00.000Z"
NOW = datetime(2026, 11, 18, 22, tzinfo=UTC)
TEXT = {"type": "input_text", "text": "hi"}
IMAGE = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"}

# What is least said of each, and all that is there once the absent fields have taken their defaults.
USAGE: dict[str, Any] = dict.fromkeys(
    "requests input_tokens output_tokens cache_read_tokens cache_write_tokens model_ms cost_micros".split(), 0
)
SPEC: dict[str, Any] = {"name": "pay", "description": "", "input_schema": {}, "defer_loading": False}
MINIMAL: list[tuple[type[Any], dict[str, Any], dict[str, Any]]] = [
    (DynamicToolSpec, {"name": "pay"}, SPEC),
    (
        DynamicToolCallParams,
        {"thread_id": "thr_1", "turn_id": "trn_1", "call_id": "cal_1", "tool": "pay"},
        {"thread_id": "thr_1", "turn_id": "trn_1", "call_id": "cal_1", "tool": "pay", "arguments": None},
    ),
    (DynamicToolCallResult, {"success": True}, {"success": True, "content": []}),
    (DynamicToolCallResult, {"success": False, "content": [TEXT, IMAGE]}, {"success": False, "content": [TEXT, IMAGE]}),
    (TurnEnvironmentParams, {}, {"environment_id": "local", "cwd": "/"}),
    (TurnBudget, {}, {"iterations": 50}),
    (TurnUsage, {}, USAGE),
    (
        SteerReceipt,
        {"turn_id": "trn_1", "input_id": "inp_1", "receipt": "queued"},
        {"turn_id": "trn_1", "input_id": "inp_1", "receipt": "queued"},
    ),
    (
        Turn,
        {
            "id": "trn_1",
            "thread_id": "thr_1",
            "number": 1,
            "status": "in_progress",
            "created_at": AT,
            "input": [TEXT],
            "dynamic_tools": [{"name": "pay", "newer": 1}],
        },
        {
            "id": "trn_1",
            "thread_id": "thr_1",
            "number": 1,
            "status": "in_progress",
            "created_at": AT,
            "input": [TEXT],
            "environment_id": "local",
            "dynamic_tools": [{**SPEC, "newer": 1}],
            "budget": {"iterations": 50},
            "switch_provider": False,
            "accepts_finish": False,
            "usage": USAGE,
            "finished": False,
        },
    ),
    (
        Thread,
        {"id": "thr_1", "session_id": "default", "created_at": AT, "updated_at": AT},
        {
            "id": "thr_1",
            "session_id": "default",
            "created_at": AT,
            "updated_at": AT,
            "tenant": "",
            "driver": "code",
            "wake": "notify",
            "dynamic_tools": [],
            "environments": [],
            "labels": {},
            "metadata": {},
            "archived": False,
        },
    ),
    (
        Envelope,
        {"event": "turn.started", "timestamp": AT, "thread_id": "thr_1", "seq": 7, "previous_seq": 3},
        {
            "event": "turn.started",
            "timestamp": AT,
            "payload": {},
            "schema_version": 1,
            "seq": 7,
            "previous_seq": 3,
            "kind": "turn",
            "thread_id": "thr_1",
        },
    ),
    (
        Envelope,
        {"event": "item.delta", "timestamp": AT, "session_id": "default", "payload": {"text": "a\r\n\r\ndata: b"}},
        {
            "event": "item.delta",
            "timestamp": AT,
            "payload": {"text": "a\r\n\r\ndata: b"},
            "schema_version": 1,
            "kind": "item",
            "session_id": "default",
        },
    ),
]


@pytest.mark.parametrize(("kind", "least", "whole"), MINIMAL, ids=lambda part: getattr(part, "__name__", ""))
def test_what_is_absent_takes_its_default_and_what_is_unknown_is_kept(
    kind: type[Any], least: dict[str, Any], whole: dict[str, Any]
) -> None:
    assert to_json(keep_json(kind, least)) == whole
    strange = {"zebra": {"a": [None, 1.5]}, "extra": "not ours", "null": None}
    kept = json.loads(json.dumps(to_json(keep_json(kind, {**least, **strange}))))
    assert kept == {**whole, **strange}
    assert to_json(keep_json(kind, kept)) == kept


DETAIL: dict[ItemKind, tuple[dict[str, Any], dict[str, Any]]] = {
    ItemKind.USER_MESSAGE: ({"content": [TEXT, IMAGE]}, {"content": [TEXT, IMAGE]}),
    ItemKind.AGENT_MESSAGE: ({}, {"text": ""}),
    ItemKind.AGENT_REASONING: ({}, {"text": ""}),
    ItemKind.TOOL_CALL: ({"tool": "pay"}, {"tool": "pay", "arguments": None, "content": []}),
    ItemKind.CELL: ({"code": "1"}, {"code": "1", "language": "python", "content": []}),
    ItemKind.NOTIFICATION: ({"content": [TEXT]}, {"content": [TEXT]}),
    ItemKind.CONTEXT_COMPACTION: ({"summary": "s", "through_item_id": "i"}, {"summary": "s", "through_item_id": "i"}),
    ItemKind.ERROR: ({"error": {"code": "A", "message": "b"}}, {"error": {"code": "A", "message": "b"}}),
}


@pytest.mark.parametrize("kind", ItemKind)
def test_every_kind_of_item_comes_back_with_what_is_unknown_of_it(kind: ItemKind) -> None:
    least, whole = DETAIL[kind]
    outline = {
        "id": "itm_1",
        "thread_id": "thr_1",
        "turn_id": "trn_1",
        "kind": kind.value,
        "status": "completed",
        "created_at": AT,
    }
    made = item_from_json({**outline, "detail": least})
    assert type(made.detail) is DETAILS[kind]
    assert item_to_json(made) == {**outline, "detail": whole}
    strange = {**outline, "shade": 1, "detail": {**whole, "hue": [2]}}
    assert item_to_json(item_from_json(strange)) == strange


def test_tags_are_exactly_those_of_the_protocol() -> None:
    assert list(Status) == "queued in_progress completed failed interrupted cancelled".split()
    assert (
        list(ItemKind)
        == ("user_message agent_message agent_reasoning tool_call cell notification context_compaction error").split()
    )
    assert list(Receipt) == "delivered queued dropped".split()
    assert [status for status in Status if not status.is_final] == ["queued", "in_progress"]


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: from_json(TurnParams, {"input": "a", "inputs": 1}), "'inputs'"),
    (lambda: from_json(TurnParams, {"input": "a", "extra": {}}), "'extra'"),
    (lambda: from_json(TurnParams, {"input": "a", "dynamic_tools": [{"name": "a", "colour": 1}]}), "'colour'"),
    (lambda: from_json(TurnParams, {"input": []}), "empty"),
    (lambda: from_json(TurnParams, {"input": [{"type": "text", "text": "a"}]}), r"input\[0\].type"),
    (lambda: from_json(TurnParams, {"input": [TEXT, {**TEXT, "more": 1}]}), r"input\[1\] has no field 'more'"),
    (lambda: from_json(TurnParams, {"input": [{"type": "input_image", "image_url": "file:///etc"}]}), "image_url"),
    (lambda: from_json(TurnParams, {"input": [{"type": "input_image"}]}), "image_url"),
    (lambda: from_json(TurnParams, {"input": "a", "operation_key": "é" * 65}), "128 bytes"),
    (lambda: from_json(TurnParams, {"input": "a", "operation_key": ""}), "128 bytes"),
    (lambda: from_json(TurnParams, {"input": "a", "budget": {"iterations": 0}}), "iterations"),
    (lambda: from_json(TurnParams, {"input": "a", "dynamic_tools": [SPEC, SPEC]}), "two tools"),
    (lambda: from_json(SteerParams, {"input": "a", "id": "x" * 129}), "128 bytes"),
    (lambda: from_json(ThreadParams, {"driver": "shell"}), "driver"),
    (lambda: from_json(ThreadParams, {"session_id": "a/b"}), "session id"),
    (lambda: from_json(ThreadParams, {"labels": {"a": "b" * 257}}), "label"),
    (lambda: from_json(ThreadParams, {"labels": {"a": "b\x1e"}}), "printed"),
    (lambda: from_json(ThreadParams, {"title": "a\x00"}), "NUL"),
    (lambda: from_json(ThreadParams, {"environments": [{}, {}]}), "twice"),
    (lambda: from_json(DynamicToolCallResult, {"success": True, "content": [{"type": "x"}]}), r"content\[0\]"),
    (lambda: from_json(DynamicToolCallResult, {}), "success"),
    (lambda: from_json(DynamicToolSpec, {"name": "no good"}), "name of a tool"),
    (lambda: parse_patch({"title": "a", "session_id": "b"}), "'session_id'"),
    (lambda: parse_patch({"archived": None}), "archived"),
    (lambda: Envelope("turn.started", NOW, thread_id="a", session_id="b"), "thread's stream"),
    (lambda: Envelope("turn.started", NOW, thread_id="a", seq=1), "previous_seq"),
    (
        lambda: item_from_json({"id": "i", "thread_id": "t", "turn_id": "t", "kind": "dream", "status": "queued"}),
        "kind",
    ),
]


@pytest.mark.parametrize(("read", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_what_does_not_fit_is_refused_by_name(read: Callable[[], object], named: str) -> None:
    with pytest.raises(CloisterError, match=named) as refusal:
        read()
    assert isinstance(refusal.value, InvalidInput)


def test_same_content_has_the_same_digest_whatever_its_key() -> None:
    one = from_json(TurnParams, {"input": "a", "operation_key": "k"})
    assert one.digest() == from_json(TurnParams, {"input": [{"text": "a", "type": "input_text"}]}).digest()
    assert one.digest() != replace(one, input="b").digest()
    assert one.digest() != replace(one, dynamic_tools=(DynamicToolSpec("pay"),)).digest()


def test_tool_in_a_namespace_has_one_name_for_models_and_one_for_programs() -> None:
    spec = DynamicToolSpec("pay", "shop")
    assert (spec.model_name, spec.full_name) == ("shop::pay", "shop.pay")


def test_usage_adds_up_and_an_item_has_the_detail_of_its_kind_only() -> None:
    some = TurnUsage(requests=1, input_tokens=10, output_tokens=5)
    assert (some + some).tokens == 30
    assert (some + some).requests == 2
    with pytest.raises(InvalidInput, match="user_message"):
        Item("i", "t", "u", ItemKind.USER_MESSAGE, Status.QUEUED, NOW, detail=some)


def test_envelope_of_either_stream_comes_back() -> None:
    made = Envelope("cell.started", NOW, {"a": 1}, seq=9, previous_seq=0, session_id="s", turn_id="t", item_id="i")
    assert envelope_from_json(envelope_to_json(made)) == made
