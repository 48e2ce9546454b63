"""The bytes of a Python namespace: what we know of it, as JSON, in front of what Monty dumped."""

import json
import struct
from typing import Any

from cloister.core.errors import SnapshotCorrupt

_HEADER = struct.Struct("<4sI")
_MAGIC = b"CMY1"


def joined(meta: dict[str, Any], image: bytes) -> bytes:
    head = json.dumps(meta, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return _HEADER.pack(_MAGIC, len(head)) + head + image


def split(state: bytes) -> tuple[dict[str, Any], bytes]:
    """What we wrote beside Monty's bytes, and those bytes."""
    try:
        magic, size = _HEADER.unpack_from(state)
        if magic != _MAGIC:
            raise ValueError("magic")
        meta = json.loads(state[_HEADER.size : _HEADER.size + size].decode("utf-8", "surrogatepass"))
        if not {"context", "calls", "seen"} <= meta.keys():
            raise ValueError("head")
    except (struct.error, ValueError, AttributeError):
        raise SnapshotCorrupt("these bytes are not a state of the Python engine") from None
    return meta, state[_HEADER.size + size :]
