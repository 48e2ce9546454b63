"""Which files a program binary cannot start without: its loader and the shared libraries that the loader picks.

The loader itself is asked (`ld.so --list`, which maps the binary without running it), because only it knows its
search order. When it gives no answer, the system's library directories stand in for the single files.
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

_STANDARD = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_CACHE = Path("/etc/ld.so.cache")
_PT_INTERP = 3


@dataclass(frozen=True, slots=True)
class Needs:
    """`execute`: the kernel opens these to start the program. `read`: the loader maps these into it."""

    execute: tuple[Path, ...]
    read: tuple[Path, ...]


def needs(binary: Path) -> Needs:
    """What a confined process must be allowed in order to become `binary`."""
    loader = interpreter(binary)
    if loader is None:
        return Needs((binary,), ())
    cache = (_CACHE,) if _CACHE.exists() else ()
    return Needs((binary, loader), (*(linked(binary, loader) or _directories()), *cache))


def interpreter(binary: Path) -> Path | None:
    """The dynamic loader that an ELF file names; None for a static program. A script or the like is a ValueError."""
    with binary.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{str(binary)!r} is not a 64-bit ELF program; give the binary itself, not a wrapper")
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        entries = file.read(size * count)
        for index in range(count):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", entries, index * size)
            if kind == _PT_INTERP:
                file.seek(offset)
                return Path(file.read(length).rstrip(b"\0").decode())
    return None


def linked(file: Path, loader: Path) -> list[Path]:
    """The shared libraries that a program or a library is linked with, as this loader finds them."""
    try:
        answer = subprocess.run(
            [loader, "--list", file], env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if answer.returncode != 0:
        return []
    # "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f...)"
    named = (line.partition("=>")[2].rpartition("(")[0].strip() for line in answer.stdout.splitlines())
    return sorted({Path(name) for name in named if name.startswith("/")})


def _directories() -> list[Path]:
    return [Path(name) for name in _STANDARD if Path(name).is_dir()]
