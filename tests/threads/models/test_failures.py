"""Providers that fail, stall, break off or send what nobody should read."""

import gzip
import json
import logging
from typing import Any

import pytest

from cloister.core.answer import AnswerLimits, Piece, Retrying, TextDelta
from cloister.core.errors import (
    AnswerInvalid,
    AnswerTooLarge,
    CloisterError,
    ContextExceeded,
    InvalidInput,
    ModelError,
    ModelFailed,
    ModelRateLimited,
    ModelRefused,
    ModelTimeout,
    ProviderUnavailable,
)
from cloister.core.message import InputImage, UserMessage, user_text
from cloister.core.offer import FreeformTool
from cloister.ports.model import Asked, Model, answered
from tests.threads.models.asking import ASKED, KEY, HandClock, answer_in, model_at, pieces_of
from tests.threads.models.wire.server import WIRES, Fails, ModelServer, Raw, Reply

_JSON = {"content-type": "application/json"}
_SSE = {"content-type": "text/event-stream"}


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_passes_is_tried_again_and_said_and_the_rest_is_not(wire: str, stream: bool) -> None:
    clock = HandClock()
    passing = [
        Fails(429, headers={"retry-after": "7"}),
        Fails(529),
        Raw(cut=True),
        Reply(text="At last."),
    ]
    passing += [Fails(status, f"no: {KEY} and\nmore") for status in (400, 401, 404, 422)]
    passing += [Fails(500)] * 4 + [Fails(429, headers={"retry-after": "3600"})]
    async with ModelServer(passing) as server, model_at(server, wire, clock, stream=stream) as model:
        pieces = await pieces_of(model, clock=clock)
        assert answer_in(pieces).message.text == "At last."
        assert answer_in(pieces).usage.requests == 4
        waits = [(one.attempt, one.code, one.wait_ms) for one in pieces if isinstance(one, Retrying)]
        assert waits == [(1, "model_rate_limited", 7000), (2, "model_failed", 1000), (3, "model_failed", 2000)]

        for status in (400, 401, 404, 422):
            with pytest.raises(ModelRefused) as refused:
                await pieces_of(model, clock=clock)
            assert refused.value.status == status
            assert refused.value.message == f"there: HTTP {status}: no: [secret] and more"
        assert len(server.heard) == 8

        with pytest.raises(ModelFailed, match=r"HTTP 500: it cannot \(tried 4 times\)"):
            await pieces_of(model, clock=clock)
        # Longer than anybody here waits.
        with pytest.raises(ModelRateLimited) as limited:
            await pieces_of(model, clock=clock)
        assert limited.value.retry_after_ms == 3_600_000
    assert not server.replies


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES)
async def test_answer_that_breaks_off_is_not_asked_for_again_once_it_was_seen(wire: str) -> None:
    text = "Some words that matter."
    # After the first of two pieces.
    half = {"anthropic": 4, "responses": 4, "chat": 2}[wire]
    overloaded: dict[str, Any] = {"type": "error", "error": {"type": "overloaded_error", "message": "too many"}}
    if wire == "chat":
        overloaded = {"error": {"message": "too many", "type": "server_error", "code": "server_error"}}
    elif wire == "responses":
        overloaded = {"type": "error", "code": "server_error", "message": "too many", "param": None}
    broken = [
        Reply(text=text, cut_after=half),
        Reply(text=text, end_after=half),
        Reply(text=text, error_after=(half, overloaded)),
    ]
    async with ModelServer(broken) as server, model_at(server, wire) as model:
        for number in (1, 2, 3):
            seen: list[Piece] = []
            with pytest.raises(ModelFailed) as failed:
                await _gather(model, seen)
            assert seen == [TextDelta(0, "Some words t")]
            assert len(server.heard) == number
            assert "tried" not in failed.value.message
        # Before anything was seen it is.
        server.replies += [
            Reply(text=text, cut_after=1),
            Reply(text=text, error_after=(1, overloaded)),
            Reply(text="Yes."),
        ]
        clock = HandClock()
        async with model_at(server, wire, clock) as patient:
            assert answer_in(await pieces_of(patient, clock=clock)).message.text == "Yes."
    assert len(server.heard) == 6


