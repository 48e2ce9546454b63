"""The keys port: what snapshots are authenticated with and stored secrets are sealed with.

A ring has the keys of one purpose, the newest first. What is made is made with the newest; what was made with any of
them is accepted. Whoever made something says with which key by the key's id, which tells keys apart and tells nothing
about them. Two purposes never share a key, and even one and the same text has another id in each.
"""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

ID_BYTES = 8


class Purpose(StrEnum):
    SNAPSHOT = "snapshot"
    SECRET = "secret"  # noqa: S105 - a word


def key_id(purpose: Purpose, material: bytes) -> bytes:
    """Tells keys apart without telling anything about them."""
    return hashlib.sha3_256(f"cloister {purpose} key id".encode() + material).digest()[:ID_BYTES]


@dataclass(frozen=True, slots=True)
class Key:
    """Its material is never part of `repr`."""

    id: bytes
    material: bytes = field(repr=False)

    @classmethod
    def of(cls, purpose: Purpose, material: bytes) -> "Key":
        return cls(key_id(purpose, material), material)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The newest first. An empty one opens nothing."""

    keys: tuple[Key, ...] = ()

    @property
    def newest(self) -> Key:
        return self.keys[0]

    def find(self, key_id: bytes) -> Key | None:
        return next((key for key in self.keys if key.id == key_id), None)

    def __str__(self) -> str:
        """The ids, for a message."""
        return ", ".join(key.id.hex() for key in self.keys) or "none"


class KeySource(Protocol):
    async def ring(self, *, make: bool = False) -> KeyRing:
        """The keys as they are now; with `make` one at least. Raises `InvalidInput` when they cannot be had."""
        ...

    def ring_now(self, *, make: bool = False) -> KeyRing:
        """The same for who cannot wait; it may block."""
        ...
