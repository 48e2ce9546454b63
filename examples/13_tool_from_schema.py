"""A tool whose description comes from elsewhere: a JSON Schema and a function, no type hints needed.

Its `CallContext` tells it about the call it answers, and passes on how far it is. The host can call a tool itself, as
a program would: the same checks, the same policy, the same record.

Run it: python examples/13_tool_from_schema.py
"""

import asyncio
from typing import Any

from cloister import CallContext, Cloister, Event, Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "nights": {"type": "integer", "minimum": 1, "maximum": 14, "default": 1},
    },
    "required": ["city"],
    "additionalProperties": False,
}


async def book(ctx: CallContext, **booking: Any) -> dict[str, Any]:
    ctx.progress("looking for a room", 0.5)
    # The key is the same if this very call is ever made again: a hotel that keeps it will not book twice.
    assert ctx.idempotency_key == f"{ctx.cell_id}/1"
    return {"room": 12, **booking}


hotel = Tool.from_schema(
    name="book",
    namespace="hotel",
    description="Book a room.",
    input_schema=SCHEMA,
    handler=book,
    side_effect="external_system",
    idempotent=False,
)


def watch(event: Event) -> None:
    print("event:", event.kind, event.data.get("message", ""))


async def main() -> None:
    async with Cloister(tools=[hotel], on_event=watch) as cloister:
        session = await cloister.open_session()
        described = await session.run("(await describe_tool('hotel.book'))['signature']")
        print("a program sees:", described.result)
        for nights in (3, 90):
            result = await session.call("hotel.book", {"city": "Rome", "nights": nights})
            print("->", result.result if result.ok else result.error and result.error.message)


asyncio.run(main())
