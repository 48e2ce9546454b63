"""The operations on files, for programs and hosts alike: each is made whole, or refused and nothing has happened.

Nothing here waits, and nothing knows of stores: what changed is noted in the tree, under the name of who changed it.
"""

from collections.abc import Mapping
from threading import RLock
from typing import Literal, TypeAlias

from cloister.core.file import FileLimits
from cloister.ports.clock import Clock
from cloister.sessions.files.mounted import RealDirectory
from cloister.sessions.files.node import NOTHING, Content, Directory, File, Gone, Node
from cloister.sessions.files.paths import ROOT, ancestors, below, normal_path, short
from cloister.sessions.files.refusal import refuse
from cloister.sessions.files.tree import Tree
from cloister.sessions.files.view import Seen, View

WriteMode: TypeAlias = Literal["w", "a", "x"]
# What is hashed at once, on the thread of who writes it, and not when it is written down.
_HASHED_AT_ONCE = 64 << 10


class FileSystem(View):
    def __init__(self, clock: Clock, limits: FileLimits, mounts: Mapping[str, RealDirectory] | None = None) -> None:
        super().__init__(Tree(limits), mounts or {})
        self._clock = clock
        self._began_ms = clock.now_ms()

    @property
    def tree(self) -> Tree:
        return self._tree

    @property
    def lock(self) -> RLock:
        return self._lock

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, path: object) -> Content:
        """The content may still be in the store."""
        name = normal_path(path)
        with self._lock:
            return self.content(self.file(name))

    def list(self, path: object = ROOT) -> "list[Seen]":
        name = normal_path(path)
        with self._lock:
            self.directory(name)
            return self.inside(name)

    def everything(self, path: object = ROOT) -> "list[Seen]":
        """All that is somewhere below a directory; a file alone."""
        name = normal_path(path)
        with self._lock:
            seen = self.find(name)
            return [seen] if seen.kind == "file" else self._all_below(name)

    def stat(self, path: object) -> tuple[Seen, str | None]:
        """What is there, and the hash of a file's content."""
        name = normal_path(path)
        with self._lock:
            seen = self.find(name)
            return seen, self.content(seen).name if seen.kind == "file" else None

    # -- writing ---------------------------------------------------------------------------------------------

    def write(self, path: object, data: bytes, mode: WriteMode, who: str) -> int:
        """The file's size from now on."""
        name = normal_path(path)
        with self._lock:
            old = self._check_place(name)
            if mode == "x" and old is not None:
                refuse("exists", f"there is a file {short(name)} already")
            if mode == "a" and old is not None:
                most = self._tree.limits.max_file_bytes
                if old.size + len(data) > most and data:
                    refuse("quota", f"{short(name)} would have {old.size + len(data)} bytes: a file has at most {most}")
                data = _bytes(name, self.content(old)) + data
            return self._put(name, _content(data, at_once=mode != "a"), who)

    def write_if_match(self, path: object, data: bytes, expected: str | None, who: str) -> str:
        """Write a file that is as `expected` says, or is not there if that is None. The hash of what is there now."""
        name = normal_path(path)
        with self._lock:
            old = self._check_place(name)
            found = self.content(old).name if old is not None else None
            if found != expected:
                what = "is not there" if found is None else "is there" if expected is None else "has changed"
                refuse("conflict", f"{short(name)} {what}: read it again before you write it")
            content = _content(data)
            self._put(name, content, who)
            return content.name

    def mkdir(self, path: object, who: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        name = normal_path(path)
        with self._lock:
            seen = self.look(name)
            if seen is not None and (seen.kind != "directory" or not exist_ok):
                what = "directory" if seen.kind == "directory" else "file"
                refuse("exists", f"there is a {what} {short(name)} already")
            if seen is not None:
                return
            plan = self._way_to(name)
            if plan and not parents:
                refuse("not_found", f"there is no directory {short(next(iter(plan)))} to make {short(name)} in")
            self._check_writable(name)
            self._tree.apply({**plan, name: self._new_directory(name)}, who)

    def delete(self, path: object, who: str, *, recursive: bool = False) -> bool:
        """False if there is nothing there, or a directory that is not empty and `recursive` does not say so."""
        name = normal_path(path)
        with self._lock:
            if name == ROOT:
                refuse("invalid", "the root cannot be deleted")
            seen = self.look(name)
            if seen is None or seen.kind == "other":
                return False
            self._check_removable(seen)
            if seen.kind == "directory" and not recursive and self.inside(name):
                return False
            self._tree.apply(self._removal(name), who)
            return True

    def rmdir(self, path: object, who: str) -> None:
        name = normal_path(path)
        with self._lock:
            seen = self.directory(name)
            if name == ROOT:
                refuse("invalid", "the root cannot be deleted")
            self._check_removable(seen)
            if self.inside(name):
                refuse("not_empty", f"the directory {short(name)} is not empty")
            self._tree.apply(self._removal(name), who)

    def move(self, src: object, dst: object, who: str) -> None:
        """A file replaces one that is at `dst`; a directory needs a name that is free."""
        old, new = normal_path(src), normal_path(dst)
        with self._lock:
            seen = self.find(old)
            self._check_removable(seen)
            if old == new:
                return
            plan: dict[str, Node | None] = {**self._removal(old), **self._copies(seen, new)}
            self._tree.apply(plan, who)

    def copy(self, src: object, dst: object, who: str) -> None:
        """As with `move`; the copy of a read-only file can be written."""
        old, new = normal_path(src), normal_path(dst)
        with self._lock:
            seen = self.find(old)
            if old != new:
                now_ms = self._clock.now_ms()
                self._tree.apply(self._copies(seen, new, now_ms), who)

    # -- inside ----------------------------------------------------------------------------------------------

    def _put(self, name: str, content: Content, who: str) -> int:
        plan: dict[str, Node | None] = {name: File(content, self._clock.now_ms())}
        self._tree.apply({**plan, **self._way_to(name)}, who)
        return content.size

    def _check_place(self, name: str) -> Seen | None:
        """The file that is there, if there is one; refused where none can be written."""
        seen = self.look(name)
        if seen is not None and seen.kind == "directory":
            refuse("is_directory", f"{short(name)} is a directory: a file needs another name")
        self._check_writable(name)
        if seen is not None and seen.kind == "other":
            return None
        if seen is not None and seen.read_only:
            refuse("read_only", f"{short(name)} is read-only")
        if seen is None:
            self._way_to(name)
        return seen

    def _check_writable(self, name: str) -> None:
        place = self._mounted(name)
        if place is not None and not place.mount.copy_on_write:
            refuse("read_only", f"{short(name)} is read-only: it is in the mounted directory {short(place.point)}")

    def _check_removable(self, seen: Seen) -> None:
        """Refused if it, or anything in it, must stay."""
        if seen.path == ROOT:
            refuse("invalid", "the root stays where it is")
        if self.is_fixed(seen.path):
            refuse("read_only", f"{short(seen.path)} stays where it is: a directory is mounted there")
        self._check_writable(seen.path)
        if seen.read_only:
            refuse("read_only", f"{short(seen.path)} is read-only")
        for path, node in self._tree.below(seen.path):
            if isinstance(node, File) and node.read_only:
                refuse("read_only", f"{short(path)} is read-only")

    def _removal(self, name: str) -> dict[str, Node | None]:
        """Nothing is there any more, and nothing comes to light."""
        plan: dict[str, Node | None] = {}
        if self.real(name) is not None:
            plan[name] = Gone(self._clock.now_ms())
        elif not isinstance(self._tree.get(name), Gone):
            plan[name] = None
        plan |= {path: None for path, _ in self._tree.below(name)}
        return plan

    def _way_to(self, name: str) -> dict[str, Node | None]:
        """The directories that are missing on the way; refused if a file is in it."""
        missing: dict[str, Node | None] = {}
        for above in ancestors(name):
            seen = None if missing else self.look(above)
            if seen is None:
                missing[above] = self._new_directory(above)
            elif seen.kind != "directory":
                refuse("not_directory", f"{short(above)} is not a directory: nothing can be below it")
        return missing

    def _new_directory(self, name: str) -> Directory:
        # Where a mounted directory has been deleted, the new one does not bring back what was in it.
        place = self._mounted(name)
        hides = place is not None and place.mount.copy_on_write and isinstance(self._tree.get(name), Gone)
        return Directory(self._clock.now_ms(), opaque=hides)

    def _copies(self, seen: Seen, new: str, now_ms: int | None = None) -> dict[str, Node | None]:
        """What `seen` is, with all that is in it, at another place; with a new time if it is one more."""
        if below(new, seen.path):
            refuse("invalid", f"{short(seen.path)} cannot be in itself, at {short(new)}")
        if seen.kind == "file":
            self._check_place(new)
            return {**self._way_to(new), new: self._copied(seen, now_ms)}
        if self.look(new) is not None:
            refuse("exists", f"there is something at {short(new)} already")
        self._check_writable(new)
        plan = self._way_to(new)
        plan[new] = self._new_directory(new)
        inside, limits = self._all_below(seen.path), self._tree.limits
        # Before any of it is read: what is mounted may be of any size.
        if self._tree.size + sum(inner.size for inner in inside if inner.content is None) > limits.max_bytes:
            refuse("quota", f"{short(seen.path)} does not fit: all files take at most {limits.max_bytes} bytes")
        for inner in inside:
            path = new + inner.path[len(seen.path) :]
            plan[normal_path(path)] = self._copied(inner, now_ms)
        return plan

    def _copied(self, seen: Seen, now_ms: int | None) -> Node:
        modified_ms = seen.modified_ms if now_ms is None else now_ms
        return Directory(modified_ms) if seen.kind == "directory" else File(self.content(seen), modified_ms)

    def _all_below(self, name: str) -> "list[Seen]":
        found: list[Seen] = []
        # Own files are bounded, those of a mounted directory are not.
        most = 4 * self._tree.limits.max_files
        for seen in self.walk(name):
            if len(found) >= most:
                refuse("quota", f"there are more than {most} files and directories below {short(name)}")
            found.append(seen)
        return found


def _content(data: bytes, *, at_once: bool = True) -> Content:
    if not data:
        return NOTHING
    content = Content(data)
    if at_once and len(data) >= _HASHED_AT_ONCE:
        _ = content.name
    return content


def _bytes(name: str, content: Content) -> bytes:
    if content.data is None:
        refuse("invalid", f"{short(name)} has not been loaded")
    return content.data
