"""A session's files: a small tree of texts in memory, under one namespace.

`/workspace/x`, `/x` and `x` are the same file, and `/x` is its name: every path that is handed out can be handed in.
Directories are not kept: there is one wherever a file lies below it, and the root is always there. Texts are kept as
UTF-8, so that a quota counts what they really take. A session that has no files pays for one small object.
"""

import builtins
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from cloister.core.errors import FileNotFound, InvalidInput, QuotaExceeded
from cloister.ports.clock import Clock, moment

MAX_PATH = 1024
MAX_FILES = 10_000
MAX_BYTES = 64 << 20
ROOT = "/"


@dataclass(frozen=True, slots=True)
class FileInfo:
    path: str
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    modified_ms: int


def normal_path(path: str) -> str:
    """The one name of what `path` names; raises `InvalidInput` if it can name nothing."""
    if not isinstance(path, str):  # pyright: ignore[reportUnnecessaryIsInstance] - hosts are not all type-checked
        raise InvalidInput(f"a path is text, not {type(path).__name__}")
    if not path:
        raise InvalidInput("a path needs at least one character; the root is '/'")
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise InvalidInput(f"the path {_short(path)} has '..' in it: write where the file is")
    if "\\" in path:
        raise InvalidInput(f"the path {_short(path)} has a backslash in it: segments are parted by '/'")
    if "\0" in path:
        raise InvalidInput(f"the path {_short(path)} has a NUL character in it")
    if not _is_unicode(path):
        raise InvalidInput(f"the path {_short(path)} has half a surrogate pair in it")
    # All of them, not just one: otherwise the name of `/workspace/workspace/x` would name another file.
    while segments and segments[0] == "workspace":
        del segments[0]
    normal = ROOT + "/".join(segments)
    if len(normal) > MAX_PATH:
        raise InvalidInput(f"the path {_short(path)} has more than {MAX_PATH} characters")
    return normal


class Files:
    """The methods that wait are the host's; `put` is for the runtime, in the middle of other work."""

    __slots__ = ("_clock", "_files", "_max_bytes", "_max_files", "_names", "_size")

    def __init__(self, clock: Clock, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._size = 0
        # Made with the first file. The names are sorted, so that what lies below a directory lies side by side.
        self._files: dict[str, _File] | None = None
        self._names: list[str] | None = None

    async def read_text(self, path: str) -> str:
        return self._find(normal_path(path)).data.decode()

    async def write_text(self, path: str, text: str) -> None:
        """Directories on the way need not be made."""
        self.put(path, text)

    async def list(self, path: str = ROOT) -> builtins.list[str]:
        """The full paths of all files below a directory, sorted."""
        name = normal_path(path)
        found = list(self._below(name))
        if not found and name != ROOT:
            if self._get(name) is not None:
                raise InvalidInput(f"{_short(name)} is a file, not a directory")
            raise FileNotFound(f"there is no directory {_short(name)}")
        return found

    async def delete(self, path: str) -> bool:
        """False if there is no such file. A directory goes with its last file, and not before."""
        name = normal_path(path)
        if name == ROOT:
            raise InvalidInput("the root cannot be deleted")
        if self._files is None or self._names is None or name not in self._files:
            return False
        self._size -= len(self._files.pop(name).data)
        del self._names[bisect_left(self._names, name)]
        return True

    async def stat(self, path: str) -> FileInfo:
        name = normal_path(path)
        file = self._find(name)
        return FileInfo(name, len(file.data), moment(file.modified_ms))

    def put(self, path: str, text: str) -> None:
        """Write a file; nothing is changed if it is refused."""
        name = normal_path(path)
        old = self._get(name)
        if old is None:
            self._check_place(name)
        data = _encode(name, text)
        size = self._size + len(data) - (len(old.data) if old is not None else 0)
        if size > self._max_bytes:
            raise QuotaExceeded(
                f"{_short(name)} does not fit: the files of a session take at most {self._max_bytes} bytes together",
                hint="delete files that are no longer needed",
            )
        if self._files is None or self._names is None:
            self._files, self._names = {}, []
        if old is None:
            insort(self._names, name)
        self._files[name] = _File(data, self._clock.now_ms())
        self._size = size

    # -- inside ----------------------------------------------------------------------------------------------

    def _get(self, name: str) -> _File | None:
        return self._files.get(name) if self._files is not None else None

    def _find(self, name: str) -> _File:
        file = self._get(name)
        if file is not None:
            return file
        if self._is_directory(name):
            raise InvalidInput(f"{_short(name)} is a directory, not a file")
        raise FileNotFound(f"there is no file {_short(name)}")

    def _check_place(self, name: str) -> None:
        """Whether a new file can be there."""
        if self._is_directory(name):
            raise InvalidInput(f"{_short(name)} is a directory: a file needs another name")
        slash = name.find("/", 1)
        while slash > 0:
            if self._get(name[:slash]) is not None:
                raise InvalidInput(f"{_short(name[:slash])} is a file: nothing can be below it")
            slash = name.find("/", slash + 1)
        if self._names is not None and len(self._names) >= self._max_files:
            raise QuotaExceeded(
                f"{_short(name)} is one too many: a session has at most {self._max_files} files",
                hint="delete files that are no longer needed",
            )

    def _is_directory(self, name: str) -> bool:
        return name == ROOT or next(self._below(name), None) is not None

    def _below(self, name: str) -> Iterator[str]:
        names = self._names or []
        prefix = name if name == ROOT else name + "/"
        for index in range(bisect_left(names, prefix), len(names)):
            if not names[index].startswith(prefix):
                return
            yield names[index]


def _encode(name: str, text: str) -> bytes:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - hosts are not all type-checked
        raise InvalidInput(f"what is written to {_short(name)} must be text, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"the text for {_short(name)} has half a surrogate pair in it") from None


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(path: str) -> str:
    return repr(path if len(path) <= 128 else path[:128] + "…")
