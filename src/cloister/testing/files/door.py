"""A door: one way to a session's files, reduced to what every way can do. Bytes are bytes, refusals have a code.

A door that cannot tell two refusals apart gives the nearest: `Refusal.codes` are all that it may have been.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cloister.core.errors import CloisterError
from cloister.core.file import InitialFile
from cloister.sessions.files import Files

# What the session of a door begins with.
INITIAL: Mapping[str, InitialFile] = {
    "/kept/read-only.txt": InitialFile("do not touch", read_only=True),
    "/kept/free.txt": InitialFile("free"),
}


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    path: str
    kind: Literal["file", "directory"]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Stat:
    path: str
    kind: Literal["file", "directory"]
    size_bytes: int
    hash: str | None
    read_only: bool


class Refusal(Exception):
    """What the door was asked is refused, for one of the reasons in `codes`."""

    def __init__(self, codes: Collection[str], message: str) -> None:
        super().__init__(message)
        self.codes = frozenset(codes)


class FileDoor(Protocol):
    """Each raises `Refusal`; the codes are those of the helpers that programs call."""

    async def read(self, path: str) -> bytes: ...
    async def read_text(self, path: str) -> str: ...
    async def write(self, path: str, data: bytes, mode: Literal["w", "a", "x"] = "w") -> None: ...
    async def write_if_match(self, path: str, data: bytes, hash: str | None) -> str: ...
    async def delete(self, path: str, *, recursive: bool = False) -> bool: ...
    async def list(self, path: str) -> Sequence[Found]: ...
    async def stat(self, path: str) -> Stat: ...
    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None: ...
    async def move(self, src: str, dst: str) -> None: ...
    async def copy(self, src: str, dst: str) -> None: ...
    async def grep(
        self, pattern: str, *, path: str = "/", glob: str | None = None, literal: bool = False, limit: int = 1000
    ) -> Sequence[tuple[str, int, str]]:
        """Path, number of the line, and the line."""
        ...


# A host's errors say less than codes: each may stand for several.
_CODES = {
    "FILE_NOT_FOUND": ("not_found",),
    "QUOTA_EXCEEDED": ("quota",),
    "FILE_CONFLICT": ("conflict", "exists"),
    "INVALID_INPUT": (
        "is_directory",
        "not_directory",
        "not_empty",
        "read_only",
        "invalid_path",
        "not_text",
        "invalid",
    ),
}


class HostDoor:
    """`session.files`."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def read(self, path: str) -> bytes:
        with _Refusing():
            return await self._files.read(path)

    async def read_text(self, path: str) -> str:
        with _Refusing():
            return await self._files.read_text(path)

    async def write(self, path: str, data: bytes, mode: Literal["w", "a", "x"] = "w") -> None:
        with _Refusing():
            await self._files.write(path, data, mode=mode)

    async def write_if_match(self, path: str, data: bytes, hash: str | None) -> str:
        with _Refusing():
            return await self._files.write_if_match(path, data, hash)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        with _Refusing():
            return await self._files.delete(path, recursive=recursive)

    async def list(self, path: str) -> Sequence[Found]:
        with _Refusing():
            found = await self._files.list(path)
        return [Found(one.name, one.path, one.kind, one.size_bytes) for one in found]

    async def stat(self, path: str) -> Stat:
        with _Refusing():
            info = await self._files.stat(path)
        return Stat(info.path, info.kind, info.size_bytes, info.hash, info.read_only)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        with _Refusing():
            await self._files.mkdir(path, parents=parents, exist_ok=exist_ok)

    async def move(self, src: str, dst: str) -> None:
        with _Refusing():
            await self._files.move(src, dst)

    async def copy(self, src: str, dst: str) -> None:
        with _Refusing():
            await self._files.copy(src, dst)

    async def grep(
        self, pattern: str, *, path: str = "/", glob: str | None = None, literal: bool = False, limit: int = 1000
    ) -> Sequence[tuple[str, int, str]]:
        with _Refusing():
            found = await self._files.grep(pattern, path=path, glob=glob, literal=literal, limit=limit)
        return [(one.path, one.line, one.text) for one in found]


class _Refusing:
    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, CloisterError) and error.code in _CODES:
            raise Refusal(_CODES[error.code], error.message) from error
