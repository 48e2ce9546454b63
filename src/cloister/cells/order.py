"""Whose turn it is in a session: one at a time, in the order in which they came.

A cell holds its turn from its start to its end, also while it sleeps. Cells wait as entries in a line, without a
task. Those who cannot wait for as long as a person may take to answer say so: they are turned away when the holder
falls asleep.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Place:
    """Somebody in line. `called` when it is its turn."""

    called: Callable[[], None]
    # Called in the place of `called` when the holder sleeps; None for those who wait as long as it takes.
    turned_away: Callable[[], None] | None = None


class Order:
    __slots__ = ("_asleep", "_holder", "_line")

    def __init__(self) -> None:
        self._holder: Place | None = None
        self._asleep = False
        self._line: deque[Place] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._line)

    @property
    def free(self) -> bool:
        return self._holder is None

    def enter(self, place: Place) -> None:
        """Take the turn, or a place in the line for it."""
        if self._holder is None:
            self._holder = place
            place.called()
        elif self._asleep and place.turned_away is not None:
            place.turned_away()
        else:
            self._line.append(place)

    def leave(self, place: Place) -> None:
        """The turn is over, or the place in line is given up. For one who has neither, nothing happens."""
        if place is not self._holder:
            if place in self._line:
                self._line.remove(place)
            return
        self._holder, self._asleep = None, False
        if self._line:
            self._holder = self._line.popleft()
            self._holder.called()

    def fall_asleep(self) -> None:
        """The holder waits for a person: those who cannot wait as long are told so."""
        self._asleep = True
        impatient = [place for place in self._line if place.turned_away is not None]
        for place in impatient:
            self._line.remove(place)
            if place.turned_away is not None:
                place.turned_away()

    def wake(self) -> None:
        self._asleep = False

    async def turn(self) -> Place | None:
        """The turn, to be left with `leave`. None if the holder sleeps."""
        if self._holder is None:
            self._holder = place = Place(_at_once)
            return place
        mine: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answer(got: bool) -> None:
            # A waiter that was cancelled in this very moment passes the turn on below.
            if not mine.done():
                mine.set_result(got)

        place = Place(lambda: answer(True), lambda: answer(False))
        self.enter(place)
        try:
            return place if await mine else None
        except asyncio.CancelledError:
            self.leave(place)
            raise


def _at_once() -> None:
    """It was its turn when it came."""
