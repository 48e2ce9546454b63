"""A whole store as one file, and back: every row and every blob that a row refers to, exactly. Leases stay behind.

The file is one zstd frame of lines of JSON. The first says what it is; then come rows and blobs, a blob before the
first row that refers to it, large ones in pieces; the last has the counts and the SHA3-256 of all lines before it. That
tells damage and not forgery: whoever can write to the file owns what is in it.

An import reads the file to its end before it writes anything, and reads it again to write: sessions last, so that no
host finds one before all that is its own is there. When it fails, what it has written is removed.
"""

import asyncio
import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, BinaryIO, TypeAlias

import zstandard

from cloister.core.digest import digest_bytes
from cloister.core.errors import CloisterError, InvalidInput, StoreError, StoreUnavailable, StoreUnusable
from cloister.ports.journal import Entry
from cloister.ports.rows import KEYS, TABLE_OF, Batch, Drop, MoveHead, Put, PutBlob, Row, SessionRow, Table, Write
from cloister.ports.store import Store
from cloister.stores.json_docs import dumps, dumps_intent, dumps_settled, loads, loads_intent, loads_settled
from cloister.stores.rules import MAX_BLOB_BYTES, blobs_of, check_batch, key_of, table_of

FORMAT = "cloister-store"
VERSION = 3

_TABLES: tuple[Table, ...] = (*(table for table in KEYS if table != "sessions"), "sessions")
_KIND_OF = {table: kind for kind, table in TABLE_OF.items()}
# As base64, and with the name beside it, it stays below a line of 1 MiB.
_PIECE_BYTES = 720 << 10
# Two docs of the largest size and what is around them.
_LONGEST_LINE = 64 << 20
# Compressed bytes that are looked at together: at their very best they are 64 MiB.
_SIP_BYTES = 2 << 10
_MAGIC = b"\x28\xb5\x2f\xfd"
_PAGE_ROWS = 100
_BATCH_WRITES = 1000
_BATCH_BYTES = 4 << 20
# Others of the event loop have their turn, and whoever watches is told, after so many rows and blobs.
_TURN = 64


@dataclass(slots=True)
class Counts:
    """How much went from here to there."""

    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TABLES, 0))
    blobs: int = 0

    def add(self, part: "Part") -> None:
        if isinstance(part, PutBlob):
            self.blobs += 1
        else:
            self.rows[table_of(part)] += 1

    @property
    def parts(self) -> int:
        return sum(self.rows.values()) + self.blobs


Part: TypeAlias = Row | PutBlob
# Told what is being done, "export", "verify" or "import", and how much of it is done.
Progress: TypeAlias = Callable[[str, Counts], None]


def _nobody(doing: str, counts: Counts) -> None:
    pass


async def _turn(tell: Progress, doing: str, counts: Counts) -> None:
    if counts.parts % _TURN == 0:
        tell(doing, counts)
        await asyncio.sleep(0)


# -- out ------------------------------------------------------------------------------------------------------------


async def export(store: Store, out: BinaryIO, progress: Progress = _nobody) -> Counts:
    """Write all that is in `store` to `out`. Raises `StoreUnavailable` if a host uses the store: then there is no one
    moment that the file could be of."""
    await _refuse_in_use(store)
    lines = _Lines(out)
    lines.write(dumps({"format": FORMAT, "version": VERSION}))
    counts = Counts()
    names: set[str] = set()
    for table in _TABLES:
        after: tuple[str | int, ...] | None = None
        while page := await store.scan(table, after=after, limit=_PAGE_ROWS):
            for row in page:
                for name in blobs_of(row):
                    if name not in names:
                        names.add(name)
                        part = await _blob(store, name, row)
                        lines.write_blob(part)
                        counts.add(part)
                lines.write(_row_line(row))
                counts.add(row)
                await _turn(progress, "export", counts)
            after = key_of(page[-1])
    await _refuse_in_use(store)
    lines.end(counts)
    return counts


