"""Owners and their sessions: a lease is a row of its own, so that claiming thousands leaves the sessions untouched.

Claims run under the write lock, as writes do: a write with a fence is either done before its session is claimed by
another, or refused. Joining is not: it must be quick, however long the line is.
"""

from collections.abc import Sequence

from cloister.core.errors import InvalidInput
from cloister.ports.clock import Clock
from cloister.ports.rows import Claim, Fence
from cloister.stores.postgres.columns import SHAPES
from cloister.stores.postgres.connection import FREELY, Connection, execute
from cloister.stores.postgres.readers import Readers
from cloister.stores.postgres.writer import Writer
from cloister.stores.rules import check_key

_SESSIONS = SHAPES["sessions"]
_JOIN = """INSERT INTO owners (name, until_ms) VALUES (%b, coalesce(%b::int8, now_ms()) + %b::int8)
ON CONFLICT (name) DO UPDATE SET until_ms = excluded.until_ms"""
_OWNERS = "SELECT name FROM owners WHERE until_ms > coalesce(%b::int8, now_ms()) ORDER BY name"
_ORPHANS = """SELECT DISTINCT s.id FROM cells c JOIN sessions s ON s.id = c.session_id
LEFT JOIN leases l ON l.session_id = s.id LEFT JOIN owners o ON o.name = l.owner
WHERE c.live AND (l.owner IS NULL OR o.until_ms IS NULL OR o.until_ms <= coalesce(%b::int8, now_ms()))
ORDER BY s.id LIMIT %b"""
_CLAIM = """WITH free AS (
    SELECT s.id FROM {sessions} LEFT JOIN leases l ON l.session_id = s.id LEFT JOIN owners o ON o.name = l.owner
    WHERE l.owner IS NULL OR l.owner = %b OR o.until_ms IS NULL OR o.until_ms <= coalesce(%b::int8, now_ms())
), taken AS (
    INSERT INTO leases (session_id, owner, fence) SELECT id, %b, nextval('fences') FROM free
    ON CONFLICT (session_id) DO UPDATE SET owner = excluded.owner, fence = excluded.fence
    RETURNING session_id, fence
) SELECT t.fence, s.id, s.created_ms, s.used_ms, s.doc, s.image, s.tenant, s.head
FROM taken t JOIN sessions s ON s.id = t.session_id ORDER BY s.id"""
_CLAIM_ALL = _CLAIM.format(sessions="sessions s")
_NAMED = '(SELECT DISTINCT id COLLATE "C" AS id FROM unnest(%b::text[]) AS n (id)) n JOIN sessions s ON s.id = n.id'
_CLAIM_NAMED = _CLAIM.format(sessions=_NAMED)


class Owners:
    def __init__(self, readers: Readers, writer: Writer, clock: Clock | None) -> None:
        self._readers = readers
        self._writer = writer
        self._clock = clock

    async def join(self, owner: str, ttl_ms: int) -> None:
        check_key(owner, "owner")
        if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or not 0 < ttl_ms < 1 << 53:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"ttl_ms must be a positive whole number, not {ttl_ms!r}")
        await self._readers.fetch(_JOIN, (owner, self._now_ms(), ttl_ms))

    async def claim(self, owner: str, session_ids: Sequence[str] | None) -> Sequence[Claim]:
        check_key(owner, "owner")
        ids = _checked(session_ids)

        async def work(connection: Connection) -> list[Claim]:
            await connection.execute(FREELY, prepare=False)
            parameters = (owner, self._now_ms(), owner)
            if ids is None:
                cursor = await execute(connection, _CLAIM_ALL, parameters)
            else:
                cursor = await execute(connection, _CLAIM_NAMED, (ids, *parameters))
            rows = await cursor.fetchall()
            return [Claim(Fence(row[1], row[0]), _SESSIONS.decode(row[1:])) for row in rows]

        return await self._writer.run(work)

    async def release(self, owner: str, session_ids: Sequence[str] | None) -> None:
        check_key(owner, "owner")
        ids = _checked(session_ids)

        async def work(connection: Connection) -> None:
            if ids is None:
                await connection.execute("DELETE FROM leases WHERE owner = %b", (owner,))
                await connection.execute("DELETE FROM owners WHERE name = %b", (owner,))
            else:
                await connection.execute(
                    "DELETE FROM leases WHERE session_id = ANY(%b::text[]) AND owner = %b", (ids, owner)
                )

        await self._writer.run(work)

    async def names(self) -> Sequence[str]:
        found = await self._readers.fetch(_OWNERS, (self._now_ms(),))
        return [name for (name,) in found]

    async def orphans(self, limit: int) -> Sequence[str]:
        found = await self._readers.fetch(_ORPHANS, (self._now_ms(), limit))
        return [session_id for (session_id,) in found]

    def _now_ms(self) -> int | None:
        """None where the server's own clock counts."""
        return None if self._clock is None else self._clock.now_ms()


def _checked(session_ids: Sequence[str] | None) -> list[str] | None:
    if session_ids is None:
        return None
    for session_id in session_ids:
        check_key(session_id, "session_id")
    return list(session_ids)
