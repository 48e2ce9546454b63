"""What a store is told of a session's files: rows as they are now, and for each snapshot what changed since the last.

Changes are noted by who made them and written down when their maker's turn comes: a program's with its next wait or its
end, so that a program which goes on from there finds the files as they were there, and nothing of it happens twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cloister.core.errors import StoreUnusable
from cloister.ports.rows import Drop, FileRow, Put, PutBlob, SnapshotRow, Write
from cloister.sessions.files.node import NOTHING, Content, Directory, File, Gone, Node
from cloister.sessions.files.paths import ancestors
from cloister.sessions.files.system import FileSystem

# What could not be written down, and goes with whatever is written next.
_LOOSE = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Writes of one batch, and the paths that they are of; give them back if the batch is refused."""

    writes: tuple[Write, ...] = ()
    paths: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The part of a snapshot's doc that is about files, and the blobs that it needs."""

    doc: Mapping[str, Any]
    blobs: tuple[str, ...] = ()
    writes: tuple[Write, ...] = ()


_NO_PAGE = Page()
_NO_FILES = Manifest({})


class Book:
    def __init__(self, session_id: str, system: FileSystem) -> None:
        self._session_id = session_id
        self._system = system
        self._tree = system.tree
        # The snapshot that tells of files last.
        self._last: str | None = None

    def page(self, who: str) -> Page:
        """What `who` has changed since the last time, as it is now."""
        dirty = self._tree.dirty
        if not dirty:
            # Most programs use no files, and this is asked whenever one waits.
            return _NO_PAGE
        with self._system.lock:
            paths = dirty.pop(who, set()) | dirty.pop(_LOOSE, set())
            if not paths:
                return _NO_PAGE
            # Or a store could have a file without its directory, or one below another.
            paths |= self._entangled(paths)
            return Page(tuple(self._writes(paths)), frozenset(paths))

    def give_back(self, page: Page) -> None:
        """It was not written."""
        with self._system.lock:
            if page.paths:
                self._tree.dirty.setdefault(_LOOSE, set()).update(page.paths)
            self._last = None

    def doubt(self) -> None:
        """A snapshot may not have been written: none later may refer to one before."""
        self._last = None

    def everything(self) -> list[Write]:
        """All there is, and what is not there any more: for a session that begins, or goes back to a snapshot."""
        with self._system.lock:
            paths = {path for path, _ in self._tree}.union(*self._tree.dirty.values())
            self._tree.dirty.clear()
            return list(self._writes(paths))

    def manifest(self, snapshot_id: str) -> Manifest:
        """What the snapshot of that id says of files. Each has another id: what others refer to stays as it is."""
        tree, last = self._tree, self._last
        if last is None and not len(tree):
            return _NO_FILES
        with self._system.lock:
            if last is None:
                since, paths = None, {path for path, _ in tree}
            elif not tree.changed:
                return Manifest({"files": {"at": last}})
            else:
                since, paths = last, set(tree.changed)
            unwritten = set[str]().union(*tree.dirty.values())
            tree.changed.clear()
            self._last = snapshot_id
            changed = {path: to_entry(node) if (node := tree.get(path)) else None for path in sorted(paths)}
            blobs = sorted({entry["blob"] for entry in changed.values() if entry is not None and "blob" in entry})
            doc = {"files": {"since": since, "changed": changed}}
            return Manifest(doc, tuple(blobs), tuple(self._blobs(paths & unwritten)))

    # -- inside ----------------------------------------------------------------------------------------------

    def _entangled(self, paths: set[str]) -> set[str]:
        """What others have changed above them, and below what is no directory any more."""
        others = set[str]().union(*self._tree.dirty.values()) - paths
        if not others:
            return set()
        above = {one for path in paths for one in ancestors(path)}
        leaves = {path for path in paths if not isinstance(self._tree.get(path), Directory)}
        return {one for one in others if one in above or not leaves.isdisjoint(ancestors(one))}

    def _writes(self, paths: Iterable[str]) -> Iterator[Write]:
        named = sorted(paths)
        yield from self._blobs(named)
        for path in named:
            node = self._tree.get(path)
            if node is None:
                yield Drop("files", (self._session_id, path))
            else:
                entry = to_entry(node)
                blob = entry.pop("blob", NOTHING.name)
                size, modified_ms = entry.pop("size", 0), entry.pop("modified_ms")
                yield Put(FileRow(self._session_id, path, blob, size, modified_ms, entry))

    def _blobs(self, paths: Iterable[str]) -> Iterator[Write]:
        done: set[str] = set()
        for path in paths:
            node = self._tree.get(path)
            # Of a directory too: every row of a file names a blob, and it must be there.
            content = node.content if isinstance(node, File) else NOTHING
            # Bytes that are only in the store are there: a row of before names them.
            if node is not None and content.data is not None and content.name not in done:
                done.add(content.name)
                yield PutBlob(content.name, content.data)


# -- as JSON --------------------------------------------------------------------------------------------------------


def to_entry(node: Node) -> dict[str, Any]:
    match node:
        case File(content=content, modified_ms=modified_ms, read_only=read_only):
            own = {"blob": content.name, "size": content.size, "modified_ms": modified_ms}
            return {**own, "read_only": True} if read_only else own
        case Directory(modified_ms=modified_ms, opaque=opaque):
            own = {"kind": "directory", "modified_ms": modified_ms}
            return {**own, "opaque": True} if opaque else own
        case Gone(modified_ms=modified_ms):
            return {"kind": "gone", "modified_ms": modified_ms}


def from_entry(entry: Mapping[str, Any], known: dict[str, Content]) -> Node:
    """With the bytes that are `known` by their names; others are still in the store, and known from now on."""
    modified_ms = entry["modified_ms"]
    match entry.get("kind", "file"):
        case "directory":
            return Directory(modified_ms, entry.get("opaque", False))
        case "gone":
            return Gone(modified_ms)
        case _:
            name, size = entry["blob"], entry["size"]
            if size == 0:
                content = NOTHING
            elif (content := known.get(name)) is None:
                content = known[name] = Content(None, name=name, size=size)
            return File(content, modified_ms, entry.get("read_only", False))


def from_row(row: FileRow, known: dict[str, Content]) -> Node:
    own = {"blob": row.blob, "size": row.size_bytes, "modified_ms": row.modified_ms}
    return from_entry({**row.doc, **own}, known)


def files_at(found: SnapshotRow, moments: Iterable[SnapshotRow]) -> dict[str, Any]:
    """The files as that snapshot has them: what each of those before it changed, one over the other."""
    by_id = {row.id: row for row in moments}
    changes: list[Mapping[str, Any]] = []
    said, seen = found.doc.get("files"), {found.id}
    while said is not None:
        changes.append(said.get("changed", {}))
        name = said.get("at") or said.get("since")
        if name is None:
            break
        source = by_id.get(name)
        if source is None or name in seen or "files" not in source.doc:
            raise StoreUnusable(f"the files of snapshot {found.id} are not in the store")
        seen.add(name)
        said = source.doc["files"]
    files: dict[str, Any] = {}
    for changed in reversed(changes):
        for path, entry in changed.items():
            if entry is None:
                files.pop(path, None)
            else:
                files[path] = entry
    return files