class _Lines:
    def __init__(self, out: BinaryIO) -> None:
        self._stream = zstandard.ZstdCompressor(write_checksum=True).stream_writer(out, closefd=False)
        self._hash = hashlib.sha3_256()

    def write(self, text: str) -> None:
        line = text.encode() + b"\n"
        if len(line) > _LONGEST_LINE:
            raise InvalidInput(f"a row of {len(line)} bytes is over the bound of {_LONGEST_LINE}")
        self._hash.update(line)
        self._stream.write(line)

    def write_blob(self, blob: PutBlob) -> None:
        size = len(blob.data)
        for start in range(0, size or 1, _PIECE_BYTES):
            piece = blob.data[start : start + _PIECE_BYTES]
            left = size - start - len(piece)
            self.write(f'{{"blob":{dumps(blob.name)},"left":{left},"data":"{b64encode(piece).decode()}"}}')

    def end(self, counts: Counts) -> None:
        self.write(dumps({"end": {"rows": counts.rows, "blobs": counts.blobs}, "sha3_256": self._hash.hexdigest()}))
        self._stream.flush(zstandard.FLUSH_FRAME)


async def _blob(store: Store, name: str, row: Row) -> PutBlob:
    data = await store.blob(name)
    if data is None or digest_bytes(data) != name:
        what = "is not there" if data is None else "is not what was written"
        raise StoreUnusable(
            f"blob {name} {what}, and {table_of(row)} {key_of(row)!r} refers to it: the store {store.url} is damaged",
            hint="`cloister store check` lists all that is wrong; restore the store from a backup",
        )
    return PutBlob(name, data)


def _row_line(row: Row) -> str:
    # Field by field: a doc may be as large as `dumps` allows, and the row is larger.
    if isinstance(row, Entry):
        settled = "null" if row.settled is None else dumps_settled(row.settled)
        parts = {"intent": dumps_intent(row.intent), "settled": settled, "attempts": dumps(row.attempts)}
    else:
        parts = {column.name: _column(getattr(row, column.name)) for column in fields(row)}
    inner = ",".join(f'"{name}":{text}' for name, text in parts.items())
    return f'{{"table":"{table_of(row)}","row":{{{inner}}}}}'


def _column(value: Any) -> str:
    return f'"{b64encode(value).decode()}"' if isinstance(value, bytes) else dumps(value)


# -- in -------------------------------------------------------------------------------------------------------------


async def verify(source: BinaryIO, progress: Progress = _nobody) -> Counts:
    """Read `source` to its end, and go back to where it was. Raises `StoreUnusable` if it is not a whole export."""
    start = source.tell()
    counts = Counts()
    for part, _ in _parts(source):
        counts.add(part)
        await _turn(progress, "verify", counts)
    source.seek(start)
    return counts


async def import_(store: Store, source: BinaryIO, progress: Progress = _nobody) -> Counts:
    """Write all that is in `source`, which can be sought in, to `store`, which is empty. What is refused, and what
    fails, leaves no row behind; a blob that was written is collected later.

    A session's `head` begins anew, at 1.
    """
    await _refuse_in_use(store)
    await _refuse_full(store)
    start = source.tell()
    await verify(source, progress)
    filling = _Filling(store)
    written = Counts()
    try:
        for part, size in _parts(source):
            await filling.add(part, size)
            written.add(part)
            await _turn(progress, "import", written)
        await filling.flush()
    except BaseException as error:
        await _take_back(store, source, start, filling.tried, error)
        raise
    return written


