"""The processes that a test looks at: those under its own."""

import os
from collections.abc import Collection
from pathlib import Path


def children(*, beside: Collection[int] = ()) -> set[int]:
    """The processes under this one that still run; not those in `beside`, nor what they start (a database server
    starts others as it likes)."""
    found, left = set[int](), [os.getpid()]
    while left:
        pid = left.pop()
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                below = [int(child) for child in listed.read_text().split()]
            except OSError:
                continue
            below = [child for child in below if child not in beside]
            found.update(filter(alive, below))
            left += below
    return found


def alive(pid: int) -> bool:
    """Whether the process still runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def processor_ms() -> dict[int, float]:
    """The processor time that each process under this one has taken since it was started."""
    tick, found = 1000 / os.sysconf("SC_CLK_TCK"), dict[int, float]()
    for pid in children():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[pid] = (int(fields[11]) + int(fields[12])) * tick
    return found
