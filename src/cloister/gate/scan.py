"""Looks for the values of secrets in bytes, and shows markers in their place.

No regular expression is made of values: looking for bytes takes linear time however much a text looks like a secret,
and however long the secret is.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from cloister.gate.forms import ANCHOR, Needle, Needles
from cloister.gate.readings import readings

# After so many places that only begin like a needle, the next one is taken for one that could become it.
_TRIES = 64
_PAD = ord("=")

# From where to where a value stands, and whose it is.
Spot: TypeAlias = tuple[int, int, str]


class Begun(NamedTuple):
    """A needle that a text ends in the middle of: where it begins and stops, and how much of it is there."""

    start: int
    end: int
    needle: Needle
    size: int


def marker(name: str) -> str:
    """What is shown in the place of a value."""
    return f"[secret {name}]"


def scan(data: bytes, needles: Needles) -> list[Spot]:
    """Where values stand in a complete text."""
    spots: list[Spot] = []
    for reading in readings(data, goes_on=False)[0]:
        for needle, start, end in _matches(reading.data, needles):
            spots.append((*reading.place(start, end), needle.name))
    return spots


def scan_open(data: bytes, needles: Needles) -> tuple[list[Spot], int, Begun | None]:
    """Where values stand in a text that goes on, where that cannot be told yet, and the value that may have begun."""
    spots: list[Spot] = []
    begun: Begun | None = None
    found, hold = readings(data, goes_on=True)
    for reading in found:
        read = reading.data
        for needle, start, end in _matches(read, needles):
            place = reading.place(start, end)
            spots.append((*place, needle.name))
            if end == len(read) and needle.after and not read.endswith(b"=" * needle.pads):
                hold = min(hold, place[0])
        needle, size = _begun(read, needles)
        if needle is not None:
            start, end = reading.place(len(read) - size, len(read))
            hold = min(hold, start)
            if begun is None or start < begun.start:
                begun = Begun(start, end, needle, size)
    for start, end, _ in sorted(spots, reverse=True):
        # A value that reaches into what is held back may be part of something longer.
        if start < hold < end:
            hold = start
    return spots, hold, begun


def _matches(data: bytes, needles: Needles) -> Iterable[tuple[Needle, int, int]]:
    for anchor, needle in needles.anchored:
        if anchor not in data:
            continue
        size, at = len(needle.data), data.find(needle.data)
        while at >= 0:
            start, end = at, at + size
            if start and data[start - 1] in needle.before:
                start -= 1
            if end < len(data) and data[end] in needle.after:
                end += 1
                while end < min(len(data), at + size + 1 + needle.pads) and data[end] == _PAD:
                    end += 1
            yield needle, start, end
            at = data.find(needle.data, at + size)


def _begun(data: bytes, needles: Needles) -> tuple[Needle | None, int]:
    """The needle of which `data` ends with the longest beginning, but not with all of it; and how long that is."""
    most, which = 0, None
    for size in range(min(ANCHOR - 1, len(data)), 0, -1):
        which = needles.beginnings.get(data[-size:])
        if which is not None:
            most = size
            break
    for anchor, needle in needles.anchored:
        if anchor in data and (size := _overlap(data, needle)) > most:
            most, which = size, needle
    return which, most


def _overlap(data: bytes, needle: Needle) -> int:
    at = data.find(needle.anchor, max(0, len(data) - len(needle.data) + 1))
    for _ in range(_TRIES):
        if at < 0:
            return 0
        if needle.data.startswith(data[at:]):
            break
        at = data.find(needle.anchor, at + 1)
    return len(data) - at if at >= 0 else 0


def redacted(data: bytes, spots: Iterable[Spot], skip: int = 0) -> str:
    """The text with a marker in each spot. Spots that overlap are one; what lies inside another is not named.

    The first `skip` bytes are shown already, as a marker: neither they nor what belongs to them is shown again.
    """
    pieces: list[str] = []
    done = skip
    # The longest of those that begin in one place comes first.
    for start, end, name in sorted(spots, key=lambda spot: (spot[0], -spot[1])):
        if end <= done:
            continue
        if start < skip:
            done = end
            continue
        if start >= done or not pieces:
            pieces.append(decoded(data[done:start]))
            pieces.append(marker(name))
        elif pieces[-1] != marker(name):
            pieces.append(marker(name))
        done = end
    pieces.append(decoded(data[done:]))
    return "".join(pieces)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
