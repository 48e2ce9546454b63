"""Which programs that wait lend their seats to those who stand in line, and when.

Knows nothing of seats but how many are wanted. To lend one costs a wake later: where programs usually wait for longer
than that takes, a seat is lent at once, and elsewhere when a wait has turned out to be a long one. Both are measured,
as they depend on the engine, on the disk and on what else the machine does.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

log = logging.getLogger("cloister.cells")
# Gives a seat back; done when it has. None if it is not to be had just now.
Offer: TypeAlias = "Callable[[], asyncio.Future[None] | None]"

# A wait is long that takes as long as so many wakes.
_WAKES = 2
# What a wake is taken to cost until one was seen, in seconds; and how much each that is seen counts.
_FIRST_GUESS = 0.0005
_SHARE = 0.1
# A single long one, such as the first wake, which starts a worker, says little of the next.
_MOST = 0.02


class Lending:
    def __init__(self, wanted: Callable[[], int]) -> None:
        self._wanted = wanted
        # Those who can do without their seats, the first first.
        self._offers: OrderedDict[Offer, None] = OrderedDict()
        # When the waits began that are going on, also of those who have lent their seats.
        self._since: dict[Offer, float] = {}
        # How many were asked and have not left yet.
        self._leaving = 0
        self._wait = 0.0
        self._wake = _FIRST_GUESS
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, offer: Offer) -> None:
        """A program waits from now on, and does not need its seat."""
        self._offers[offer] = None
        self._since[offer] = asyncio.get_running_loop().time()
        self.call_in()

    def take_back(self, offer: Offer) -> None:
        """The program goes on, wherever it is."""
        self._offers.pop(offer, None)
        since = self._since.pop(offer, None)
        if since is not None:
            took = min(asyncio.get_running_loop().time() - since, _MOST)
            self._wait += (took - self._wait) * _SHARE

    def woke(self, seconds: float) -> None:
        """What it took to put a program on a worker."""
        self._wake += (min(seconds, _MOST) - self._wake) * _SHARE

    def call_in(self) -> None:
        """One offer for each that stands in line, and none that nobody needs."""
        loop = asyncio.get_running_loop()
        long = _WAKES * self._wake
        while self._offers and self._wanted() > self._leaving:
            offer = next(iter(self._offers))
            left = self._since[offer] + long - loop.time() if self._wait < long else 0.0
            if left > 0:
                if self._timer is None:
                    self._timer = loop.call_later(left, self._look)
                return
            del self._offers[offer]
            leaving = offer()
            if leaving is not None:
                self._leaving += 1
                leaving.add_done_callback(self._left)

    def _look(self) -> None:
        self._timer = None
        self.call_in()

    def _left(self, gone: "asyncio.Future[None]") -> None:
        self._leaving -= 1
        if not gone.cancelled() and (error := gone.exception()) is not None:
            log.warning("a worker could not be given back: %s", error)
        self.call_in()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
