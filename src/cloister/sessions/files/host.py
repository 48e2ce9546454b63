"""A session's files for its host: `session.files`. What is written here is in the store when the call returns.

Programs use the same files through a door of their own. Bytes that are only in the store are fetched when somebody
needs them; before a program runs, which cannot wait for a store, all of them.
"""

import asyncio
import builtins
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

from cloister.core.errors import InvalidInput, SessionClosed, StoreUnusable
from cloister.core.file import FileEntry, FileInfo, FileLimits, FileMatch, InitialFile, Mount
from cloister.ports.clock import Clock, moment
from cloister.ports.helping import Helper
from cloister.ports.rows import FileRow, Write
from cloister.sessions.files.book import Book, from_entry, from_row, to_entry
from cloister.sessions.files.content import decode_text, encode_text
from cloister.sessions.files.door import Door
from cloister.sessions.files.grep import DEFAULT_MATCHES
from cloister.sessions.files.mounted import RealDirectory
from cloister.sessions.files.mounting import check_apart, open_mounts
from cloister.sessions.files.node import Content, File, Node
from cloister.sessions.files.paths import ROOT, ancestors, last, normal_path
from cloister.sessions.files.refusal import Refused
from cloister.sessions.files.searching import chosen, grep
from cloister.sessions.files.system import FileSystem, WriteMode
from cloister.sessions.files.view import Seen

Keep: TypeAlias = Callable[[Sequence[Write]], Awaitable[object]]
Load: TypeAlias = Callable[[str], Awaitable[bytes | None]]
P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("cloister.sessions")
_HOST = "host"


