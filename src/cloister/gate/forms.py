"""How a secret's value can be written: the byte strings to look for.

As itself, in hex, and in base64 at each of its three alignments inside a longer base64 text. What else a value can look
like (percent-encoded, JSON-escaped, broken over lines) is undone by reading the text differently: see `readings.py`.
Line breaks are no part of any reading, so they are no part of what is looked for either.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

# So many bytes are looked for first; what begins with them is looked at closely.
ANCHOR = 8
_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


@dataclass(frozen=True, slots=True)
class Needle:
    """One way to write one value. Its `repr` has no part of it."""

    name: str
    # Which way it is.
    form: str
    data: bytes = field(repr=False)
    # In base64 the first and the last byte may share a character with their neighbours: the ones that fit there.
    before: bytes = field(default=b"", repr=False)
    after: bytes = field(default=b"", repr=False)
    pads: int = 0

    @property
    def anchor(self) -> bytes:
        return self.data[:ANCHOR]


@dataclass(frozen=True, slots=True)
class Needles:
    """All that is looked for, ready to be looked for."""

    # Together, because the anchor is all that is needed most of the time.
    anchored: tuple[tuple[bytes, Needle], ...] = field(default=(), repr=False)
    # Every beginning of a needle that is shorter than an anchor, with the needle.
    beginnings: dict[bytes, Needle] = field(default_factory=dict[bytes, Needle], repr=False)
    longest: int = 0
    # Whether a number's digits could be one of the values.
    numeric: bool = False

    def __bool__(self) -> bool:
        return bool(self.anchored)


def needles_of(name: str, value: str) -> tuple[Needle, ...]:
    """Every way to write `value`."""
    raw = value.encode()
    plain, digits = raw.translate(None, b"\r\n"), raw.hex()
    written = {
        "plain": plain,
        "plus": plain.replace(b" ", b"+"),
        "hex": digits.encode(),
        "HEX": digits.upper().encode(),
    }
    needles = [Needle(name, form, data) for form, data in written.items()]
    for shift in range(3):
        needle = _base64(name, raw, shift)
        safe = needle.data.translate(_URL_SAFE)
        needles += [needle, replace(needle, form=f"url-safe base64 {shift}", data=safe)]
    # Most values are written alike in some of these ways.
    return tuple({needle.data: needle for needle in reversed(needles)}.values())[::-1]


def _base64(name: str, raw: bytes, shift: int) -> Needle:
    """The characters that `raw` alone decides when `shift` bytes stand before it."""
    whole = base64.b64encode(bytes(shift) + raw)
    bits = 8 * (shift + len(raw))
    core = whole[(8 * shift + 5) // 6 : bits // 6]
    before = after = b""
    if shift:
        # Its first bits are the neighbour's, and can be any.
        known = 6 - 2 * shift
        before = _characters([high << known | raw[0] >> 8 - known for high in range(1 << 6 - known)])
    if rest := bits % 6:
        high = raw[-1] & (1 << rest) - 1
        after = _characters([high << 6 - rest | low for low in range(1 << 6 - rest)])
    return Needle(name, f"base64 {shift}", core, before, after, -(shift + len(raw)) % 3)


def _characters(sextets: Iterable[int]) -> bytes:
    standard = bytes(_STANDARD[sextet] for sextet in sextets)
    return standard + standard.translate(_URL_SAFE)


def gather(needles: Iterable[Needle]) -> Needles:
    # The longest first: of two needles in one place, the longer one is meant.
    ordered = sorted(needles, key=lambda needle: -len(needle.data))
    beginnings: dict[bytes, Needle] = {}
    for needle in ordered:
        for size in range(1, min(ANCHOR, len(needle.data))):
            beginnings.setdefault(needle.data[:size], needle)
    return Needles(
        anchored=tuple((needle.anchor, needle) for needle in ordered),
        beginnings=beginnings,
        longest=max((len(needle.data) for needle in ordered), default=0),
        numeric=any(not needle.data.strip(b"0123456789.eE+-") for needle in ordered),
    )