async def _gather(model: Model, seen: list[Piece]) -> None:
    async with model.request(ASKED) as pieces:
        async for piece in pieces:
            seen.append(piece)


@pytest.mark.anyio
async def test_silence_and_slowness_end_a_request() -> None:
    clock = HandClock()
    async with ModelServer([Reply(text="One Two", stall_after=2), Reply(stall_after=0)]) as server:
        async with model_at(server, "chat", clock, idle_timeout_ms=5000, timeout_ms=60_000) as model:
            async with model.request(ASKED) as pieces:
                assert await anext(pieces) == TextDelta(0, "One ")
                await server.stalled.wait()
                await clock.move(11)
                with pytest.raises(ModelTimeout, match="there: nothing was heard for 5000 ms"):
                    await anext(pieces)
        server.stalled.clear()
        server.replies = [Fails(500), Reply(stall_after=0)]
        async with model_at(server, "chat", clock, timeout_ms=3000) as model:
            async with model.request(ASKED) as pieces:
                assert isinstance(await anext(pieces), Retrying)
                await clock.move(1)
                await server.stalled.wait()
                await clock.move(2)
                with pytest.raises(ModelTimeout, match="there: no answer within 3000 ms"):
                    await anext(pieces)


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES)
async def test_conversation_that_is_too_long_is_told_from_other_refusals(wire: str) -> None:
    said = "prompt is too long: 212000 tokens > 200000 maximum"
    told = json.dumps({"error": {"message": said, "type": "invalid_request_error", "code": "context_length_exceeded"}})
    answer = Fails(400, said) if wire == "anthropic" else Raw(400, told.encode(), _JSON)
    async with ModelServer([answer]) as server, model_at(server, wire) as model:
        with pytest.raises(ContextExceeded, match="too long"):
            await answered(model, ASKED)


@pytest.mark.anyio
async def test_provider_that_cannot_be_reached_is_unavailable() -> None:
    async with ModelServer() as server:
        pass
    clock = HandClock()
    async with model_at(server, "anthropic", clock, max_retries=1) as model:
        with pytest.raises(ProviderUnavailable, match="there cannot be reached") as caught:
            await pieces_of(model, clock=clock)
    assert caught.value.hint == "is base_url right, and is it running?"


def _chat(**more: Any) -> bytes:
    message = {"role": "assistant", "content": "x"} | more
    return json.dumps(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
            {"index": 0, "finish_reason": "stop", "message": message}]}
    ).encode()  # fmt: skip


def _calls(*calls: tuple[str, str]) -> bytes:
    return _chat(tool_calls=[
        {"id": at, "type": "function", "function": {"name": name, "arguments": "{}"}} for at, name in calls
    ])  # fmt: skip


_HOSTILE: list[tuple[Raw | Reply, type[CloisterError], str]] = [
    (Raw(200, b"<html>no</html>", {"content-type": "text/html"}), AnswerInvalid, "cannot be read"),
    (Raw(200, b"{", _JSON), AnswerInvalid, "cannot be read"),
    (Raw(200, b"[" * 200_000, _JSON), AnswerInvalid, "cannot be read"),
    (Raw(200, b'{"choices": 5}', _JSON), AnswerInvalid, ""),
    (Raw(200, b"null", _JSON), AnswerInvalid, "cannot be read"),
    (Raw(200, b"\xff\xfe", _JSON), AnswerInvalid, "cannot be read"),
    (Raw(200, gzip.compress(_chat()), _JSON | {"content-encoding": "gzip"}), AnswerInvalid, "'gzip'"),
    (Raw(307, b"", {"location": "http://127.0.0.1:9/"}), AnswerInvalid, ""),
    (Raw(200, [b" " * 65536] * 40, _JSON), AnswerTooLarge, "more than 1000000 bytes on the wire"),
    (Raw(200, _chat(content="x" * 200_000), _JSON), AnswerTooLarge, "more than 100000 bytes"),
    (Raw(200, _calls(*((str(at), "f") for at in range(9))), _JSON), AnswerTooLarge, "more than 8 calls"),
    (Raw(200, _calls(("1", "f"), ("1", "f")), _JSON), AnswerInvalid, "two calls with one id"),
    (Raw(200, _calls(("1", "")), _JSON), AnswerInvalid, "whose name is no name"),
    (Raw(200, _calls(("x" * 600, "f")), _JSON), AnswerInvalid, "whose id is no id"),
]


