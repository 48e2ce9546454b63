"""The parameter that receives the call's context, and what the context tells."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Optional

import pytest

from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.tools.context import CallContext
from cloister.tools.tool import Tool
from tests.tools import postponed


def _context(**changes: Any) -> CallContext:
    made = CallContext("s", "c", call_id="cal_1", name="it", idempotency_key="c/1", deadline=time.monotonic() + 5)
    return dataclasses.replace(made, _stop=threading.Event(), **changes)


# -- which parameter it is ----------------------------------------------------------------------------------------


def plain(order_id: str, ctx: CallContext) -> str: ...
def other_name(order_id: str, call: CallContext) -> str: ...
def underscored(order_id: str, _ctx: CallContext) -> str: ...
def first(ctx: CallContext, order_id: str) -> str: ...
def keyword_only(order_id: str, *, ctx: CallContext) -> str: ...
def optional(order_id: str, ctx: CallContext | None = None) -> str: ...
def old_optional(order_id: str, ctx: Optional[CallContext] = None) -> str: ...  # noqa: UP045
def quoted(order_id: str, ctx: "CallContext") -> str: ...
def quoted_optional(order_id: str, ctx: "CallContext | None" = None) -> str: ...
def half_quoted(order_id: str, ctx: Optional["CallContext"] = None) -> str: ...
def annotated(order_id: str, ctx: Annotated[CallContext, "the call"]) -> str: ...


class Caller:
    async def __call__(self, order_id: str, ctx: CallContext) -> str: ...

    def method(self, order_id: str, ctx: CallContext) -> str: ...


TAKING: list[tuple[Callable[..., Any], str]] = [
    (plain, "ctx"),
    (other_name, "call"),
    (underscored, "_ctx"),
    (first, "ctx"),
    (keyword_only, "ctx"),
    (optional, "ctx"),
    (old_optional, "ctx"),
    (quoted, "ctx"),
    (quoted_optional, "ctx"),
    (half_quoted, "ctx"),
    (annotated, "ctx"),
    (Caller(), "ctx"),
    (Caller().method, "ctx"),
    (postponed.plain, "ctx"),
    (postponed.optional, "ctx"),
    (postponed.old_optional, "ctx"),
    (postponed.annotated, "ctx"),
    (postponed.aliased, "ctx"),
    (postponed.unseen, "ctx"),
]
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}


@pytest.mark.parametrize(("handler", "name"), TAKING)
def test_parameter_annotated_with_the_context_is_no_argument(handler: Callable[..., Any], name: str) -> None:
    made = Tool(handler, name="it")
    assert made.takes_context == name
    assert list(made.capability.input_schema["properties"]) == ["order_id"]
    assert made.bind(made.arrange(["A7"], {}, Language.PYTHON)).kwargs == {"order_id": "A7"}


@pytest.mark.parametrize(("handler", "name"), TAKING)
def test_handler_of_a_given_schema_takes_the_context_alike(handler: Callable[..., Any], name: str) -> None:
    made = Tool.from_schema(name="it", description="", input_schema=SCHEMA, handler=handler)
    assert made.takes_context == name
    assert made.bind({"order_id": "A7"}).kwargs == {"order_id": "A7"}


def without(order_id: str, ctx: str = "") -> str: ...
def no_hint(order_id: str, ctx=None) -> str: ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]


NOT_TAKING: list[Callable[..., Any]] = [without, no_hint]


@pytest.mark.parametrize("handler", NOT_TAKING)
def test_name_alone_makes_no_context(handler: Callable[..., Any]) -> None:
    made = Tool(handler, name="it")
    assert made.takes_context is None
    assert list(made.capability.input_schema["properties"]) == ["order_id", "ctx"]


def test_program_cannot_give_the_context() -> None:
    for made in (Tool(plain), Tool.from_schema(name="it", description="", input_schema=SCHEMA, handler=plain)):
        with pytest.raises(ValueError, match="not known"):
            made.bind({"order_id": "A7", "ctx": {"call_id": "forged"}})


def test_program_cannot_give_the_context_to_a_handler_that_takes_any_name() -> None:
    def handler(ctx: CallContext, **names: Any) -> None: ...

    made = Tool.from_schema(name="it", description="", input_schema={"type": "object"}, handler=handler)
    assert made.bind({"anything": 1}).kwargs == {"anything": 1}
    with pytest.raises(ValueError, match="not known"):
        made.bind({"ctx": 1})


def two(a: CallContext, b: CallContext) -> None: ...
def two_optional(a: CallContext, b: CallContext | None = None) -> None: ...


@pytest.mark.parametrize("handler", [two, two_optional])
def test_two_contexts_are_refused_by_name(handler: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="'a' and 'b'") as refusal:
        Tool(handler, name="it")
    assert refusal.value.hint
    with pytest.raises(InvalidInput, match="'a' and 'b'"):
        Tool.from_schema(name="it", description="", handler=handler)


def test_context_that_cannot_be_given_by_name_is_refused() -> None:
    def handler(ctx: CallContext, /) -> None: ...

    with pytest.raises(InvalidInput, match="'ctx' is positional-only"):
        Tool(handler)


def test_context_that_nobody_can_recognise_is_refused_when_the_hints_are_read() -> None:
    with pytest.raises(InvalidInput, match="'ctx'") as refusal:
        _ = Tool(postponed.renamed_unseen).capability
    assert "import" in str(refusal.value.hint)


def test_postponed_hints_keep_their_types_and_defaults() -> None:
    made = Tool(postponed.several)
    assert made.capability.input_schema["properties"] == {
        "amount": {"type": "integer"},
        "note": {"type": "string", "default": ""},
    }
    assert made.capability.output_schema == {"type": "integer"}
    assert made.is_async


def test_tool_with_a_context_can_still_be_called_in_plain_python() -> None:
    assert Tool(postponed.plain)("A7", ctx=_context()) == "A7 cal_1"


# -- what it tells ------------------------------------------------------------------------------------------------


def test_cancelled_is_seen_from_another_thread() -> None:
    context = _context()
    assert not context.cancelled
    thread = threading.Thread(target=context.cancel)
    thread.start()
    thread.join()
    assert context.cancelled


def test_remaining_time_is_counted_to_the_deadline_and_never_below_nothing() -> None:
    assert 0 < _context().remaining_ms <= 5000
    assert _context(deadline=time.monotonic() - 1).remaining_ms == 0


def test_progress_reaches_whoever_watches_and_nobody_is_fine() -> None:
    seen: list[tuple[str, float | None]] = []

    def report(message: str, fraction: float | None) -> None:
        seen.append((message, fraction))

    context = _context(report=report)
    context.progress("half way", 0.5)
    context.progress("more")
    assert seen == [("half way", 0.5), ("more", None)]
    _context().progress("to nobody")


def test_two_contexts_are_cancelled_apart() -> None:
    one, other = _context(), _context()
    one.cancel()
    assert (one.cancelled, other.cancelled) == (True, False)
