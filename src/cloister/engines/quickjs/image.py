"""A guest as bytes: its linear memory, compressed against the boot image, behind a small header. Runs in the worker.

The boot image is the dictionary, so that a small program costs what it added to it: a few kilobytes. The bytes are
not authenticated (the snapshot's envelope does that) but a flipped bit is noticed, and nothing is
decompressed before its size is known to be allowed.
"""

import hashlib
import struct

import zstandard

from cloister.engines.quickjs.guest import Boot, Guest

_HEADER = struct.Struct("<4s16sIIQ")
_MAGIC = b"CQJ1"
_LEVEL = 3


class ImageRefused(Exception):
    """Bytes that are no image of this engine, or too large a one."""


class Images:
    """Dumps and loads guests that began with one boot image."""

    def __init__(self, boot: Boot) -> None:
        self._boot = boot
        self.digest = hashlib.sha256(boot.live).digest()[:16]
        dictionary = zstandard.ZstdCompressionDict(boot.live, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        dictionary.precompute_compress(level=_LEVEL)  # pyright: ignore[reportUnknownMemberType]
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary, write_checksum=True)
        self._decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)

    def dump(self, guest: Guest, promise: int) -> bytes:
        """The guest at rest; `promise` is the handle of the suspended cell's promise, or 0."""
        live, pointer = guest.save()
        header = _HEADER.pack(_MAGIC, self.digest, pointer, promise & 0xFFFFFFFF, len(live))
        return header + self._compressor.compress(live)

    def load(self, guest: Guest, image: bytes, most: int) -> int:
        """Put an image into a fresh guest whose memory may have `most` bytes; returns the promise's handle."""
        if len(image) < _HEADER.size:
            raise ImageRefused("the bytes end too early")
        magic, digest, pointer, promise, size = _HEADER.unpack_from(image)
        if magic != _MAGIC:
            raise ImageRefused("the bytes are not an image of this engine")
        if digest != self.digest:
            raise ImageRefused("the image belongs to another version of this engine")
        if pointer != self._boot.stack_pointer:
            raise ImageRefused("the image is damaged")
        if pointer + size > most:
            raise ImageRefused(f"the image needs {(pointer + size) >> 20} MiB, more than the session's memory_mb")
        frame = image[_HEADER.size :]
        try:
            if zstandard.get_frame_parameters(frame).content_size != size:
                raise ImageRefused("the image is damaged")
            live = self._decompressor.decompress(frame, max_output_size=size)
        except zstandard.ZstdError:
            raise ImageRefused("the image is damaged") from None
        if len(live) != size:
            raise ImageRefused("the image is damaged")
        guest.load(live, pointer)
        return promise
