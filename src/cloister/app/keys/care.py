"""Looking after the keys: what there is, a new one, one that goes, and what is sealed with which.

Sealing anew goes from session to session. Each is claimed for the moment, so that nobody writes to it meanwhile; one
that a host has open is left alone, and that host seals it anew when it opens it the next time.
"""

import asyncio
from dataclasses import dataclass, field

from cloister.app.keys.keys import Keys
from cloister.core.errors import InvalidInput, SecretsLocked
from cloister.ports.keys import KeyRing, Purpose
from cloister.ports.rows import Batch, Claim, Drop, Put, SecretRow, Write
from cloister.ports.store import Store
from cloister.sessions.owner import is_dead, new_owner
from cloister.sessions.vault import open_row, reseal, sealed_with

_PAGE = 1000
# Sessions that are claimed together.
_AT_ONCE = 100
_HOLD_MS = 30_000


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """`state`: "in use" for the newest, "accepted" for the others."""

    purpose: str
    id: str
    state: str
    origin: str
    where: str
    made_ms: int | None = None


@dataclass(slots=True)
class Resealed:
    """What became of the secrets in a store."""

    resealed: int = 0
    # Already sealed with the newest key.
    current: int = 0
    # Of these sessions, which another process has open.
    in_use: list[str] = field(default_factory=list[str])
    # Session, name, and why it does not open.
    locked: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    # Those of them that were removed.
    forgotten: int = 0


def known_keys(keys: Keys) -> list[KeyInfo]:
    """The newest first. Makes none."""
    ring, origin, where = keys.ring_now(), keys.origin, keys.where
    made = [key.made_ms for key in keys.file.filed()] if origin == "file" else [None] * len(ring.keys)
    return [
        KeyInfo(str(keys.purpose), key.id.hex(), "accepted" if place else "in use", origin, where, made_ms)
        for place, (key, made_ms) in enumerate(zip(ring.keys, made, strict=True))
    ]


def check_filed(keys: Keys, verb: str) -> None:
    """Only a file's keys are ours to change."""
    match keys.origin:
        case "file":
            return
        case "command":
            hint = "let the command print the new key first and the old ones after it"
        case _:
            hint = f"put the new key first and keep the old ones after it: {keys.variable}=NEW,OLD"
    if keys.purpose is Purpose.SECRET:
        hint += "; then seal what is stored anew: cloister keys reseal"
    raise InvalidInput(f"the {keys.purpose} key comes from {keys.where}: it cannot be {verb} here", hint=hint)


async def reseal_store(store: Store, keys: Keys, *, forget_locked: bool = False) -> Resealed:
    """Seal with the newest key whatever is sealed with another. What does not open is left as it is, or forgotten."""
    done = Resealed()
    names = sorted({row.session_id for row in await _secret_rows(store)})
    if not names:
        return done
    ring = await keys.ring(make=True)
    owner = new_owner()
    await _bury(store)
    try:
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            await store.join(owner, _HOLD_MS)
            claims = await store.claim(owner, some)
            done.in_use += sorted(set(some) - {claim.row.id for claim in claims})
            for claim in claims:
                await _reseal_session(store, claim, ring, done, forget_locked)
            await store.release(owner, some)
    finally:
        await asyncio.shield(store.release(owner))
    return done


async def sealed_under(store: Store, key_id: bytes) -> list[tuple[str, str]]:
    """The secrets, by session and name, that nothing but this key opens."""
    return [(row.session_id, row.name) for row in await _secret_rows(store) if sealed_with(row) == key_id]


async def _reseal_session(store: Store, claim: Claim, ring: KeyRing, done: Resealed, forget_locked: bool) -> None:
    writes: list[Write] = []
    # Read now that the session is ours: it may have changed until then.
    for row in await store.secrets(claim.row.id):
        try:
            stale = reseal([row], ring)
            if not stale:
                # Sealed with the newest, it may have been changed all the same.
                open_row(row, ring)
        except SecretsLocked as locked:
            done.locked.append((row.session_id, row.name, locked.message))
            if forget_locked:
                writes.append(Drop("secrets", (row.session_id, row.name)))
            continue
        writes += map(Put, stale)
        done.current += not stale
    if writes:
        await store.write(Batch(tuple(writes), claim.fence))
    done.forgotten += sum(isinstance(write, Drop) for write in writes)
    done.resealed += sum(isinstance(write, Put) for write in writes)


async def _secret_rows(store: Store) -> list[SecretRow]:
    found: list[SecretRow] = []
    after: tuple[str | int, ...] | None = None
    while rows := await store.scan("secrets", after=after, limit=_PAGE):
        found += [row for row in rows if isinstance(row, SecretRow)]
        after = (found[-1].session_id, found[-1].name)
    return found


async def _bury(store: Store) -> None:
    """Hosts that are known to have died hold nothing."""
    for other in await store.owners():
        if is_dead(other):
            await store.release(other)
