"""The wire between the host and one worker: a length, a kind, a payload. Used on both sides.

The host trusts nothing that comes back: each kind has its largest size, checked before the payload is read, and
what does not fit is a `FrameError`, after which the worker must not be heard again.
"""

import json
import struct
from typing import Any, Final

HEADER: Final = struct.Struct(">IB")
_LENGTH: Final = struct.Struct(">I")
# Processor time, most memory held, bytes of output that were dropped; the report follows.
STEP_HEAD: Final = struct.Struct(">dQQ")

# host -> worker
SETUP, OPEN, START, RESUME, DUMP, CHECK, JUDGE, CLOSE, HELPED = range(1, 10)
# worker -> host
HELLO, OPENED, STEP, OUTPUT, IMAGE, CHECKED, CLOSED, REFUSED, HELP = range(16, 25)

MIB: Final = 1 << 20
# To the worker: an image may be as large as a session's memory. From it: what a guest can make is bounded in the guest.
TO_WORKER: Final = 80 * MIB
LARGEST: Final = {
    HELLO: 4096,
    OPENED: 4096,
    STEP: 24 * MIB,
    OUTPUT: 4 * MIB,
    IMAGE: 80 * MIB,
    CHECKED: MIB,
    CLOSED: 4096,
    REFUSED: 4096,
    HELP: 24 * MIB,
}
# Only what goes into a file may be that large: any other question is bounded like this.
LARGEST_HELP: Final = 8 * MIB
ABOUT_FILES: Final = b'{"name":"files.'


def is_about_files(question: bytes) -> bool:
    return question.startswith(ABOUT_FILES)


class FrameError(Exception):
    """Bytes that no honest peer would send."""


def pack(kind: int, *parts: bytes) -> bytes:
    payload = b"".join(parts)
    return HEADER.pack(len(payload), kind) + payload


def pack_with_head(kind: int, head: dict[str, Any], tail: bytes = b"") -> bytes:
    """A payload of two parts: JSON that the receiver reads, and bytes that it may only pass on."""
    data = json.dumps(head, separators=(",", ":")).encode()
    return pack(kind, _LENGTH.pack(len(data)), data, tail)


def split_head(payload: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        (size,) = _LENGTH.unpack_from(payload)
        return json.loads(payload[4 : 4 + size]), payload[4 + size :]
    except (struct.error, ValueError, RecursionError) as error:
        raise FrameError(f"a frame without its head: {error}") from None


class Reader:
    """Cuts a stream of bytes into frames."""

    def __init__(self, largest: dict[int, int]) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._wanted = HEADER.size

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that are complete now. Raises `FrameError` as soon as a header is not acceptable."""
        buffer = self._buffer
        buffer += data
        frames: list[tuple[int, bytes]] = []
        while len(buffer) >= self._wanted:
            size, kind = HEADER.unpack_from(buffer)
            largest = self._largest.get(kind)
            if largest is None:
                raise FrameError(f"a frame of unknown kind {kind}")
            if size > largest:
                raise FrameError(f"a frame of kind {kind} with {size} bytes is over its bound of {largest}")
            end = HEADER.size + size
            if len(buffer) < end:
                self._wanted = end
                break
            frames.append((kind, bytes(memoryview(buffer)[HEADER.size : end])))
            del buffer[:end]
            self._wanted = HEADER.size
        return frames
