"""Seats: the few workers of an engine, shared by any number of namespaces.

A namespace that is not in use keeps its seat as long as nobody needs it, because the next cell then costs no
load. When all seats are taken, the one unused for longest is dumped to bytes and its worker goes to the next.
Those who find every seat busy wait in line, and are served in turn, session by session. A program that only waits, and
whose bytes are at hand, offers its seat: it goes to whoever stands in line, and stays where it is while nobody does.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from cloister.cells.lending import Lending, Offer
from cloister.cells.line import FairLine
from cloister.cells.tape import Tape, TapeBroken
from cloister.core.errors import EngineUnavailable
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Engine, Interpreter


class Namespace:
    """A session's variables and functions: alive on a worker, or as bytes. Used by one cell at a time."""

    def __init__(
        self,
        limits: SessionLimits,
        seed: int,
        state: bytes | None = None,
        *,
        owner: str = "",
        lasting: bool = True,
    ) -> None:
        self.limits = limits
        self.seed = seed
        # The session whose turn it is when the namespace gets a seat.
        self.owner = owner
        # Whether anybody will need it when its cell is over.
        self.lasting = lasting
        self.state = state
        # Where the bytes are, while nobody has needed them.
        self.load: Callable[[], Awaitable[bytes | None]] | None = None
        self.tape = Tape()
        self.interpreter: Interpreter | None = None
        # Set while the namespace is being put to bytes by somebody who needs its seat.
        self.leaving: asyncio.Future[None] | None = None
        # Cells whose effects on the namespace are gone and that nobody has been told about yet.
        self.forgotten = 0


