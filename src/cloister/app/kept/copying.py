"""A session in a store as an envelope, and what of it goes to a copy beside that."""

from dataclasses import replace

from cloister.app.kept.belongings import look_at
from cloister.app.kept.claimed import claimed, found
from cloister.app.keys import Keys
from cloister.core.errors import CellBusy, SessionExists, StoreUnusable
from cloister.core.language import parse_language
from cloister.core.limits import SessionLimits
from cloister.core.wire import format_time, from_json
from cloister.ports.clock import SystemClock, moment
from cloister.ports.keys import Purpose
from cloister.ports.rows import Put, SessionRow, Write
from cloister.ports.store import Store
from cloister.sessions.carrying import carried
from cloister.sessions.envelope import Envelope
from cloister.sessions.history import envelope_at
from cloister.sessions.vault import Vault, seal_row

_AGAIN = 3


async def moment_of(store: Store, session_id: str, at: str | None = None) -> Envelope:
    """The session as it is, or as it was `at` the end of a cell or a call. Read only: whoever has it may go on, and
    then only moments that are over can be had."""
    for _ in range(_AGAIN):
        row = await found(store, session_id)
        if at is None and any(cell.ended_ms is None for cell in await store.cells(row.id, live=True)):
            raise CellBusy(
                f"session {row.id!r} has cells that have not ended",
                hint="say which moment: --at with the id of a cell that has ended, or of a call that it waits for; "
                f"cloister session show {row.id} has them",
            )
        made = await _envelope(store, row, at)
        if at is not None or await store.session(row.id) == row:
            return made
    raise SessionExists(
        f"session {session_id!r} is at work in another process", hint="say which moment: --at with the id of a cell"
    )


async def _envelope(store: Store, row: SessionRow, at: str | None) -> Envelope:
    doc = row.doc
    async with look_at(store, row.id) as had:
        state = await store.blob(row.image) if row.image is not None else None
        if state is None and row.image is not None:
            raise StoreUnusable(f"the variables of session {row.id!r} are not in the store")
        secrets, attachments = await store.secrets(row.id), await store.attachments(row.id)
        entries, contents = had.files.entries()
        made = Envelope(
            session_id=row.id,
            language=parse_language(doc["language"]),
            engine=doc["engine"],
            engine_version=doc["engine_version"],
            limits=from_json(SessionLimits, doc["limits"]),
            capabilities=doc["capabilities"],
            created_at=format_time(moment(SystemClock().now_ms())),
            state=state,
            seed=doc["seed"],
            title=doc["title"],
            labels=doc["labels"],
            mark=doc["mark"],
            calls=doc["calls"],
            values=await had.values.all(),
            files=entries,
            contents=contents,
            plugins=doc.get("plugins", {}),
            left_out=(
                *(f"secret {one.name}" for one in secrets),
                *(f"attachment {one.blob}" for one in attachments),
            ),
        )
        if at is not None:
            made = replace(await envelope_at(store, row.id, at, made), left_out=made.left_out)
        return await carried(made, had.files)


async def copy_belongings(store: Store, source: str, target: str) -> None:
    """What no snapshot has, for a fork: the secrets, sealed for it, and what the attachments refer to."""
    writes: list[Write] = [Put(replace(row, session_id=target)) for row in await store.attachments(source)]
    if rows := await store.secrets(source):
        vault = Vault(Keys(Purpose.SECRET))
        opened, ring = await vault.open(rows), await vault.ring()
        for row in rows:
            writes.append(
                Put(
                    seal_row(
                        target, row.name, opened[row.name], ring, created_ms=row.created_ms, updated_ms=row.updated_ms
                    )
                )
            )
    if writes:
        async with claimed(store, target) as ours:
            await ours.write(writes)
