"""Closing what a worker inherited and was not meant to have."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_BEYOND = 1 << 20  # above every limit on descriptors that Linux sets by default


def close_all_but(keep: Iterable[int]) -> None:
    """Close each descriptor of this process that is not listed."""
    wanted = sorted(set(keep))
    try:
        present = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        for low, high in zip([-1, *wanted], [*wanted, _BEYOND], strict=True):
            if low + 1 < high:  # closerange(0, 0) closes everything in CPython 3.11
                os.closerange(low + 1, high)
        return
    for handle in present:
        if handle not in wanted:
            os.closerange(handle, handle + 1)  # the listing's own handle is gone already: not an error here
