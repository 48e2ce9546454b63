"""What a session has beside its namespace: values, files and secrets, as the session itself would hold them.

The same classes are at work as in an open session, so the same bounds and refusals hold.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cloister.app.kept.claimed import claimed, found
from cloister.app.keys import Keys
from cloister.core.file import FileLimits
from cloister.core.value import Json
from cloister.gate.secrets import MemorySecrets
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.keys import Purpose
from cloister.ports.rows import Drop, Put, SessionRow, ValueRow, Write
from cloister.ports.store import Store
from cloister.sessions.files import Files
from cloister.sessions.secrets import SessionSecrets
from cloister.sessions.values import Values
from cloister.sessions.vault import Vault


@dataclass(frozen=True, slots=True)
class Belongings:
    row: SessionRow
    values: Values
    files: Files
    secrets: SessionSecrets


@asynccontextmanager
async def look_at(store: Store, session_id: str, limits: FileLimits | None = None) -> AsyncGenerator[Belongings, None]:
    """To look at, while others may go on with the session. Secrets are not among it: nothing here opens them."""
    row = await found(store, session_id)
    clock = SystemClock()
    values, files = Values(clock), Files(clock, limits, session_id=row.id, load=store.blob)
    values.take_up(await store.values(row.id))
    files.take_up(await store.files(row.id))
    try:
        yield Belongings(row, values, files, _secrets(row, clock))
    finally:
        files.close()


@asynccontextmanager
async def belongings(
    store: Store, session_id: str, limits: FileLimits | None = None
) -> AsyncGenerator[Belongings, None]:
    """To change. The session is ours meanwhile: see `claimed`."""
    async with claimed(store, session_id) as ours:
        row, clock = ours.row, SystemClock()

        async def keep_values(written: Sequence[tuple[str, Json, int, int]], gone: Sequence[str]) -> None:
            put = [Put(ValueRow(row.id, *one)) for one in written]
            await ours.write([*put, *(Drop("values", (row.id, key)) for key in gone)])

        async def keep(writes: Sequence[Write]) -> None:
            await ours.write(writes)

        values = Values(clock, keep=keep_values)
        files = Files(clock, limits, session_id=row.id, keep=keep, load=store.blob)
        secrets = _secrets(row, clock, keep)
        values.take_up(await store.values(row.id))
        files.take_up(await store.files(row.id))
        try:
            yield Belongings(row, values, files, secrets)
        finally:
            files.close()


@dataclass(frozen=True, slots=True)
class _ToolsOf:
    """The tools that the session had when it was open last."""

    row: SessionRow

    def names(self) -> list[str]:
        return sorted(self.row.doc["capabilities"])


def _secrets(
    row: SessionRow, clock: Clock, keep: Callable[[Sequence[Write]], Awaitable[object]] | None = None
) -> SessionSecrets:
    none = MemorySecrets()
    return SessionSecrets(row.id, clock, _ToolsOf(row), Vault(Keys(Purpose.SECRET)), none, none, keep)
