"""Columns on their way to the server: arrays of texts, numbers and bytes, written in one go.

The driver's own way asks every element what it is and packs it by itself, which took as long as all else that a commit
does here. Here all of an array are of one kind, or absent. The wire's form is the server's own, in binary.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

from psycopg.adapt import AdaptersMap, Buffer, Dumper
from psycopg.pq import Format

_HEAD = Struct("!iiIii")
_EMPTY = Struct("!iiI")
_SIZE = Struct("!i").pack
_NUMBER = Struct("!iq").pack
_ABSENT = _SIZE(-1)
_BYTEA, _INT8, _TEXT = 17, 20, 25
_BYTEA_ARRAY, _INT8_ARRAY, _TEXT_ARRAY = 1001, 1016, 1009


class Texts(list[str | None]):
    """A `text[]`."""


class Numbers(list[int | None]):
    """An `int8[]`."""


class Pieces(list[bytes | None]):
    """A `bytea[]`."""


def column(values: Iterable[Any]) -> list[Any]:
    """The values of one column as what is sent of them fastest."""
    values = list(values)
    for value in values:
        if value is not None:
            kind = value.__class__
            if kind is str:
                return Texts(values)
            if kind is int:
                return Numbers(values)
            if kind is bytes:
                return Pieces(values)
            break
    # The driver knows what else there is.
    return values


def register(adapters: AdaptersMap) -> None:
    for kind, dumper in ((Texts, _TextsDumper), (Numbers, _NumbersDumper), (Pieces, _PiecesDumper)):
        adapters.register_dumper(kind, dumper)


def _array(element: int, values: Sequence[Any], parts: list[bytes]) -> bytes:
    if not values:
        return _EMPTY.pack(0, 0, element)
    return _HEAD.pack(1, int(None in values), element, len(values), 1) + b"".join(parts)


class _TextsDumper(Dumper):
    format = Format.BINARY
    oid = _TEXT_ARRAY

    def dump(self, obj: Texts) -> Buffer | None:
        parts: list[bytes] = []
        for text in obj:
            if text is None:
                parts.append(_ABSENT)
            else:
                data = text.encode()
                parts += (_SIZE(len(data)), data)
        return _array(_TEXT, obj, parts)


class _NumbersDumper(Dumper):
    format = Format.BINARY
    oid = _INT8_ARRAY

    def dump(self, obj: Numbers) -> Buffer | None:
        return _array(_INT8, obj, [_ABSENT if number is None else _NUMBER(8, number) for number in obj])


class _PiecesDumper(Dumper):
    format = Format.BINARY
    oid = _BYTEA_ARRAY

    def dump(self, obj: Pieces) -> Buffer | None:
        parts: list[bytes] = []
        for data in obj:
            parts += (_ABSENT,) if data is None else (_SIZE(len(data)), data)
        return _array(_BYTEA, obj, parts)
