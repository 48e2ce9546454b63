"""How a text can be read: as it stands but for line breaks, and with what is percent-encoded or escaped undone.

Each reading knows where in the text its bytes come from. Encodings are undone twice over, because JSON inside JSON and
a URL inside JSON are everyday things. Work is linear in the length of the text.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

_DEPTH = 2
_BREAKS = re.compile(rb"[\r\n]+")
_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}"
    rb"|[\\\"'/bfnrt])"
)
_NEVER = re.compile(rb"(?!)")
# The beginning of an encoded byte or character, at the end of a text that goes on.
_OPEN = re.compile(
    rb"(?:%[0-9A-Fa-f]?|\\(?:u[dD][89abAB][0-9A-Fa-f]{2}(?:\\(?:u[0-9A-Fa-f]{0,3})?)?|u[0-9A-Fa-f]{0,3}"
    rb"|x[0-9A-Fa-f]?)?)\Z"
)
_LONGEST_OPEN = 11

_Meaning: TypeAlias = Callable[[re.Match[bytes]], bytes]


def _meant(character: str) -> bytes:
    # Line breaks are no part of any reading, however they are written.
    return b"" if character in "\r\n" else character.encode("utf-8", "surrogatepass")


_DIGITS = "0123456789abcdefABCDEF"
_BYTES = {f"%{high}{low}".encode(): bytes([int(high + low, 16)]).strip(b"\r\n") for high in _DIGITS for low in _DIGITS}
_NAMED = {
    f"\\{letter}".encode(): _meant(character)
    for letter, character in zip("\\\"'/bfnrt", "\\\"'/\b\f\n\r\t", strict=True)
}


def _nothing(_: re.Match[bytes]) -> bytes:
    return b""


def _byte(found: re.Match[bytes]) -> bytes:
    return _BYTES[found[0]]


def _character(found: re.Match[bytes]) -> bytes:
    return _escaped(found[0])


@lru_cache(maxsize=4096)
def _escaped(token: bytes) -> bytes:
    if (named := _NAMED.get(token)) is not None:
        return named
    if token.startswith(b"\\x"):
        return _BYTES[b"%" + token[2:]]
    units = bytes.fromhex(token.replace(b"\\u", b"").decode())
    return _meant(units.decode("utf-16-be", "surrogatepass"))


_ENCODINGS: tuple[tuple[bytes, re.Pattern[bytes], _Meaning], ...] = (
    (b"%", _PERCENT, _byte),
    (b"\\", _ESCAPE, _character),
)


class Reading:
    """The bytes `data`, made of `source` by undoing one encoding."""

    __slots__ = ("_marks", "_meaning", "_pattern", "_source", "data")

    def __init__(
        self,
        data: bytes,
        source: "Reading | None" = None,
        pattern: re.Pattern[bytes] = _BREAKS,
        meaning: _Meaning = _nothing,
    ) -> None:
        self.data = data
        self._source = source
        self._pattern = pattern
        self._meaning = meaning
        self._marks: tuple[list[int], list[int], list[int], list[int]] | None = None

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where the bytes from `start` up to `end` stand in the text that was read."""
        if self._source is None:
            return start, end
        return self._source.place(self._origin(start)[0], self._origin(end - 1)[1])

    def _origin(self, at: int) -> tuple[int, int]:
        """From where to where the byte at `at` is written in the source."""
        ours, ours_end, theirs, theirs_end = self._marked()
        index = bisect_right(ours, at) - 1
        if index < 0:
            return at, at + 1
        if at < ours_end[index]:
            return theirs[index], theirs_end[index]
        at += theirs_end[index] - ours_end[index]
        return at, at + 1

    def _marked(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Begin and end of all that was undone, here and in the source. Asked for when something was found."""
        if self._marks is None:
            ours: list[int] = []
            ours_end: list[int] = []
            theirs: list[int] = []
            theirs_end: list[int] = []
            shrunk = 0
            assert self._source is not None
            for found in self._pattern.finditer(self._source.data):
                start, end = found.span()
                size = len(self._meaning(found))
                ours.append(start - shrunk)
                ours_end.append(start - shrunk + size)
                theirs.append(start)
                theirs_end.append(end)
                shrunk += end - start - size
            self._marks = ours, ours_end, theirs, theirs_end
        return self._marks


def readings(data: bytes, *, goes_on: bool) -> tuple[list[Reading], int]:
    """All readings of a text, and where something begins in it that is not complete; its end if nothing does.

    Only with `goes_on` can more follow; without, a text is read as what it is.
    """
    plain = Reading(data)
    if b"\n" in data or b"\r" in data:
        plain = Reading(data.translate(None, b"\r\n"), plain)
    found = [plain]
    unsure = len(data)
    level = [plain]
    for _ in range(_DEPTH):
        below: list[Reading] = []
        for source in level:
            body = source.data
            if b"%" not in body and b"\\" not in body:
                continue
            opened = _OPEN.search(body, max(0, len(body) - _LONGEST_OPEN)) if goes_on else None
            if opened is not None:
                unsure = min(unsure, source.place(opened.start(), len(body))[0])
                body = body[: opened.start()]
                # What is left may be complete, and escaped itself: a backslash is both one and half of one.
                below.append(Reading(body, source, _NEVER))
            for sign, pattern, meaning in _ENCODINGS:
                if sign in body and len(read := pattern.sub(meaning, body)) != len(body):
                    below.append(Reading(read, source, pattern, meaning))
        found += below
        level = below
    return found, unsure
