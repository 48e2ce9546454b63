"""What a program does while somebody waits for it, as progress notifications: its notes, and the calls that are over.

Only a client that has asked for progress pays for it. What the program has sent by the time the answer is ready is sent
before the answer.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext

from cloister.core.event import Event
from cloister.sessions import Session
from cloister.sessions.events import EventStream

_LONGEST = 2000


class Progress:
    """Hears of one cell, from the moment that its id is known."""

    def __init__(self) -> None:
        self.cell_id: str | None = None
        self._count = 0

    async def send(self, context: ServerRequestContext[Any], stream: EventStream) -> None:
        async for event in stream:
            line = self._line(event)
            if line is not None:
                self._count += 1
                await context.session.report_progress(self._count, None, line)

    def _line(self, event: Event) -> str | None:
        if self.cell_id is None or event.data.get("cell_id") != self.cell_id:
            return None
        match event.kind:
            case "cell.notified":
                return str(event.data["message"])[:_LONGEST]
            case "call.settled" | "call.denied" | "call.unknown":
                record = event.data["record"]
                return f"{record['name']}: {record['status']}"
            case _:
                return None


@asynccontextmanager
async def progress_of(context: ServerRequestContext[Any], session: Session) -> AsyncGenerator[Progress]:
    """Around whatever waits for a cell of `session`."""
    progress = Progress()
    if not context.meta or context.meta.get("progress_token") is None:
        yield progress
        return
    stream = session.events()
    task = asyncio.ensure_future(progress.send(context, stream))
    try:
        yield progress
        # What is unread is read to its end; the stream gives nothing more after that.
        await stream.aclose()
        await task
    finally:
        await stream.aclose()
        if not task.done():
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