@pytest.mark.anyio
async def test_hostile_answers_are_refused_by_name_and_nothing_of_them_is_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    limits = AnswerLimits(max_wire_bytes=1_000_000, max_bytes=100_000, max_calls=8, max_parts=16)
    async with ModelServer() as server, model_at(server, "chat", stream=False, limits=limits) as model:
        for said, kind, words in _HOSTILE:
            server.replies = [said]
            with pytest.raises(kind) as caught:
                await answered(model, ASKED)
            assert words in caught.value.message, caught.value.message
            assert len(caught.value.message) < 800
            assert not server.replies
    streamed: list[tuple[Raw | Reply, type[ModelError]]] = [
        (Reply(text="x" * 200_000), AnswerTooLarge),
        (Reply(calls=[("f", "{}")] * 9), AnswerTooLarge),
        (Raw(200, b"data: {nonsense\n\n", _SSE), AnswerInvalid),
        (Raw(200, [b"data: " + b"x" * 65536] * 40, _SSE), AnswerTooLarge),
    ]
    async with ModelServer() as server, model_at(server, "chat", limits=limits, max_retries=0) as model:
        for said, kind in streamed:
            server.replies = [said]
            with pytest.raises(kind):
                await answered(model, ASKED)
        # It still works.
        server.replies = [Reply(text="Hello.")]
        assert (await answered(model, ASKED)).message.text == "Hello."
    assert KEY not in caplog.text


@pytest.mark.anyio
async def test_surrogates_that_were_cut_in_two_are_mended_and_lone_ones_marked() -> None:
    def chunk(delta: str, finish: str = "null") -> bytes:
        head = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
        return f'data: {head}"delta":{{"content":"{delta}"}},"finish_reason":{finish}}}]}}\n\n'.encode()

    said = [chunk("a\\ud83d"), chunk("\\ude00b"), chunk("\\ud800", '"stop"'), b"data: [DONE]\n\n"]
    async with ModelServer([Raw(200, said, _SSE)]) as server, model_at(server, "chat") as model:
        pieces = await pieces_of(model)
    assert answer_in(pieces).message.text == "a😀b�"
    for piece in pieces:
        str(piece).encode()


@pytest.mark.anyio
async def test_what_a_model_cannot_do_is_refused_before_anything_is_sent() -> None:
    image = UserMessage((InputImage("data:image/png;base64,aGk="),))
    async with ModelServer() as server, model_at(server, "responses", images=False) as model:
        for asked, words in (
            (Asked((user_text("hi"),), tools=(FreeformTool("exec"),)), "takes no freeform tools, and 'exec' is one"),
            (Asked((image,)), r"takes no images here, and messages\[0\] has one"),
            (Asked(()), "was asked nothing"),
            (Asked((user_text("hi"),), tools=ASKED.tools * 2), "is offered 'exec' twice"),
            (Asked((user_text("hi"),), tool_choice="required"), "is offered nothing"),
        ):
            with pytest.raises(InvalidInput, match=words):
                await answered(model, asked)
    assert not server.heard
