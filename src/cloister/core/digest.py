"""Digests: lower-hex SHA3-256 over bytes, or over canonical JSON (sorted keys, no spaces, UTF-8)."""

import hashlib

from cloister.core.json_text import json_writer

_written = json_writer(sort_keys=True)


def canonical_json(value: object) -> bytes:
    """The one way to write `value` as JSON. Equal values give equal bytes, whatever the order of their keys."""
    text = _written(value)
    # A lone surrogate cannot be UTF-8; it is kept apart from every real text by its escape.
    return text.encode("utf-8", "backslashreplace")


def digest_bytes(data: bytes) -> str:
    return hashlib.sha3_256(data).hexdigest()


def digest_json(value: object) -> str:
    return digest_bytes(canonical_json(value))