class _Filling:
    """Parts on their way into a store, many in one batch. `tried` is how many of them may have come there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writes: list[Write] = []
        self._parts = 0
        self._size = 0
        self.tried = 0

    async def add(self, part: Part, size: int) -> None:
        if self._parts and (self._size + size > _BATCH_BYTES or len(self._writes) >= _BATCH_WRITES):
            await self.flush()
        self._parts += 1
        self._size += size
        match part:
            case PutBlob():
                self._writes.append(part)
            case SessionRow():
                # A session that is there has a head above 0: that is how a host sees that an id is taken.
                self._writes += (Put(part), MoveHead(part.id, 0))
            case _:
                self._writes.append(Put(part))

    async def flush(self) -> None:
        batch, parts = Batch(tuple(self._writes)), self._parts
        self._writes, self._parts, self._size = [], 0, 0
        self.tried += parts
        try:
            await self._store.write(batch)
        except StoreUnavailable:
            raise
        except CloisterError:
            # Refused: nothing of it was written, and what has its keys is somebody else's.
            self.tried -= parts
            raise


async def _take_back(store: Store, source: BinaryIO, start: int, count: int, why: BaseException) -> None:
    try:
        source.seek(start)
        rows = (part for part, _ in islice(_parts(source), count) if not isinstance(part, PutBlob))
        while some := tuple(Drop(table_of(row), key_of(row)) for row in islice(rows, _BATCH_WRITES)):
            await store.write(Batch(some))
    except (StoreError, OSError) as error:
        raise StoreUnavailable(
            f"the import failed ({why or type(why).__name__}), and what it had written to {store.url} could not be "
            f"removed ({error})",
            hint="the store has a part of the file in it: remove it, and import into a new one",
        ) from error


async def _refuse_in_use(store: Store) -> None:
    owners = await store.owners()
    if owners:
        raise StoreUnavailable(
            f"the store {store.url} is in use by {', '.join(owners[:3])}{', …' if len(owners) > 3 else ''}",
            hint="stop the hosts that use it; one that was killed is forgotten after half a minute",
        )


async def _refuse_full(store: Store) -> None:
    for table in ("sessions", *_TABLES):
        if await store.scan(table, limit=1):
            raise InvalidInput(
                f"the store {store.url} is not empty: it has {table}",
                hint="import into a new one: name a file that is not there yet, or another database",
            )


# -- reading the file -----------------------------------------------------------------------------------------------


def _name_of(source: BinaryIO) -> str:
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the file"


def _foreign(source: BinaryIO) -> StoreUnusable:
    return StoreUnusable(
        f"{_name_of(source)} is not an export of a Cloister store", hint="`cloister store export FILE` makes one"
    )


def _damaged(source: BinaryIO, what: str) -> StoreUnusable:
    return StoreUnusable(
        f"{_name_of(source)} is damaged: {what}", hint="copy it again from where it was made, or export the store again"
    )


def _cut(source: BinaryIO) -> StoreUnusable:
    return StoreUnusable(
        f"{_name_of(source)} is only the beginning of an export: it ends too early",
        hint="copy it again from where it was made, or export the store again",
    )


def _parts(source: BinaryIO) -> Generator[tuple[Part, int], None, None]:
    """Rows and blobs in their order, each with about its size. Who has come to the end knows that the file is whole."""
    lines = _lines(source)
    header = next(lines, b"")
    _check_header(source, header)
    hashed = hashlib.sha3_256(header + b"\n")
    counts, pieces, ended = Counts(), _Pieces(), False
    for number, line in enumerate(lines, 2):
        if ended:
            raise _damaged(source, "something follows its end")
        try:
            part = _read(line, pieces)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise _damaged(source, f"line {number} is not what belongs there") from error
        if isinstance(part, _End):
            if part != _End({"rows": _some_of(counts.rows), "blobs": counts.blobs}, hashed.hexdigest()):
                raise _damaged(source, "it does not hold what its last line says")
            ended = True
            continue
        hashed.update(line + b"\n")
        if part is not None:
            counts.add(part)
            yield part, len(part.data) if isinstance(part, PutBlob) else len(line)
    if not ended:
        raise _cut(source)


@dataclass(frozen=True, slots=True)
class _End:
    counts: Any
    digest: Any


def _read(line: bytes, pieces: "_Pieces") -> Part | _End | None:
    """None for a blob that goes on. What does not belong there raises whatever it does."""
    said: dict[str, Any] = loads(line.decode())
    if "blob" in said:
        return pieces.add(said["blob"], said["left"], said["data"])
    if pieces.name is not None:
        raise ValueError("a piece of a blob is missing")
    if "end" in said:
        return _End({**said["end"], "rows": _some_of(said["end"]["rows"])}, said["sha3_256"])
    return _row(said["table"], said["row"])


def _some_of(rows: dict[str, int]) -> dict[str, int]:
    """Without the tables that are empty: an older export does not know them all."""
    return {table: count for table, count in rows.items() if count}


def _check_header(source: BinaryIO, line: bytes) -> None:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        raise _foreign(source) from None
    match header:
        case {"format": str(name), "version": int(version)} if name == FORMAT:
            if version > VERSION:
                raise StoreUnusable(
                    f"{_name_of(source)} is an export of version {version}; this Cloister knows up to {VERSION}",
                    hint="update Cloister, and import it then",
                )
            if version < 1 or isinstance(version, bool):
                raise _damaged(source, f"there is no version {version}")
        case _:
            raise _foreign(source)


class _Pieces:
    """A blob that comes in several lines; `name` while it is not whole."""

    def __init__(self) -> None:
        self.name: str | None = None
        self._data = bytearray()
        self._left = 0

    def add(self, name: str, left: int, text: str) -> PutBlob | None:
        """The blob, if it is whole now. Raises `ValueError` if the piece does not fit."""
        piece = b64decode(text, validate=True)
        if self.name is None:
            self.name, self._left, self._data = name, left + len(piece), bytearray()
        if name != self.name or left != self._left - len(piece) or not 0 <= left <= MAX_BLOB_BYTES:
            raise ValueError("a piece of a blob is missing")
        self._data += piece
        self._left = left
        if left:
            return None
        data, self.name, self._data = bytes(self._data), None, bytearray()
        if digest_bytes(data) != name:
            raise ValueError("a blob is not what its name says")
        return PutBlob(name, data)


def _row(table: str, columns: dict[str, Any]) -> Row:
    row: Row
    if table == "calls":
        settled = columns["settled"]
        row = Entry(
            loads_intent(dumps(columns["intent"])),
            None if settled is None else loads_settled(dumps(settled)),
            columns["attempts"],
        )
    else:
        if table == "secrets":
            columns["sealed"] = b64decode(columns["sealed"], validate=True)
        row = _KIND_OF[table](**columns)
    check_batch(Batch((Put(row),)))
    return row


def _lines(source: BinaryIO) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for chunk in _unpacked(source):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > _LONGEST_LINE:
            raise _damaged(source, f"it has a line of more than {_LONGEST_LINE} bytes")
    if size:
        yield b"".join(parts)


def _unpacked(source: BinaryIO) -> Iterator[bytes]:
    packed = source.read(_SIP_BYTES)
    if not packed.startswith(_MAGIC):
        raise _cut(source) if packed and _MAGIC.startswith(packed) else _foreign(source)
    frame = zstandard.ZstdDecompressor().decompressobj()
    while packed:
        if frame.eof:
            raise _damaged(source, "something follows its end")
        try:
            chunk = frame.decompress(packed)
        except zstandard.ZstdError as error:
            raise _damaged(source, str(error)) from error
        yield chunk
        if frame.unused_data:
            raise _damaged(source, "something follows its end")
        packed = source.read(_SIP_BYTES)
    if not frame.eof:
        raise _cut(source)


# -- whether there is one -------------------------------------------------------------------------------------------


async def is_in_postgres(url: str) -> bool:
    """Whether there is a store at the address, which opening one would make. Raises like opening if nobody answers."""
    # Imported here: a host that does not use it need not have its driver.
    from psycopg import Error

    from cloister.stores.postgres.address import Address
    from cloister.stores.postgres.connection import connect, trouble
    from cloister.stores.postgres.schema import tables_in

    address = Address(url, "cloister")
    connection = await connect(address, "cloister looking")
    try:
        tables: Sequence[str] = await tables_in(connection, address)
    except Error as error:
        raise trouble(address, error) from error
    finally:
        await connection.close()
    # With the tables of another program, opening it says so.
    return bool(tables)
