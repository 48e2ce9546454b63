"""What can be at a path: a file, a directory, or nothing where a mounted directory has something.

Nodes never change; a change puts another node in their place. So whoever has a node has what was there at that moment.
"""

from dataclasses import dataclass
from typing import TypeAlias

from cloister.core.digest import digest_bytes


class Content:
    """The bytes of a file, named by their digest. Either may be missing for now: the digest until somebody needs it,
    the bytes while they are only in the store."""

    __slots__ = ("_name", "data", "size")

    def __init__(self, data: bytes | None, *, name: str | None = None, size: int | None = None) -> None:
        if data is None and (name is None or size is None):
            raise ValueError("bytes that are elsewhere have a name and a size")
        self.data = data
        self.size = len(data) if data is not None else size or 0
        self._name = name

    @property
    def name(self) -> str:
        if self._name is None:
            assert self.data is not None
            self._name = digest_bytes(self.data)
        return self._name


NOTHING = Content(b"")


@dataclass(frozen=True, slots=True)
class File:
    content: Content
    modified_ms: int
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Directory:
    modified_ms: int
    # Hides what a mounted directory has at its place: that was deleted before.
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """Hides what a mounted directory has here."""

    modified_ms: int


Node: TypeAlias = File | Directory | Gone
