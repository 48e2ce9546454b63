"""Where a namespace sits: a checked-out Monty worker, reached in one of Monty's two ways.

`Desk` is the async client: best for a program that is run in one go. `Cabin` is the sync client in a lane: best for
one that stops at calls, because everything between two stops happens in the lane. Both are one worker and one warden.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pydantic_monty as monty

from cloister.core.errors import EngineUnavailable, SnapshotCorrupt
from cloister.engines.monty.lane import Lane
from cloister.engines.warden import Warden

# What goes wrong when a worker cannot be had, or is gone.
TROUBLE = (monty.MontyError, OSError, RuntimeError, TimeoutError)


class Desk:
    """A worker behind Monty's async client."""

    def __init__(self, session: Any) -> None:
        self.session: Any = session
        self.warden = Warden(session.worker_pid)
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def take(cls, session: Any) -> "Desk":
        try:
            await session.__aenter__()
        except TROUBLE as error:
            raise EngineUnavailable(f"no Monty worker is to be had: {error}") from error
        return cls(session)

    async def dump(self) -> bytes:
        return await self.session.dump()

    async def close(self) -> None:
        """Once begun it is not given up, whoever is cancelled meanwhile."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        session, self.session = self.session, None
        try:
            await session.__aexit__(None, None, None)
        except TROUBLE:
            pass  # the worker is gone already; the pool replaces it
        self.warden.close()


class Cabin:
    """A worker behind Monty's sync client, in a lane of its own."""

    def __init__(self, session: Any, lane: Lane) -> None:
        self.session: Any = session
        self.lane = lane
        self.warden = Warden(session.worker_pid)

    @classmethod
    async def take(cls, session: Any, lane: Lane) -> "Cabin":
        await cls._enter(session, lane, session.__enter__)
        return cls(session, lane)

    @staticmethod
    async def _enter(session: Any, lane: Lane, enter: Callable[[], Any]) -> Any:
        try:
            return await lane.do(enter)
        except TROUBLE as error:
            raise EngineUnavailable(f"no Monty worker is to be had: {error}") from error
        except asyncio.CancelledError:
            # It is entered all the same: the lane takes the worker back before it does anything else.
            lane.send(lambda: _left(session))
            raise

    @classmethod
    async def take_with(cls, session: Any, lane: Lane, load: Callable[[Any], Any]) -> "tuple[Cabin, Any]":
        """As `take`, and what `load` makes of the session, in one go. Raises `SnapshotCorrupt` if it cannot."""

        def enter() -> Any:
            session.__enter__()
            try:
                return load(session)
            except BaseException as error:
                session.__exit__(None, None, None)
                if isinstance(error, TROUBLE):
                    raise SnapshotCorrupt(f"the Python engine cannot read these bytes: {error}") from None
                raise

        loaded = await cls._enter(session, lane, enter)
        return cls(session, lane), loaded

    async def dump(self) -> bytes:
        return await self.lane.do(self.session.dump)

    async def close(self) -> None:
        """The worker goes back before the lane does anything else; nobody need wait for that."""
        session, self.session = self.session, None
        if session is not None:
            self.lane.send(lambda: _left(session))
            self.warden.close()


def _left(session: Any) -> None:
    """In a lane: the worker goes back to its pool."""
    try:
        session.__exit__(None, None, None)
    except TROUBLE:
        pass  # it is gone already; the pool replaces it
