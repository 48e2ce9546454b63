"""Anthropic's messages."""

import json
from dataclasses import replace
from typing import Any

from tests.threads.models.wire.chat import Event
from tests.threads.models.wire.reply import Reply, split


def _finish(reply: Reply) -> str | None:
    if reply.finish is not None:
        return reply.finish or None
    return "tool_use" if reply.calls else "end_turn"


def whole(reply: Reply, model: str, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": f"signed-{number}"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for at, (name, arguments) in enumerate(reply.calls):
        call_id = f"toolu_{number}_{at}"
        content.append({"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": _finish(reply),
        "stop_sequence": None,
        "usage": {
            # What was cached is not counted here.
            "input_tokens": reply.input_tokens - reply.cached_tokens,
            "cache_read_input_tokens": reply.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": reply.output_tokens,
        },
    }


def events(reply: Reply, model: str, number: int) -> list[Event]:
    made: list[Event] = []

    def say(kind: str, **more: Any) -> None:
        made.append((kind, {"type": kind, **more}))

    done = whole(replace(reply, calls=[(name, "{}") for name, _ in reply.calls]), model, number)
    say("message_start", message={**done, "content": [], "stop_reason": None})
    say("ping")
    for at, block in enumerate(done["content"]):
        match block["type"]:
            case "thinking":
                say("content_block_start", index=at, content_block={**block, "thinking": "", "signature": ""})
                for text in split(reply.reasoning, reply.pieces):
                    say("content_block_delta", index=at, delta={"type": "thinking_delta", "thinking": text})
                signature = {"type": "signature_delta", "signature": block["signature"]}
                say("content_block_delta", index=at, delta=signature)
            case "text":
                say("content_block_start", index=at, content_block={"type": "text", "text": ""})
                for text in split(reply.text, reply.pieces):
                    say("content_block_delta", index=at, delta={"type": "text_delta", "text": text})
            case _:
                say("content_block_start", index=at, content_block={**block, "input": {}})
                arguments = reply.calls[int(block["id"].rpartition("_")[2])][1]
                for text in split(arguments, reply.pieces):
                    say("content_block_delta", index=at, delta={"type": "input_json_delta", "partial_json": text})
        say("content_block_stop", index=at)
    delta = {"stop_reason": done["stop_reason"], "stop_sequence": None}
    say("message_delta", delta=delta, usage={"output_tokens": reply.output_tokens})
    say("message_stop")
    return made


def failure(status: int, message: str) -> dict[str, Any]:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
    kinds |= {429: "rate_limit_error", 529: "overloaded_error"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}
