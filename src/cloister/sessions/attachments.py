"""A session's attachments: bytes with a media type, named by the digest of what they are.

A session reads what it refers to and nothing else: the digest of another session's attachment is as unknown here as any
other. In a store one content is there once, whoever refers to it, and it is collected when nobody does any more.
"""

import asyncio
import builtins
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cloister.core.digest import digest_bytes
from cloister.core.errors import AttachmentNotFound, InvalidInput, QuotaExceeded, StoreUnusable
from cloister.core.held import AttachmentInfo
from cloister.ports.clock import Clock, moment
from cloister.ports.rows import AttachmentRow, Drop, Put, PutBlob, Write
from cloister.ports.store import Store

# A registered name on each side, as RFC 6838 has them; without parameters.
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff/\\]")
_MAX_NAME = 255
# From this size on a digest is worked out in a thread: it takes milliseconds.
_LARGE = 1 << 20


@dataclass(frozen=True, slots=True)
class AttachmentBounds:
    max_bytes: int = 32 << 20
    max_total_bytes: int = 256 << 20
    max_count: int = 1000


BOUNDS = AttachmentBounds()


# Writes down what was changed.
Keep: TypeAlias = Callable[[Sequence[Write]], Awaitable[object]]


class Attachments:
    def __init__(
        self,
        session_id: str,
        clock: Clock,
        *,
        store: Store | None = None,
        keep: Keep | None = None,
        bounds: AttachmentBounds = BOUNDS,
    ) -> None:
        """With `keep` they are written down, and read from the store."""
        self._session_id = session_id
        self._clock = clock
        self._store = store
        self._keep = keep
        self._bounds = bounds
        # What the session refers to; None until somebody asks what is written down.
        self._rows: dict[str, AttachmentRow] | None = None if keep is not None else {}
        # Their bytes, where they are not in the store.
        self._data: dict[str, bytes] = {}
        # The bounds hold for what is there and what is being added, so one after the other.
        self._changing = asyncio.Lock()

    async def add(self, data: bytes | bytearray, media_type: str, *, name: str | None = None) -> AttachmentInfo:
        """Refer to these bytes. Those that are here already get this media type and name, and keep their time."""
        held = _check_data(data, self._bounds)
        kind, shown = _check_media_type(media_type), _check_name(name)
        digest = await _digest(held)
        async with self._changing:
            rows = await self._load()
            old = rows.get(digest)
            if old is None:
                self._check_room(rows, len(held))
            created = old.created_ms if old is not None else self._clock.now_ms()
            doc = {"name": shown} if shown is not None else {}
            row = AttachmentRow(self._session_id, digest, kind, len(held), created, doc)
            if self._keep is not None:
                # Put again even if it is here: it may be about to be collected.
                await self._keep([PutBlob(digest, held), Put(row)])
            else:
                self._data[digest] = held
            rows[digest] = row
        return _info(row)

    async def get(self, attachment_id: str) -> bytes:
        """Its bytes; raises `AttachmentNotFound` for what this session does not refer to."""
        row = await self._find(attachment_id)
        held = self._data.get(row.blob)
        if held is not None:
            return held
        found = await self._store.blob(row.blob) if self._store is not None else None
        if found is None or await _digest(found) != row.blob:
            what = "is not in the store" if found is None else "is not what was added"
            raise StoreUnusable(
                f"attachment {row.blob} of session {self._session_id!r} {what}", hint="look with: cloister store check"
            )
        return found

    async def stat(self, attachment_id: str) -> AttachmentInfo:
        return _info(await self._find(attachment_id))

    async def list(self) -> builtins.list[AttachmentInfo]:
        """The oldest first."""
        rows = await self._load()
        return [_info(row) for row in sorted(rows.values(), key=lambda row: (row.created_ms, row.blob))]

    async def delete(self, attachment_id: str) -> bool:
        """Refer to it no more; False if this session did not."""
        async with self._changing:
            rows = await self._load()
            if attachment_id not in rows:
                return False
            if self._keep is not None:
                await self._keep([Drop("attachments", (self._session_id, attachment_id))])
            del rows[attachment_id]
            self._data.pop(attachment_id, None)
            return True

    # -- for the runtime -------------------------------------------------------------------------------------

    async def load(self) -> None:
        """From here on it is known what there is: see `inherit` and `names`."""
        await self._load()

    def names(self) -> builtins.list[str]:
        """The ids of those that are known of."""
        return sorted(self._rows or ())

    def inherit(self, parent: "Attachments") -> None:
        """What a fork has from the session that it is a fork of."""
        self._rows = {
            row.blob: AttachmentRow(self._session_id, row.blob, row.media_type, row.size_bytes, row.created_ms, row.doc)
            for row in (parent._rows or {}).values()
        }
        self._data = dict(parent._data)
        self._store = self._store or parent._store

    def first_writes(self) -> Iterable[Write]:
        """What a new session refers to."""
        blobs = [PutBlob(name, data) for name, data in self._data.items()] if self._keep is not None else []
        return [*blobs, *map(Put, (self._rows or {}).values())]

    # -- inside ----------------------------------------------------------------------------------------------

    async def _load(self) -> dict[str, AttachmentRow]:
        if self._rows is None:
            assert self._store is not None
            found = {row.blob: row for row in await self._store.attachments(self._session_id)}
            # Somebody else may have asked meanwhile, and changed something since.
            if self._rows is None:
                self._rows = found
        return self._rows

    async def _find(self, attachment_id: str) -> AttachmentRow:
        row = (await self._load()).get(attachment_id) if isinstance(attachment_id, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if row is None:
            raise AttachmentNotFound(
                f"session {self._session_id!r} has no attachment {str(attachment_id)[:80]!r}",
                hint="attachments.list() has the ids of those that it has",
            )
        return row

    def _check_room(self, rows: dict[str, AttachmentRow], size: int) -> None:
        bounds = self._bounds
        if len(rows) >= bounds.max_count:
            raise QuotaExceeded(
                f"a session has at most {bounds.max_count} attachments", hint="delete those that are not needed"
            )
        total = sum(row.size_bytes for row in rows.values()) + size
        if total > bounds.max_total_bytes:
            raise QuotaExceeded(
                f"the attachments of a session take at most {bounds.max_total_bytes} bytes together; with this one "
                f"they would take {total}",
                hint="delete those that are not needed",
            )


def _info(row: AttachmentRow) -> AttachmentInfo:
    name = row.doc.get("name")
    return AttachmentInfo(
        row.blob, row.media_type, row.size_bytes, moment(row.created_ms), name if isinstance(name, str) else None
    )


async def _digest(data: bytes) -> str:
    return digest_bytes(data) if len(data) < _LARGE else await asyncio.to_thread(digest_bytes, data)


def _check_data(data: object, bounds: AttachmentBounds) -> bytes:
    if not isinstance(data, (bytes, bytearray)):
        raise InvalidInput(f"an attachment is bytes, not {type(data).__name__}", hint="encode text: text.encode()")
    size = len(data)
    if size > bounds.max_bytes:
        raise QuotaExceeded(
            f"an attachment has at most {bounds.max_bytes} bytes, not {size}",
            hint="keep it elsewhere, and its address here",
        )
    return bytes(data)


def _check_media_type(media_type: object) -> str:
    if not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type):
        hint = "write type/subtype, such as image/png or text/plain"
        if isinstance(media_type, str) and ";" in media_type:
            hint += ", without parameters"
        raise InvalidInput(f"{_shown(media_type)} is not a media type", hint=hint)
    # They are compared without regard to case.
    return media_type.lower()


def _check_name(name: object) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME or _UNSEEN.search(name):
        raise InvalidInput(
            f"{_shown(name)} cannot be the name of an attachment",
            hint=f"use up to {_MAX_NAME} characters that can be seen, without / and \\",
        )
    return name


def _shown(value: object) -> str:
    return ascii(value)[:80]
