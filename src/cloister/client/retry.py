"""When a request is sent again, and after how long.

Again is sent what has no effect (a GET), what the server does once however often it comes (a turn with an
`operation_key`, a run with a key), and what never left or was turned away at the door. All else is done at most once:
whether it was done is for the caller to find out.
"""

import random
from dataclasses import dataclass

from cloister.client.errors import Problem
from cloister.core.errors import InvalidLimits

# Nothing was done: it was refused before anybody looked at it.
_AT_THE_DOOR = frozenset({"RATE_LIMITED"})
_FOR_A_WHILE = frozenset({"SHUTTING_DOWN", "STORE_UNAVAILABLE"})
# What stands between us and the server says so, without a problem of ours.
_OF_PROXIES = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retry:
    # Of one request, the first included.
    attempts: int = 4
    # The first wait; each is twice the one before it, less up to half by chance.
    first_ms: int = 200
    most_ms: int = 5_000
    # How long a stream looks for its server before it gives up; it begins anew with each event that comes.
    reconnect_ms: int = 120_000

    def __post_init__(self) -> None:
        for name in ("attempts", "first_ms", "most_ms", "reconnect_ms"):
            value = getattr(self, name)
            if type(value) is not int or not (1 if name == "attempts" else 0) <= value < 1 << 40:
                raise InvalidLimits(f"{name} of a Retry must be a whole number that is not negative, not {value!r:.80}")

    def wait_ms(self, failed: int, asked_ms: int | None = None) -> int | None:
        """How long to wait after the `failed`th attempt; None if there is no other. `asked_ms`: what the server asks
        for. One that asks for more than `most_ms` is not waited for."""
        if failed >= self.attempts or (asked_ms is not None and asked_ms > self.most_ms):
            return None
        return max(self.pause_ms(failed), asked_ms or 0)

    def pause_ms(self, failed: int) -> int:
        whole = min(self.first_ms << min(failed - 1, 30), self.most_ms)
        # By chance, so that all who lost one server do not come back at once.
        return round(whole * random.uniform(0.5, 1))  # noqa: S311


def may_repeat(problem: Problem | None, status: int, *, repeatable: bool) -> bool:
    if problem is None:
        return repeatable and status in _OF_PROXIES
    return problem.code in _AT_THE_DOOR or (repeatable and problem.code in _FOR_A_WHILE)
