"""A real directory that lies among a session's files: read, never written, and never left.

Every access walks down from a descriptor of the directory, one name at a time, each opened below the one before and not
followed if it is a link. So no name leads out: not `..`, no link, and nothing that is exchanged on the way. What is no
regular file or directory is seen as such and not opened; neither is another file system that is mounted inside.
"""

import errno
import os
import stat
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cloister.core.errors import InvalidInput
from cloister.core.file import Mount
from cloister.sessions.files.refusal import Refused, refuse

# A directory with more is not listed: what a program asks for must not take for ever.
MAX_LISTED = 20_000
_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_ENTER = _LOOK | os.O_DIRECTORY
# Not waiting matters for what has become a pipe since it was looked at; a terminal must not become ours.
_READ = _LOOK | os.O_NONBLOCK | os.O_NOCTTY
_PIECE = 1 << 20

Parts: TypeAlias = Sequence[str]


@dataclass(frozen=True, slots=True)
class Real:
    """`other` is what is not opened, for the reason in `why`."""

    kind: Literal["file", "directory", "other"]
    size: int
    modified_ms: int
    why: str = ""


class RealDirectory:
    def __init__(self, mount: Mount) -> None:
        """Raises `InvalidInput` if it is not a directory that can be opened."""
        self.copy_on_write = mount.mode == "copy_on_write"
        self._hard_links = mount.hard_links
        self._shown = os.fspath(mount.path)
        try:
            self._fd = os.open(mount.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidInput(
                f"{self._shown!r} cannot be mounted: {why}", hint="name a directory that this user can read"
            ) from None
        self._device = os.fstat(self._fd).st_dev
        # A number that was closed may be another file's a moment later: nobody copies it while it is being closed.
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        # A session that was refused after it was made is closed by nobody.
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def look(self, parts: Parts) -> Real | None:
        """What is there; None if there is nothing."""
        if not parts:
            with self._inside(()) as fd:
                return self._seen(os.fstat(fd))
        try:
            with self._above(parts) as (fd, name):
                return self._seen(os.stat(name, dir_fd=fd, follow_symlinks=False))
        except _Elsewhere as other:
            return Real("other", 0, 0, str(other))
        except OSError as error:
            return _nothing(error)

    def names(self, parts: Parts) -> list[str]:
        """What is in a directory, without what no path can name."""
        try:
            with self._inside(parts) as fd, os.scandir(fd) as entries:
                found: list[str] = []
                for entry in entries:
                    if len(found) >= MAX_LISTED:
                        refuse("quota", f"a directory with more than {MAX_LISTED} entries is not listed")
                    if _can_be_named(entry.name):
                        found.append(entry.name)
                return found
        except _Elsewhere as other:
            raise Refused("invalid", str(other)) from None
        except OSError as error:
            _nothing(error)
            return []

    def read(self, parts: Parts, most: int) -> bytes:
        """A file's bytes; refused if there are more than `most`."""
        try:
            with self._opened(parts) as fd:
                pieces: list[bytes] = []
                left = most + 1
                while left > 0 and (piece := os.read(fd, min(left, _PIECE))):
                    pieces.append(piece)
                    left -= len(piece)
        except _Elsewhere as other:
            raise Refused("invalid", str(other)) from None
        except OSError as error:
            # The host's own paths and reasons are no business of a program.
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise Refused("not_found", "the file is not there any more") from None
            raise Refused("invalid", "the file cannot be read") from None
        if left <= 0:
            refuse("quota", f"the file has more than {most} bytes, which is more than can be read")
        return b"".join(pieces)

    # -- inside ----------------------------------------------------------------------------------------------

    def _root(self) -> int:
        """A descriptor of its own for whoever walks."""
        with self._lock:
            if self._fd < 0:
                refuse("not_found", "the mounted directory is closed")
            return os.dup(self._fd)

    @contextmanager
    def _inside(self, parts: Parts) -> Generator[int, None, None]:
        """A descriptor of the directory that the parts lead to."""
        fd = self._root()
        try:
            for part in parts:
                deeper = self._enter(fd, part)
                os.close(fd)
                fd = deeper
            # Listing moves a position that all copies of a descriptor share.
            own = os.open(".", _ENTER, dir_fd=fd)
            os.close(fd)
            fd = own
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _above(self, parts: Parts) -> Generator[tuple[int, str], None, None]:
        with self._inside(parts[:-1]) as fd:
            yield fd, _name(parts[-1])

    @contextmanager
    def _opened(self, parts: Parts) -> Generator[int, None, None]:
        with self._above(parts) as (above, name):
            # Opening a device can do something, so it is looked at first; and again, as it may be another by then.
            self._check(os.stat(name, dir_fd=above, follow_symlinks=False))
            try:
                fd = os.open(name, _READ, dir_fd=above)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise _Elsewhere(_LINK) from None
                raise
        try:
            self._check(os.fstat(fd))
            yield fd
        finally:
            os.close(fd)

    def _check(self, status: os.stat_result) -> None:
        real = self._seen(status)
        if real.kind != "file":
            raise _Elsewhere(real.why or "it is a directory")

    def _enter(self, above: int, part: str) -> int:
        name = _name(part)
        try:
            fd = os.open(name, _ENTER, dir_fd=above)
        except OSError as error:
            # With O_DIRECTORY, a link is either of them, as the system likes.
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(above, name):
                raise _Elsewhere(_LINK) from None
            raise
        if os.fstat(fd).st_dev != self._device:
            os.close(fd)
            raise _Elsewhere(_ANOTHER)
        return fd

    def _seen(self, status: os.stat_result) -> Real:
        mode, modified_ms = status.st_mode, max(status.st_mtime_ns // 1_000_000, 0)
        if stat.S_ISDIR(mode):
            # Of files this cannot be told: an overlay gives those of each layer another number.
            foreign = status.st_dev != self._device
            return Real("other", 0, modified_ms, _ANOTHER) if foreign else Real("directory", 0, modified_ms)
        if not stat.S_ISREG(mode):
            return Real("other", 0, modified_ms, _LINK if stat.S_ISLNK(mode) else _SPECIAL)
        if status.st_nlink > 1 and not self._hard_links:
            return Real("other", 0, modified_ms, _SHARED)
        return Real("file", status.st_size, modified_ms)


_LINK = "it is a symbolic link, which is not followed in a mounted directory"
_SPECIAL = "it is neither a regular file nor a directory"
_SHARED = "it has more than one hard link, so it may be a file from elsewhere"
_ANOTHER = "it is another file system"


class _Elsewhere(Exception):
    """The way leads to what is not opened."""


def _is_link(above: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _name(part: str) -> str:
    # Paths were checked before; here it is what keeps a walk inside, so it is checked where it matters.
    if part in ("", ".", "..") or "/" in part or "\0" in part:
        raise Refused("invalid_path", "a name in a path leads elsewhere")
    return part


def _nothing(error: OSError) -> None:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return
    raise Refused("invalid", "what is there cannot be looked at") from None


def _can_be_named(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\\" not in name


def kinds(directory: RealDirectory, parts: Parts, names: Sequence[str]) -> Iterator[tuple[str, Real]]:
    """Those that can be opened, with what they are."""
    for name in names:
        real = directory.look((*parts, name))
        if real is not None and real.kind != "other":
            yield name, real
