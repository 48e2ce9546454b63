"""Where a cell's program is: on a worker, or as bytes while it only waits.

A program that ran in its session's namespace is the namespace's interpreter as long as it is awake. Asleep it is
nothing but bytes, and the namespace is what it was before the cell, until the cell ends well.
"""

import asyncio

from cloister.cells.lending import Offer
from cloister.cells.seats import Namespace, Seats
from cloister.core.errors import EngineUnavailable
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Interpreter


class Berth:
    def __init__(self, seats: Seats, namespace: Namespace, bounds: SessionLimits, image: bytes | None = None) -> None:
        self._seats = seats
        self._namespace = namespace
        self._bounds = bounds
        own = namespace.limits
        # Memory and stack are bounds of an interpreter, so a narrower cell has one of its own. What it did to the
        # namespace is on the tape; its bytes would carry the narrow limits for good.
        self.narrow = bounds.memory_mb < own.memory_mb or bounds.max_stack_depth < own.max_stack_depth
        self.interpreter: Interpreter | None = None
        self.image = image

    @property
    def asleep(self) -> bool:
        return self.interpreter is None

    async def board(self) -> Interpreter:
        """The namespace, awake, for a program that begins. Raises `SnapshotCorrupt` when it does not fit into the
        cell's memory."""
        if self.narrow:
            self.interpreter = await self._seats.borrow(self._namespace, self._bounds)
        else:
            self.interpreter = await self._seats.take(self._namespace)
        return self.interpreter

    def board_at_once(self) -> Interpreter | None:
        """As `board`, for a namespace that has kept its seat; None for any other."""
        if not self.narrow:
            self.interpreter = self._seats.take_at_once(self._namespace)
        return self.interpreter

    async def awake(self) -> Interpreter:
        """The program, in any free seat."""
        if self.interpreter is None:
            opened = await self._seats.open(self._bounds, self.image, self._namespace.seed, owner=self._namespace.owner)
            if not self.narrow:
                self._seats.adopt(self._namespace, opened)
            self.interpreter, self.image = opened, None
        return self.interpreter

    async def dump(self) -> bytes:
        """The program's bytes, wherever it is. Raises `EngineUnavailable` when its worker is gone."""
        if self.interpreter is not None:
            return await self.interpreter.dump()
        if self.image is None:
            raise EngineUnavailable("the program has left its worker")
        return self.image

    async def sleep(self) -> bytes:
        """Become bytes, and give the worker to others."""
        image = await self.dump()
        if self.interpreter is not None:
            await self.give_up()
        self.image = image
        return image

    def offer(self, offer: Offer) -> None:
        """The program waits: others may have its seat."""
        self._seats.offer(offer)

    def take_back(self, offer: Offer) -> None:
        self._seats.take_back(offer)

    def hand_on(self, image: bytes) -> "asyncio.Future[None]":
        """As `sleep`, of a program whose bytes are known: it is nothing else from now on. Done when the worker is free,
        for which the program need not wait."""
        self.image = image
        interpreter, self.interpreter = self.interpreter, None
        assert interpreter is not None, "the program is bytes already"
        return self._seats.part(self._namespace, interpreter)

    async def give_up(self) -> None:
        """Leave the worker without a trace in the namespace."""
        interpreter, self.interpreter = self.interpreter, None
        if interpreter is None:
            return
        if interpreter is self._namespace.interpreter:
            await self._seats.lose(self._namespace)
        else:
            await self._seats.give_back(interpreter)

    def settle_at_once(self) -> bool:
        """As `settle_down`, where there is nothing to wait for; False where there is, and then nothing happens."""
        if self.interpreter is None or self.interpreter is not self._namespace.interpreter:
            return False
        if not self._seats.leave_at_once(self._namespace):
            return False
        self.interpreter = None
        return True

    async def settle_down(self) -> None:
        """The program is over and fine: its interpreter keeps the seat if it is the namespace's own."""
        interpreter, self.interpreter = self.interpreter, None
        if interpreter is None:
            return
        if interpreter is self._namespace.interpreter:
            await self._seats.leave(self._namespace)
        else:
            await self._seats.give_back(interpreter)
