"""The vault: seals the secrets that a store keeps, and opens them again.

AES-256-GCM with a random nonce for each seal. A sealed value is bound to its session, its name and the tools that it is
allowed for: moved to another session or name, or allowed for more in the store's file, it does not open. It says by an
id with which key it was sealed, so that keys can change.

    magic 4 | key id 8 | nonce 12 | value, encrypted | tag 16
"""

import json
import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from cloister.core.errors import InvalidInput, SecretsLocked
from cloister.ports.keys import ID_BYTES, Key, KeyRing, KeySource
from cloister.ports.rows import SecretRow
from cloister.ports.secrets import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC = b"CLS1"
_NONCE = 12
_HEAD = len(_MAGIC) + ID_BYTES + _NONCE


def sealed_with(row: SecretRow) -> bytes:
    """The id of the key that the row was sealed with, as it says itself; empty if it says nothing."""
    return row.sealed[len(_MAGIC) : len(_MAGIC) + ID_BYTES] if row.sealed.startswith(_MAGIC) else b""


def allowed_of(row: SecretRow) -> tuple[str, ...]:
    """What the row says that it is allowed for. It is bound to the value: see `Vault.open`."""
    found: Any = row.doc.get("allowed", [])
    return tuple(map(str, cast("list[Any]", found))) if isinstance(found, list) else ()


class Vault:
    def __init__(self, keys: KeySource) -> None:
        self._keys = keys

    async def ring(self, *, make: bool = False) -> KeyRing:
        return await self._keys.ring(make=make)

    def ring_now(self) -> KeyRing:
        return self._keys.ring_now(make=True)

    async def open(self, rows: Sequence[SecretRow]) -> dict[str, Secret]:
        """By name. Raises `SecretsLocked` if one of them does not open, `InvalidInput` if the keys cannot be had."""
        if not rows:
            return {}
        ring = await self.ring()
        return {row.name: open_row(row, ring) for row in rows}


def seal_row(
    session_id: str, name: str, secret: Secret, ring: KeyRing, *, created_ms: int, updated_ms: int
) -> SecretRow:
    key, nonce = ring.newest, secrets.token_bytes(_NONCE)
    bound = _bound(session_id, name, secret.allowed)
    sealed = _MAGIC + key.id + nonce + _cipher(key).encrypt(nonce, secret.value.encode(), bound)
    return SecretRow(session_id, name, sealed, created_ms, updated_ms, {"allowed": list(secret.allowed)})


def open_row(row: SecretRow, ring: KeyRing) -> Secret:
    """Raises `SecretsLocked`, which says what to do and nothing of the value."""
    # Imported here: a host without stored secrets does not pay for it.
    from cryptography.exceptions import InvalidTag

    if len(row.sealed) < _HEAD or not row.sealed.startswith(_MAGIC):
        _damaged(row)
    key = ring.find(sealed_with(row))
    if key is None:
        raise SecretsLocked(
            f"the secret {row.name!r} of session {row.session_id!r} was sealed with key {sealed_with(row).hex()}, "
            f"which is not here; the keys here are {ring}",
            hint="give that key as well: secret_key=, CLOISTER_SECRET_KEY, or the secret.key of where it was sealed. "
            "If it is lost: cloister keys reseal --forget-locked",
        )
    allowed = allowed_of(row)
    try:
        nonce = row.sealed[_HEAD - _NONCE : _HEAD]
        value = _cipher(key).decrypt(nonce, row.sealed[_HEAD:], _bound(row.session_id, row.name, allowed))
        return Secret(value.decode(), allowed)
    except (InvalidTag, InvalidInput, UnicodeDecodeError):
        _damaged(row)


def reseal(rows: Iterable[SecretRow], ring: KeyRing) -> list[SecretRow]:
    """Those that were sealed with another key than the newest, with it; raises `SecretsLocked`."""
    return [
        seal_row(
            row.session_id, row.name, open_row(row, ring), ring, created_ms=row.created_ms, updated_ms=row.updated_ms
        )
        for row in rows
        if sealed_with(row) != ring.newest.id
    ]


def _damaged(row: SecretRow) -> NoReturn:
    raise SecretsLocked(
        f"the secret {row.name!r} of session {row.session_id!r} does not open: it was changed in the store",
        hint="take the store from a copy, or forget what does not open: cloister keys reseal --forget-locked",
    ) from None


def _bound(session_id: str, name: str, allowed: Sequence[str]) -> bytes:
    # As JSON, so that no other three could come to the same bytes.
    return json.dumps(["cloister secret", 1, session_id, name, list(allowed)], separators=(",", ":")).encode()


def _cipher(key: Key) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key.material)
