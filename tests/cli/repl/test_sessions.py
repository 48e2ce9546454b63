import asyncio
import signal
from typing import cast

import pytest

from cloister import Cloister
from cloister.cli.repl import sessions as module
from cloister.cli.repl.cells import Conversation
from cloister.cli.repl.sessions import CallBook, Sessions
from cloister.cli.terminal import ProgramOutput


class Stubborn:
    """A conversation whose cell does not stop."""

    def __init__(self) -> None:
        self.stops = 0
        self.over = asyncio.Event()

    async def run(self, _code: str) -> None:
        await self.over.wait()

    async def stop_running(self) -> None:
        self.stops += 1
        await self.over.wait()


def test_second_interrupt_while_a_cell_does_not_stop_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []

    def leave(signum: int) -> None:
        left.append(signum)
        raise SystemExit

    monkeypatch.setattr(module, "leave", leave)

    async def main() -> None:
        async with Cloister() as cloister:
            sessions = Sessions(cloister, await cloister.open_session("repl"), ProgramOutput(), CallBook())
            stubborn = Stubborn()
            sessions.current = cast("Conversation", stubborn)
            assert not sessions.interrupt(signal.SIGINT)
            running = asyncio.ensure_future(sessions.run("1"))
            await asyncio.sleep(0)
            assert not sessions.interrupt(signal.SIGTERM)
            assert sessions.interrupt(signal.SIGINT)
            await asyncio.sleep(0)
            assert (stubborn.stops, left) == (1, [])
            with pytest.raises(SystemExit):
                sessions.interrupt(signal.SIGINT)
            assert left == [signal.SIGINT]
            stubborn.over.set()
            await running
            assert not sessions.interrupt(signal.SIGINT)

    asyncio.run(main())
