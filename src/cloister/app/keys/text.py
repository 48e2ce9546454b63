"""Keys as text, in base64 or hex: what the environment and commands give, the newest first.

What is wrong is said without the text: these messages end up in logs.
"""

import base64
import binascii
import re

from cloister.core.errors import InvalidInput

KEY_BYTES = 32
MOST_KEYS = 64
_BETWEEN = re.compile(r"[\s,]+")
_HEX = re.compile(r"[0-9A-Fa-f]{64}")
# Base64 of URLs is as good.
_STANDARD = str.maketrans("-_", "+/")
_HINT = "a key is 32 random bytes in base64 or hex: `openssl rand -base64 32` makes one"


def parse_keys(text: str, where: str) -> tuple[bytes, ...]:
    """The keys in `text`, with commas or white space between them. `where` says in a message where it came from."""
    parts = [part for part in _BETWEEN.split(text) if part]
    if not parts:
        raise InvalidInput(f"{where} has no key in it", hint=_HINT)
    if len(parts) > MOST_KEYS:
        raise InvalidInput(f"{where} has {len(parts)} keys in it; {MOST_KEYS} are the most")
    keys = tuple(
        _parse_key(part, f"key {number} of {where}" if len(parts) > 1 else where)
        for number, part in enumerate(parts, 1)
    )
    check_different(keys, where)
    return keys


def check_different(keys: tuple[bytes, ...], where: str) -> None:
    if len(set(keys)) != len(keys):
        raise InvalidInput(f"{where} has one key twice", hint="name each key once, the newest first")


def _parse_key(text: str, where: str) -> bytes:
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    try:
        key = base64.b64decode(text.translate(_STANDARD) + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{where} is neither base64 nor hex", hint=_HINT) from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"{where} has {len(key)} bytes instead of {KEY_BYTES}", hint=_HINT)
    return key