class Files:
    """The methods that wait are the host's; the others are for the runtime, in the middle of other work."""

    def __init__(
        self,
        clock: Clock,
        limits: FileLimits | None = None,
        mounts: Mapping[str, Mount] | None = None,
        *,
        session_id: str = "",
        keep: Keep | None = None,
        load: Load | None = None,
    ) -> None:
        self._clock = clock
        self._mounts = open_mounts(mounts or {})
        self._system = FileSystem(clock, limits or FileLimits(), self._mounts)
        self._system.tree.is_noting = keep is not None
        self.book = Book(session_id, self._system)
        # Writes down what was changed, at once.
        self._keep = keep
        self._load = load
        # Files whose bytes may only be in the store.
        self._elsewhere: dict[str, Content] = {}

    # -- reading ---------------------------------------------------------------------------------------------

    async def read(self, path: str) -> bytes:
        content = await self._do(self._system.read, path)
        return await self._bytes(content)

    async def read_text(self, path: str) -> str:
        """As UTF-8; refused for what is something else."""
        data = await self.read(path)
        return _told(decode_text, normal_path(path), data)

    async def list(self, path: str = ROOT, *, recursive: bool = False) -> builtins.list[FileEntry]:
        """What is directly in a directory, by name; with `recursive` all that is somewhere below, by path."""
        if recursive:
            await self._do(self._system.list, path)
            return sorted(map(_entry, await self._do(self._system.everything, path)), key=lambda entry: entry.path)
        return [_entry(seen) for seen in await self._do(self._system.list, path)]

    async def stat(self, path: str) -> FileInfo:
        seen, digest = await self._do(self._system.stat, path)
        kind = "directory" if seen.kind == "directory" else "file"
        return FileInfo(seen.path, kind, seen.size, moment(seen.modified_ms), digest, seen.read_only)

    async def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        name = _told(normal_path, path)
        seen = await self._do(self._system.look, name)
        return seen is not None and seen.kind != "other"

    async def grep(
        self,
        pattern: str,
        *,
        path: str = ROOT,
        glob: str | None = None,
        literal: bool = False,
        limit: int = DEFAULT_MATCHES,
    ) -> builtins.list[FileMatch]:
        """The lines that a regular expression fits, or that contain a text, in all text files below `path` whose paths
        fit `glob`. The expressions are those of RE2: no look-around, no back-references."""
        await self._fetch(seen.content for seen in await self._do(chosen, self._system, path, glob))

        def find() -> builtins.list[FileMatch]:
            return grep(self._system, pattern, self._clock, path=path, glob=glob, literal=literal, limit=limit)

        return await asyncio.to_thread(_told, find)

    # -- writing ---------------------------------------------------------------------------------------------

    async def write(self, path: str, content: str | bytes, *, mode: WriteMode = "w") -> int:
        """Directories on the way need not be made. `mode` is that of `open`: "w" writes over what is there, "a" adds to
        it, "x" refuses if there is something. The size of the file from now on."""
        if mode not in ("w", "a", "x"):
            raise InvalidInput(f"mode is 'w', 'a' or 'x', not {mode!r}")
        data = _told(_encoded, path, content)
        if mode == "a":
            await self._fetch_at(path)
        size = await self._do(self._system.write, path, data, mode, _HOST)
        await self._kept()
        return size

    async def write_text(self, path: str, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - hosts are not all type-checked
            raise InvalidInput(f"what is written as text must be text, not {type(text).__name__}")
        await self.write(path, text)

    async def write_if_match(self, path: str, content: str | bytes, hash: str | None) -> str:
        """Write a file if its hash is still this one, or if it is not there and `hash` is None; raises `FileConflict`
        otherwise. The hash from now on."""
        if hash is not None and not isinstance(hash, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"a hash is text or None, not {type(hash).__name__}")
        data = _told(_encoded, path, content)
        digest = await self._do(self._system.write_if_match, path, data, hash, _HOST)
        await self._kept()
        return digest

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        """False if there is nothing, or a directory that is not empty and `recursive` does not say so. A directory with
        a read-only file in it stays whole."""
        deleted = await self._do(self._system.delete, path, _HOST, recursive=recursive)
        await self._kept()
        return deleted

    async def mkdir(self, path: str, *, parents: bool = True, exist_ok: bool = False) -> None:
        await self._do(self._system.mkdir, path, _HOST, parents=parents, exist_ok=exist_ok)
        await self._kept()

    async def move(self, src: str, dst: str) -> None:
        """A file takes the place of one at `dst`; a directory needs a name that is free."""
        await self._do(self._system.move, src, dst, _HOST)
        await self._kept()

    async def copy(self, src: str, dst: str) -> None:
        """As with `move`; the copy of a read-only file can be written."""
        await self._do(self._system.copy, src, dst, _HOST)
        await self._kept()

    # -- for the runtime -------------------------------------------------------------------------------------

    def put(self, path: str, text: str) -> None:
        """Write a file; it is written down with what comes next, and nothing is changed if it is refused."""
        _told(self._system.write, path, _told(encode_text, path, text), "w", _HOST)
        if self._keep is not None and (page := self.book.page(_HOST)).writes:
            try:
                self._keep(page.writes)
            except SessionClosed:
                # What comes next is written by whoever goes on with the session.
                self.book.give_back(page)

    def door(self, cell_id: str, base: str = ROOT) -> Helper:
        """The files as a program uses them whose relative paths begin in `base`."""
        return Door(self._system, cell_id, self._clock, base)

    def mount(self, point: str, mount: Mount) -> None:
        """Have a real directory at a normal path; nothing happens if there is one already."""
        if point in self._mounts:
            return
        check_apart(point, self._mounts)
        directory = RealDirectory(mount)
        self._mounts[point] = directory
        self._system.add_mount(point, directory)

    async def check_directory(self, path: str) -> None:
        """Raises `FileNotFound` or `InvalidInput` if there is none."""
        await self._do(self._system.directory, path)

    def seed(self, files: Mapping[str, InitialFile]) -> None:
        """What a new session begins with."""
        for path, file in files.items():
            data = _told(_encoded, path, file.content)
            name = _told(normal_path, path)
            if any(name == point or name.startswith(point + "/") for point in self._mounts):
                raise InvalidInput(f"the initial file {name!r} lies in a mounted directory")
            if _told(self._system.look, name) is not None:
                raise InvalidInput(f"the initial file {name!r} is given twice, or is a directory")
            _told(self._system.write, name, data, "w", _HOST)
            if file.read_only:
                made = self._system.tree.get(name)
                assert isinstance(made, File)
                self._system.tree.put({name: File(made.content, made.modified_ms, read_only=True)})

    def take_up(self, rows: Iterable[FileRow]) -> None:
        """What another process had written down."""
        nodes: dict[str, Node | None] = {}
        for row in sorted(rows, key=lambda row: row.path):
            if any(isinstance(nodes.get(above), File) for above in ancestors(row.path)):
                log.error("%s of session %s is below a file, and left out", row.path, row.session_id)
            else:
                nodes[row.path] = from_row(row, self._elsewhere)
        self._lay(nodes)

    def entries(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """All there is as JSON, and the bytes that are here, by their names."""
        with self._system.lock:
            nodes = dict(self._system.tree)
            contents = [node.content for node in nodes.values() if isinstance(node, File)]
            known = {content.name: content.data for content in contents if content.data is not None}
            return {path: to_entry(node) for path, node in nodes.items()}, known

    async def content(self, name: str) -> bytes:
        """Bytes that a file has, or had."""
        known = self._elsewhere.get(name)
        data = known.data if known is not None else None
        if data is None and self._load is not None:
            data = await self._load(name)
        if data is None:
            raise StoreUnusable(f"the bytes {name} of a file are not in the store")
        return data

    def replace(self, entries: Mapping[str, Any], contents: Mapping[str, bytes]) -> None:
        """These files and no others, as a snapshot has them."""
        known = {name: Content(data, name=name) for name, data in contents.items()}
        self._elsewhere.clear()
        with self._system.lock:
            old = {path: None for path, _ in self._system.tree}
            self._lay({**old, **{path: from_entry(entry, known) for path, entry in entries.items()}})
            self._system.tree.note([*old, *entries], _HOST)

    @property
    def are_here(self) -> bool:
        """Whether a program can be let at them."""
        return not self._elsewhere

    async def fetch(self) -> None:
        """Have all bytes here."""
        await self._fetch(list(self._elsewhere.values()))

    def close(self) -> None:
        for mount in self._mounts.values():
            mount.close()

    # -- inside ----------------------------------------------------------------------------------------------

    async def _do(self, ask: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        # A real directory may be on a slow disk; all else is in memory.
        if self._mounts:
            return await asyncio.to_thread(_told, ask, *args, **kwargs)
        return _told(ask, *args, **kwargs)

    async def _kept(self) -> None:
        if self._keep is None:
            return
        page = self.book.page(_HOST)
        if not page.writes:
            return
        try:
            await self._keep(page.writes)
        except BaseException:
            # It is there, and not safe: it goes with the next that is written.
            self.book.give_back(page)
            raise

    def _lay(self, nodes: Mapping[str, Node | None]) -> None:
        self._system.tree.put(nodes)
        for node in nodes.values():
            if isinstance(node, File) and node.content.data is None:
                self._elsewhere[node.content.name] = node.content

    async def _bytes(self, content: Content) -> bytes:
        if content.data is None:
            content.data = await self.content(content.name)
            self._elsewhere.pop(content.name, None)
        return content.data

    async def _fetch_at(self, path: str) -> None:
        seen = await self._do(self._system.look, _told(normal_path, path))
        await self._fetch([seen.content] if seen is not None else [])

    async def _fetch(self, contents: Iterable[Content | None]) -> None:
        for content in contents:
            if content is not None:
                await self._bytes(content)


def _told(ask: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return ask(*args, **kwargs)
    except Refused as refused:
        raise refused.for_host() from None


def _encoded(path: str, content: object) -> bytes:
    if isinstance(content, str):
        return encode_text(str(path), content)
    if isinstance(content, (bytes, bytearray)):
        return bytes(content)
    raise InvalidInput(f"what is written to a file is text or bytes, not {type(content).__name__}")


def _entry(seen: Seen) -> FileEntry:
    return FileEntry(last(seen.path), seen.path, "directory" if seen.kind == "directory" else "file", seen.size)
