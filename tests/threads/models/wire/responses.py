"""OpenAI's responses."""

from typing import Any

from tests.threads.models.wire.chat import Event
from tests.threads.models.wire.reply import Reply, split


def _items(reply: Reply, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": [{"type": "summary_text", "text": reply.reasoning}],
                "encrypted_content": f"sealed-{number}",
            }
        )
    if reply.text:
        part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
        items.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
        )
    for at, (name, arguments) in enumerate(reply.calls):
        call_id = f"call_{number}_{at}"
        call = {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": call_id}
        items.append(call | {"name": name, "arguments": arguments, "status": "completed"})
    for at, (name, text) in enumerate(reply.customs):
        call_id = f"call_{number}_c{at}"
        items.append(
            {"type": "custom_tool_call", "id": f"ctc_{number}_{at}", "call_id": call_id, "name": name, "input": text}
        )
    return items


def whole(reply: Reply, model: str, number: int) -> dict[str, Any]:
    cut = reply.finish in ("max_output_tokens", "content_filter")
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": reply.finish} if cut else None,
        "error": None,
        "output": _items(reply, number),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 3 if reply.reasoning else 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def events(reply: Reply, model: str, number: int) -> list[Event]:
    made: list[Event] = []

    def say(kind: str, **more: Any) -> None:
        made.append((kind, {"type": kind, "sequence_number": len(made), **more}))

    done = whole(reply, model, number)
    say("response.created", response={**done, "status": "in_progress", "output": [], "usage": None})
    for at, item in enumerate(done["output"]):
        about: dict[str, Any] = {"item_id": item["id"], "output_index": at}
        match item["type"]:
            case "reasoning":
                empty = {"type": "summary_text", "text": ""}
                say(
                    "response.output_item.added", output_index=at, item={**item, "summary": [], "encrypted_content": ""}
                )
                say("response.reasoning_summary_part.added", **about, summary_index=0, part=empty)
                for text in split(reply.reasoning, reply.pieces):
                    say("response.reasoning_summary_text.delta", **about, summary_index=0, delta=text)
                say("response.reasoning_summary_text.done", **about, summary_index=0, text=reply.reasoning)
                say("response.reasoning_summary_part.done", **about, summary_index=0, part=item["summary"][0])
            case "message":
                begun: dict[str, Any] = {**item, "status": "in_progress", "content": []}
                say("response.output_item.added", output_index=at, item=begun)
                part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
                say("response.content_part.added", **about, content_index=0, part=part)
                for text in split(reply.text, reply.pieces):
                    say("response.output_text.delta", **about, content_index=0, delta=text, logprobs=[])
                say("response.output_text.done", **about, content_index=0, text=reply.text, logprobs=[])
                say("response.content_part.done", **about, content_index=0, part=item["content"][0])
            case "custom_tool_call":
                say("response.output_item.added", output_index=at, item={**item, "input": ""})
                for text in split(item["input"], reply.pieces):
                    say("response.custom_tool_call_input.delta", **about, delta=text)
                say("response.custom_tool_call_input.done", **about, input=item["input"])
            case _:
                say("response.output_item.added", output_index=at, item={**item, "arguments": ""})
                for text in split(item["arguments"], reply.pieces):
                    say("response.function_call_arguments.delta", **about, delta=text)
                say("response.function_call_arguments.done", **about, arguments=item["arguments"], name=item["name"])
        say("response.output_item.done", output_index=at, item=item)
    say(f"response.{done['status']}", response=done)
    return made
