"""Ids: a prefix that says what it names, then 26 characters that sort by time.

The characters are Crockford's base 32 over 48 bits of milliseconds and 80 bits of chance. Within one
millisecond the chance part counts up, so ids made by one source never go backwards.
"""

import os
import re
import threading
from collections.abc import Callable
from typing import NewType

from cloister.core.errors import InvalidSessionId

SessionId = NewType("SessionId", str)
CellId = NewType("CellId", str)
CallId = NewType("CallId", str)
SnapshotId = NewType("SnapshotId", str)
ThreadId = NewType("ThreadId", str)
TurnId = NewType("TurnId", str)
ItemId = NewType("ItemId", str)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_SESSION_ID = re.compile(r"[a-zA-Z0-9_\-]{1,64}\Z")


class IdSource:
    """Makes ids. `now_ms` and `chance` are given, so that tests get the same ids twice."""

    def __init__(self, now_ms: Callable[[], int], chance: Callable[[int], bytes] = os.urandom) -> None:
        self._now_ms = now_ms
        self._chance = chance
        self._stamp = self._era = -1
        self._era_letters = ""
        self._head = ""
        self._count = 0
        # Ids are also made in worker threads; two of them must never get the same.
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        with self._lock:
            now_ms = self._now_ms()
            if now_ms > self._stamp:
                self._stamp = now_ms
                # The top bit stays clear: room to count up within the millisecond.
                self._count = int.from_bytes(self._chance(10), "big") >> 1
                self._head = self._stamped(now_ms) + _letters(self._count >> 20)
            else:
                self._count += 1
                if not self._count & 0xFFFFF:
                    self._head = self._stamped(self._stamp) + _letters(self._count >> 20)
            count = self._count
            # Only the last four characters change from one id to the next.
            return prefix + self._head + _PAIRS[(count >> 10) & 1023] + _PAIRS[count & 1023]

    def _stamped(self, now_ms: int) -> str:
        """The time as ten characters, of which the first six change every seventeen minutes."""
        era = now_ms >> 20
        if era != self._era:
            self._era, self._era_letters = era, _letters(era)[-6:]
        return self._era_letters + _PAIRS[now_ms >> 10 & 1023] + _PAIRS[now_ms & 1023]


def _letters(value: int) -> str:
    """60 bits in base 32, two characters at a time: half the work of one by one."""
    pairs = _PAIRS
    return (
        pairs[value >> 50 & 1023]
        + pairs[value >> 40 & 1023]
        + pairs[value >> 30 & 1023]
        + pairs[value >> 20 & 1023]
        + pairs[value >> 10 & 1023]
        + pairs[value & 1023]
    )


def check_session_id(value: object) -> SessionId:
    if not isinstance(value, str) or not _SESSION_ID.match(value):
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
        raise InvalidSessionId(f"{shown} is not a session id: use 1 to 64 letters, digits, '_' and '-'")
    return SessionId(value)