class Seats:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._free = engine.capacity
        self._idle: OrderedDict[int, Namespace] = OrderedDict()
        self._line: FairLine[asyncio.Future[None]] = FairLine()
        self._emptying: set[asyncio.Future[None]] = set()
        self._lending = Lending(lambda: len(self._line))

    def offer(self, offer: Offer) -> None:
        """The seat of a program that waits is there for others: when somebody needs it, `offer` is called, and gives it
        back. The program takes it back when it goes on."""
        self._lending.offer(offer)

    def take_back(self, offer: Offer) -> None:
        self._lending.take_back(offer)

    async def take(self, namespace: Namespace) -> Interpreter:
        """A live interpreter for `namespace`, which from now on is in use: `leave` or `lose` it."""
        await self._load(namespace)
        self._idle.pop(id(namespace), None)
        while namespace.leaving is not None:
            await asyncio.shield(namespace.leaving)
        if namespace.interpreter is not None:
            return namespace.interpreter
        broken = False
        while True:
            try:
                return await self._open(namespace)
            except TapeBroken:
                # It may have been the worker's fault, once.
                broken = not broken
                if broken:
                    continue
                # Better to be one cell back, and say so, than never to run again.
                if not namespace.tape.drop_last():
                    raise EngineUnavailable("the namespace could not be rebuilt") from None
                namespace.forgotten += 1

    def take_at_once(self, namespace: Namespace) -> Interpreter | None:
        """As `take`, of a namespace that has kept its seat; None for any other."""
        if namespace.interpreter is None or namespace.load is not None or namespace.leaving is not None:
            return None
        self._idle.pop(id(namespace), None)
        return namespace.interpreter

    async def _open(self, namespace: Namespace) -> Interpreter:
        interpreter = namespace.interpreter = await self.open(
            namespace.limits, namespace.state, namespace.seed, owner=namespace.owner
        )
        try:
            await namespace.tape.play(interpreter, namespace.limits)
            # What was played once is not played again when the next worker dies.
            await self._save(namespace)
        except EngineUnavailable as error:
            await self.lose(namespace)
            raise TapeBroken("the namespace could not be put to bytes") from error
        except BaseException:
            await self.lose(namespace)
            raise
        return interpreter

    async def borrow(self, namespace: Namespace, limits: SessionLimits) -> Interpreter:
        """An interpreter with narrower limits and this namespace's contents, in a seat of its own."""
        await self.save(namespace)
        await self.lose(namespace)
        return await self.open(limits, namespace.state, namespace.seed, owner=namespace.owner)

    async def open(self, limits: SessionLimits, state: bytes | None, seed: int, *, owner: str = "") -> Interpreter:
        """An interpreter from these very bytes, in a seat of its own: `give_back` it, or let a namespace adopt it."""
        await self._seat(owner)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            try:
                opened = await self.engine.open(limits, state, seed=seed)
            except EngineUnavailable:
                # A worker may have died in its rest, and nobody had noticed: the next one is another.
                opened = await self.engine.open(limits, state, seed=seed)
            if state is not None:
                self._lending.woke(loop.time() - began)
            return opened
        except BaseException:
            self._give()
            raise

    def adopt(self, namespace: Namespace, interpreter: Interpreter) -> None:
        """The namespace is from now on what this interpreter holds, and is in use."""
        if namespace.interpreter is not None:
            raise RuntimeError("the namespace has an interpreter already")
        namespace.interpreter = interpreter

    def part(self, namespace: Namespace, interpreter: Interpreter) -> "asyncio.Future[None]":
        """A program is bytes from now on, and its worker goes back. Done when it has."""
        if interpreter is namespace.interpreter:
            namespace.interpreter = None
        return self._closing(interpreter)

    async def give_back(self, interpreter: Interpreter) -> None:
        # Whoever is cancelled here does not keep the worker from going back.
        await asyncio.shield(self._closing(interpreter))

    def _closing(self, interpreter: Interpreter) -> "asyncio.Future[None]":
        closing = asyncio.ensure_future(self._close(interpreter))
        self._emptying.add(closing)
        closing.add_done_callback(self._emptying.discard)
        return closing

    async def _close(self, interpreter: Interpreter) -> None:
        try:
            await interpreter.close()
        finally:
            self._give()

    async def leave(self, namespace: Namespace) -> None:
        """The cell is over. The namespace keeps its seat unless somebody waits for one."""
        if not namespace.lasting:
            await self.lose(namespace)
            return
        try:
            if namespace.tape.full:
                await self._save(namespace)
        except EngineUnavailable:
            await self.lose(namespace)
            return
        except BaseException:
            # Cancelled in the middle of a dump, which its worker may not survive.
            await asyncio.shield(self.lose(namespace))
            raise
        if not self.leave_at_once(namespace):
            await self.rest(namespace)

    def leave_at_once(self, namespace: Namespace) -> bool:
        """As `leave`, of a namespace that keeps its seat as it is; False for any other, and then nothing happens."""
        if self._line or not namespace.lasting or namespace.tape.full:
            return False
        self._idle[id(namespace)] = namespace
        return True

    async def lose(self, namespace: Namespace) -> None:
        """The interpreter is dead or not to be trusted: the namespace is what its bytes and its tape say."""
        self._idle.pop(id(namespace), None)
        interpreter, namespace.interpreter = namespace.interpreter, None
        if interpreter is not None:
            await self.give_back(interpreter)

    async def forget(self, namespace: Namespace, load: Callable[[], Awaitable[bytes | None]]) -> None:
        """What the namespace holds does not count: it is what `load` will say."""
        await self.lose(namespace)
        namespace.tape.clear()
        namespace.state, namespace.load = None, load

    async def rest(self, namespace: Namespace) -> None:
        """Give the namespace's seat away. If its worker has died, bytes and tape still say what it held."""
        departure = self._depart(namespace)
        if departure is not None:
            try:
                await departure
            finally:
                self._give()

    def _depart(self, namespace: Namespace) -> "Coroutine[Any, Any, None] | None":
        """Begin to put the namespace to bytes: from this call on, nobody gets at its interpreter any more. The seat
        stays with the caller. None if it has no seat."""
        interpreter, namespace.interpreter = namespace.interpreter, None
        if interpreter is None:
            return None
        namespace.leaving = asyncio.get_running_loop().create_future()
        return self._see_off(namespace, interpreter, namespace.leaving)

    async def _see_off(self, namespace: Namespace, interpreter: Interpreter, gone: "asyncio.Future[None]") -> None:
        try:
            if len(namespace.tape):
                namespace.state = await interpreter.dump()
                namespace.tape.clear()
        except EngineUnavailable:
            pass  # bytes and tape still say what it held
        finally:
            try:
                await interpreter.close()
            finally:
                namespace.leaving = None
                gone.set_result(None)

    async def save(self, namespace: Namespace) -> bytes | None:
        """The namespace as bytes, up to date. None for one that never ran anything."""
        await self._load(namespace)
        if len(namespace.tape):
            await self.take(namespace)
            try:
                await self._save(namespace)
            except EngineUnavailable:
                # The worker died between two cells: another one plays the tape, and saves.
                await self.lose(namespace)
                await self.take(namespace)
            except BaseException:
                await asyncio.shield(self.lose(namespace))
                raise
            await self.leave(namespace)
        return namespace.state

    async def _load(self, namespace: Namespace) -> None:
        if namespace.load is not None:
            namespace.state = await namespace.load()
            namespace.load = None

    async def _save(self, namespace: Namespace) -> None:
        interpreter = namespace.interpreter
        if interpreter is not None and len(namespace.tape):
            # If the worker dies here, bytes and tape are as they were: nothing is lost.
            namespace.state = await interpreter.dump()
            namespace.tape.clear()

    async def _seat(self, owner: str) -> None:
        """A seat for whoever asks, in the order in which they asked; when several sessions ask, in turn."""
        if not self._line and await self._seat_at_once():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.put(owner, turn)
        self._lending.call_in()
        try:
            await turn
        except asyncio.CancelledError:
            # The seat may have been handed over in the same moment: it goes to the next in line.
            if turn.done() and not turn.cancelled():
                self._give()
            else:
                self._line.remove(owner, turn)
            raise

    async def _seat_at_once(self) -> bool:
        if self._free > 0:
            self._free -= 1
            return True
        if self._idle:
            _, oldest = self._idle.popitem(last=False)
            # Its seat is taken over, past the line. Whoever is cancelled here must not take it along.
            departure = self._depart(oldest)
            if departure is None:
                return True
            emptying = asyncio.ensure_future(departure)
            self._emptying.add(emptying)
            emptying.add_done_callback(self._emptying.discard)
            try:
                await asyncio.shield(emptying)
            except asyncio.CancelledError:
                emptying.add_done_callback(lambda _: self._give())
                raise
            return True
        return False

    def _give(self) -> None:
        """Hand a seat to the first in line, or leave it free."""
        while self._line:
            turn = self._line.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    async def close(self) -> None:
        """Every idle interpreter goes; their namespaces are not saved."""
        self._lending.close()
        if self._emptying:
            await asyncio.wait(self._emptying)
        while self._idle:
            _, namespace = self._idle.popitem(last=False)
            await self.lose(namespace)
