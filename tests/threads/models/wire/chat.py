"""OpenAI's chat completions."""

from typing import Any

from tests.threads.models.wire.reply import Reply, split

Event = tuple[str | None, dict[str, Any] | str]


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": 3 if reply.reasoning else 0},
    }


def _finish(reply: Reply) -> str | None:
    if reply.finish is not None:
        return reply.finish or None
    return "tool_calls" if reply.calls else "stop"


def whole(reply: Reply, model: str, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": f"call_{number}_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(reply.calls)
        ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(reply)}],
        "usage": _usage(reply),
    }


def events(reply: Reply, model: str, number: int) -> list[Event]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return None, _chunk([choice])

    def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": model,
            "choices": choices,
        }

    made = [chunk({"role": "assistant", "content": ""})]
    made += [chunk({"reasoning_content": text}) for text in split(reply.reasoning, reply.pieces)]
    made += [chunk({"content": text}) for text in split(reply.text, reply.pieces)]
    for at, (name, arguments) in enumerate(reply.calls):
        started = {"name": name, "arguments": ""}
        made.append(
            chunk({"tool_calls": [{"index": at, "id": f"call_{number}_{at}", "type": "function", "function": started}]})
        )
        made += [
            chunk({"tool_calls": [{"index": at, "function": {"arguments": text}}]})
            for text in split(arguments, reply.pieces)
        ]
    made.append(chunk({}, _finish(reply)))
    made.append((None, _chunk([]) | {"usage": _usage(reply)}))
    made.append((None, "[DONE]"))
    return made


def failure(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
