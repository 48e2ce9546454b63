"""The snapshot envelope: a session's bytes with what must be true of whoever opens them.

    magic 8 | format 2 | key id 8 | head length 4 | head (JSON, zstd) | payload (zstd) | MAC 32

The MAC (HMAC-SHA3-256) covers every byte before it and is checked before any of them is believed; the key's id only
says which key to check it with. The head says
which engine wrote the payload, for which session, under which limits and with which capabilities. The payload is
one form for idle and suspended sessions alike: the engine's bytes, then those of the files that the head names.
"""

import hashlib
import hmac
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import zstandard

from cloister.core.errors import SnapshotCapabilityMismatch, SnapshotCorrupt, SnapshotForeign, SnapshotVersionMismatch
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.ports import keys
from cloister.ports.keys import Key, KeyRing, Purpose

MAGIC = b"CLOISTER"
FORMAT = 4
MAX_PAYLOAD = 512 << 20
_FIXED = struct.Struct(">8sH8sI")
_MAC = 32


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a snapshot holds. `cell` is what is known of a suspended program, absent when the session was idle."""

    session_id: str
    language: Language
    engine: str
    engine_version: str
    limits: SessionLimits
    # Full name -> digest of everything that a program relies on; see `core.capability`.
    capabilities: Mapping[str, str]
    created_at: str
    # None: the session had never run anything.
    state: bytes | None
    cell: Mapping[str, Any] | None = None
    seed: int = 0
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    tenant: str = ""
    # What the session's programs know their secrets' handles by.
    mark: str = ""
    # How often each tool was called: rules may depend on it.
    calls: Mapping[str, int] = field(default_factory=dict[str, int])
    # What its programs have stored.
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # What its files are, by path, and their bytes by the names that are in there.
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    contents: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    # What its plugins keep, by their names.
    plugins: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # What could not be kept, named.
    left_out: tuple[str, ...] = ()

    def check_capabilities(self, here: Mapping[str, str]) -> None:
        """Raise unless all that the snapshot's programs may call is there as it was. More is fine."""
        gone = sorted(name for name in self.capabilities if name not in here)
        # One that was made of a session's row has the beginnings of its digests.
        had = self.capabilities.items()
        changed = sorted(n for n, digest in had if n in here and not (digest and here[n].startswith(digest)))
        if gone or changed:
            parts = [f"{', '.join(gone)} is gone"] if gone else []
            parts += [f"{', '.join(changed)} has changed"] if changed else []
            raise SnapshotCapabilityMismatch(
                f"the snapshot's programs may call what is not there as it was: {'; '.join(parts)}",
                hint="restore it with the tools it was made with; more tools are fine",
            )


def key_id(key: bytes) -> bytes:
    return keys.key_id(Purpose.SNAPSHOT, key)


def _ring(key: bytes | KeyRing) -> KeyRing:
    return key if isinstance(key, KeyRing) else KeyRing((Key.of(Purpose.SNAPSHOT, key),))


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha3_256).digest()


def seal(envelope: Envelope, key: bytes | KeyRing) -> bytes:
    """The envelope as bytes, with this key or the newest of these."""
    maker = _ring(key).newest
    head = {
        "session_id": envelope.session_id,
        "language": envelope.language,
        "engine": envelope.engine,
        "engine_version": envelope.engine_version,
        "limits": [
            envelope.limits.memory_mb,
            envelope.limits.cpu_ms,
            envelope.limits.wall_ms,
            envelope.limits.max_stdout_bytes,
            envelope.limits.max_external_calls,
            envelope.limits.max_stack_depth,
        ],
        "capabilities": dict(envelope.capabilities),
        "created_at": envelope.created_at,
        "fresh": envelope.state is None,
        "cell": envelope.cell,
        "seed": envelope.seed,
        "title": envelope.title,
        "labels": dict(envelope.labels),
        "tenant": envelope.tenant,
        "mark": envelope.mark,
        "calls": dict(envelope.calls),
        "values": dict(envelope.values),
        "files": dict(envelope.files),
        "contents": [[name, len(data)] for name, data in envelope.contents.items()],
        "plugins": dict(envelope.plugins),
        "left_out": list(envelope.left_out),
    }
    payload = b"".join([envelope.state or b"", *envelope.contents.values()])
    packed = zstandard.ZstdCompressor(level=3).compress(payload)
    head_bytes = zstandard.ZstdCompressor(level=3).compress(json.dumps(head, separators=(",", ":")).encode())
    body = _FIXED.pack(MAGIC, FORMAT, maker.id, len(head_bytes)) + head_bytes + packed
    return body + _mac(maker.material, body)


def unseal(data: bytes, key: bytes | KeyRing) -> Envelope:
    """The envelope in `data`, if it was made with this key, or one of these; raises a `SnapshotError` that says what is
    wrong with it."""
    if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SnapshotCorrupt(f"a snapshot is bytes, not {type(data).__name__}")
    data = bytes(data)
    if len(data) < _FIXED.size + _MAC or not data.startswith(MAGIC):
        raise SnapshotCorrupt("this is not a snapshot, or only the beginning of one")
    _, version, maker, head_size = _FIXED.unpack_from(data)
    if version != FORMAT:
        hint = "use a newer Cloister" if version > FORMAT else "use the Cloister that made it"
        raise SnapshotVersionMismatch(f"the snapshot has format {version}; this Cloister reads {FORMAT}", hint=hint)
    ring = _ring(key)
    found = ring.find(maker)
    if found is None:
        raise SnapshotForeign(
            f"the snapshot was made with another key, {maker.hex()}; the keys here are {ring}",
            hint="restore it where it was made, or give the same key; a key that was retired opens nothing any more",
        )
    body, mac = data[:-_MAC], data[-_MAC:]
    if not hmac.compare_digest(mac, _mac(found.material, body)):
        raise SnapshotCorrupt("the snapshot is damaged: it is cut off or its bytes were changed")
    try:
        raw = zstandard.ZstdDecompressor().decompress(
            body[_FIXED.size : _FIXED.size + head_size], max_output_size=64 << 20
        )
        head = json.loads(raw)
        payload = zstandard.ZstdDecompressor().decompress(body[_FIXED.size + head_size :], max_output_size=MAX_PAYLOAD)
    except (zstandard.ZstdError, ValueError) as error:
        raise SnapshotCorrupt(f"the snapshot cannot be read: {error}") from None
    contents: dict[str, bytes] = {}
    for name, size in reversed(head["contents"]):
        contents[name], payload = payload[len(payload) - size :], payload[: len(payload) - size]
    return Envelope(
        session_id=head["session_id"],
        language=Language(head["language"]),
        engine=head["engine"],
        engine_version=head["engine_version"],
        limits=SessionLimits(*head["limits"]),
        capabilities=head["capabilities"],
        created_at=head["created_at"],
        state=None if head["fresh"] else payload,
        cell=head["cell"],
        seed=head["seed"],
        title=head["title"],
        labels=head["labels"],
        tenant=head.get("tenant", ""),
        mark=head["mark"],
        calls=head["calls"],
        values=head["values"],
        files=head["files"],
        contents=contents,
        plugins=head.get("plugins", {}),
        left_out=tuple(head["left_out"]),
    )
