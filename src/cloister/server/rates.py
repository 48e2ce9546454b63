"""How often a token may ask: a bucket for each, filled evenly, that holds what a minute brings."""

import math
import time


class Rates:
    def __init__(self, per_minute: int | None) -> None:
        self._most = per_minute
        # What is left, and when that was so. As many entries as there are tokens.
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> int:
        """0, or after how many seconds to come again."""
        if self._most is None:
            return 0
        now = time.monotonic()
        left, then = self._left.get(name, (float(self._most), now))
        left = min(left + (now - then) * self._most / 60, self._most)
        if left < 1:
            self._left[name] = (left, now)
            return math.ceil((1 - left) * 60 / self._most)
        self._left[name] = (left - 1, now)
        return 0
