"""A session's files as a host speaks of them: what it gives a session, what it allows, and what it is told.

Plain data; how files are kept, found and refused is no business of this module.
"""

import os
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal, TypeAlias

from cloister.core.errors import InvalidInput, InvalidLimits

FileKind: TypeAlias = Literal["file", "directory"]
MountMode: TypeAlias = Literal["read_only", "copy_on_write"]

# A snapshot names every file of a session in one document, which has its own bound.
_MOST_FILES = 20_000
_MOST_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How many files and directories a session may have, and how many bytes, together and in one file. What lies in a
    mounted directory does not count; what a program changes there does."""

    max_files: int = 10_000
    max_bytes: int = 64 << 20
    max_file_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        for field in fields(self):
            value, most = getattr(self, field.name), _MOST_FILES if field.name == "max_files" else _MOST_BYTES
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidLimits(f"{field.name} must be a whole number, not {type(value).__name__}")
            if not 1 <= value <= most:
                raise InvalidLimits(f"{field.name} must be between 1 and {most}, not {value}")


@dataclass(frozen=True, slots=True)
class InitialFile:
    """A file that is there when a session begins. One that is `read_only` can be neither written nor deleted."""

    content: str | bytes
    read_only: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.content, (str, bytes)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"an initial file is text or bytes, not {type(self.content).__name__}")


@dataclass(frozen=True, slots=True)
class Mount:
    """A real directory that appears among a session's files. Nothing is ever written to it: it is `read_only`, or what
    is changed there is kept by the session (`copy_on_write`).

    Symbolic links in it are not followed. Files with more than one hard link may be anywhere else too: they are refused
    unless `hard_links` says that they are fine.
    """

    path: str | os.PathLike[str]
    mode: MountMode = "read_only"
    hard_links: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"a mount's path is text or a Path, not {type(self.path).__name__}")
        if self.mode not in ("read_only", "copy_on_write"):
            raise InvalidInput(f"a mount is 'read_only' or 'copy_on_write', not {self.mode!r}")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One of those that are directly in a directory. A directory has a size of 0."""

    name: str
    path: str
    kind: FileKind
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FileInfo:
    """`hash` is the SHA3-256 of a file's content in hex: what `write_if_match` compares. None of directories."""

    path: str
    kind: FileKind
    size_bytes: int
    modified_at: datetime
    hash: str | None = None
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class FileMatch:
    """A line that `grep` found; lines are counted from 1. A long one is cut."""

    path: str
    line: int
    text: str
