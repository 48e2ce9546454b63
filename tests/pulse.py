"""Time as a thread lives through it: without what it stood in line for a core, which other processes decide.

A test that asks whether the event loop stood still means "because of us". On a busy machine every thread stands still
now and then; the kernel counts for how long.
"""

import time
from pathlib import Path

_SCHEDULED = Path("/proc/thread-self/schedstat")


def lived_s() -> float:
    """Seconds since some moment, of this thread. Where the kernel does not count, time as it is on the wall."""
    return time.monotonic() - _waited_s()


def _waited_s() -> float:
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
