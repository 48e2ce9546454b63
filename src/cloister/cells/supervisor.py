"""The supervisor: owns every cell of a host that goes on without a caller.

It decides how many there may be, whose turn it is to get a worker, how long a finished one is kept for whoever asks,
and what becomes of them all when the host stops. Only as many cells as can soon have a worker have a task that waits
for one; the others are entries in a line that serves the sessions in turn.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cloister.cells.life import Life
from cloister.cells.line import FairLine
from cloister.cells.seats import Seats
from cloister.core.cell import CellLimits, CellState
from cloister.core.errors import CloisterError, QueueFull
from cloister.ports.clock import Clock

# How often a host that stops looks whether the programs have come to rest.
_LOOK_SECONDS = 0.01
_BUSY = frozenset({CellState.RUNNING, CellState.WAITING})


class _Lobby:
    """Those who wait for a worker of one engine, fair over sessions."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside = 0
        self._line: FairLine[tuple[Life, Callable[[], Coroutine[Any, Any, None]]]] = FairLine()

    def enter(self, owner: str, life: Life, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._inside < self._most and not self._line:
            self._start(life, work)
        else:
            self._line.put(owner, (life, work))

    def _start(self, life: Life, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._inside += 1
        # Told when it has a worker, or has ended without one: once.
        life.on_seated = self._left
        life.start(work())

    def _left(self) -> None:
        self._inside -= 1
        while self._line and self._inside < self._most:
            life, work = self._line.pop()
            # Somebody ended it while it stood here.
            if not life.ended:
                self._start(life, work)


class Supervisor:
    def __init__(self, limits: CellLimits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._lives: set[Life] = set()
        self._lobbies: dict[Seats, _Lobby] = {}
        # Finished and unread, with what forgets them; the oldest first.
        self._unread: dict[Life, Callable[[], None]] = {}
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """How many cells have not ended."""
        return len(self._lives)

    def admit(self, life: Life) -> None:
        """Raises `QueueFull` when there are too many already."""
        self.check_room()
        self._lives.add(life)

    def adopt(self, life: Life) -> None:
        """One that is there in any case: from now on it goes on without a caller."""
        self._lives.add(life)

    def check_session(self, owner: str, *, isolated: int | None, line: int) -> None:
        """Raises `QueueFull` when a session with so many isolated cells may have no more; or, if that is None, one with
        such a line, whose turn it is included."""
        if isolated is not None and isolated >= self.limits.max_isolated:
            raise QueueFull(
                f"session {owner!r} has {isolated} isolated cells already, and may have no more",
                hint="wait for some of them, or terminate them",
            )
        if isolated is None and line > self.limits.max_queued:
            raise QueueFull(
                f"session {owner!r} has {line - 1} cells in line already, and may have no more",
                hint="wait for some of them, or terminate them; isolated cells need no line",
            )

    def check_room(self) -> None:
        if self._closed:
            raise CloisterError("this Cloister is closed: make another")
        if len(self._lives) >= self.limits.max_cells:
            raise QueueFull(
                f"there are {len(self._lives)} cells already, and no more than {self.limits.max_cells} may be",
                hint="wait for some of them, or terminate them",
            )
        # They may hold megabytes each, and forgetting one would lose what was never told.
        if len(self._unread) >= self.limits.max_unread:
            raise QueueFull(
                f"nobody has read the ends of {len(self._unread)} cells, "
                f"and no more than {self.limits.max_unread} are kept",
                hint="wait for some of them: what was read is forgotten",
            )

    def ready(self, life: Life, owner: str, seats: Seats, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Drive the cell as soon as it is its session's turn for a worker."""
        if self._closed:
            return
        lobby = self._lobbies.get(seats)
        if lobby is None:
            lobby = self._lobbies[seats] = _Lobby(2 * seats.engine.capacity)
        lobby.enter(owner, life, work)

    def ended(self, life: Life, forget: Callable[[], None]) -> None:
        """The cell is over; `forget` it when nobody has asked for its end in time."""
        self._lives.discard(life)
        self._unread[life] = forget
        if self._reaper is None and not self._closed:
            self._arm()

    def read(self, life: Life) -> None:
        self._unread.pop(life, None)

    # -- age -------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        oldest = next(iter(self._unread), None)
        if oldest is None or oldest.ended_ms is None:
            self._reaper = None
            return
        left = oldest.ended_ms + self.limits.reap_after_ms - self._clock.now_ms()
        self._reaper = asyncio.get_running_loop().call_later(max(left, 1) / 1000, self._reap)

    def _reap(self) -> None:
        now_ms = self._clock.now_ms()
        for life, forget in list(self._unread.items()):
            if life.ended_ms is not None and life.ended_ms + self.limits.reap_after_ms > now_ms:
                break
            if life.observer is None:
                del self._unread[life]
                forget()
        self._arm()

    # -- the end ---------------------------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Nothing new starts. What waits is put to sleep; what computes may end, or come to a wait, for a while."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        ends = self._clock.monotonic() + self.limits.shutdown_ms / 1000
        while busy := [life for life in self._lives if life.cell.machine.state in _BUSY]:
            for life in busy:
                if life.cell.machine.state is CellState.WAITING:
                    await life.driver.hibernate()
            if not any(life.cell.machine.state is CellState.RUNNING for life in busy):
                return
            if self._clock.monotonic() >= ends:
                return
            await asyncio.sleep(_LOOK_SECONDS)
