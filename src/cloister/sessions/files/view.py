"""What is where: the session's own tree, and below a mount what the real directory has under it.

A path of the own tree wins over the mounted one at its place, and a `Gone` there hides it with all that is below. Mount
points, and the directories on the way to them, are always there.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cloister.sessions.files.mounted import Parts, Real, RealDirectory
from cloister.sessions.files.node import Content, Directory, File, Gone
from cloister.sessions.files.paths import ROOT, ancestors, below, can_be, short, within
from cloister.sessions.files.refusal import Refused, refuse
from cloister.sessions.files.tree import Tree


@dataclass(frozen=True, slots=True)
class Seen:
    """`content` of a file of the session's own; a real one is read when it is needed."""

    path: str
    kind: Literal["file", "directory", "other"]
    size: int = 0
    modified_ms: int = 0
    read_only: bool = False
    content: Content | None = None
    # Why it is not opened, if it is neither file nor directory.
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Below:
    """A place in a mounted directory."""

    mount: RealDirectory
    point: str
    parts: Parts


class View:
    def __init__(self, tree: Tree, mounts: Mapping[str, RealDirectory]) -> None:
        self._tree = tree
        self._mounts = mounts
        # Programs come from threads of their own, hosts from the event loop: each operation finds and leaves a whole
        # tree.
        self._lock = threading.RLock()
        self._began_ms = 0

    def add_mount(self, point: str, mount: RealDirectory) -> None:
        """Have one more real directory there."""
        with self._lock:
            self._mounts = {**self._mounts, point: mount}

    # -- asked -----------------------------------------------------------------------------------------------

    def look(self, path: str) -> Seen | None:
        """What is at a normal path; None if there is nothing."""
        place = self._mounted(path)
        if place is None:
            if path == ROOT or self._has_mount(path):
                return Seen(path, "directory", modified_ms=self._began_ms)
            match self._tree.get(path):
                case File() as file:
                    return _own(path, file)
                case Directory(modified_ms=modified_ms):
                    return Seen(path, "directory", modified_ms=modified_ms)
                case _:
                    return None
        if not place.parts:
            real = place.mount.look(())
            return Seen(path, "directory", modified_ms=real.modified_ms if real else 0, read_only=True)
        if place.mount.copy_on_write:
            match self._tree.get(path):
                case File() as file:
                    return _own(path, file)
                case Directory(modified_ms=modified_ms):
                    return Seen(path, "directory", modified_ms=modified_ms)
                case _:
                    pass
        real = self.real(path)
        if real is None:
            return None
        return Seen(path, real.kind, real.size, real.modified_ms, not place.mount.copy_on_write, why=real.why)

    def find(self, path: str) -> Seen:
        """What is there; refused if there is nothing, or what is not opened."""
        seen = self.look(path)
        if seen is None:
            refuse("not_found", f"there is no file or directory {short(path)}")
        if seen.kind == "other":
            refuse("invalid", f"{short(path)} is not opened: {seen.why}")
        return seen

    def file(self, path: str) -> Seen:
        seen = self.look(path)
        if seen is None:
            refuse("not_found", f"there is no file {short(path)}")
        if seen.kind == "directory":
            refuse("is_directory", f"{short(path)} is a directory, not a file")
        if seen.kind == "other":
            refuse("invalid", f"{short(path)} is not opened: {seen.why}")
        return seen

    def directory(self, path: str) -> Seen:
        seen = self.look(path)
        if seen is None:
            refuse("not_found", f"there is no directory {short(path)}")
        if seen.kind != "directory":
            refuse("not_directory", f"{short(path)} is a file, not a directory")
        return seen

    def inside(self, path: str) -> list[Seen]:
        """What is directly in a directory, by name."""
        names: set[str] = set(self._tree.children(path))
        place = self._mounted(path)
        if place is not None:
            if not place.mount.copy_on_write:
                names.clear()
            if not self._hidden(path, place):
                names.update(place.mount.names(place.parts))
        else:
            prefix = path if path == ROOT else path + "/"
            names |= {point[len(prefix) :].split("/", 1)[0] for point in self._mounts if point.startswith(prefix)}
        found = [self.look(inner) for inner in sorted(within(path, name) for name in names) if can_be(inner)]
        return [seen for seen in found if seen is not None and seen.kind != "other"]

    def walk(self, path: str) -> Iterator[Seen]:
        """All that is somewhere below a directory, a directory before what is in it."""
        left = self.inside(path)[::-1]
        while left:
            seen = left.pop()
            yield seen
            if seen.kind == "directory":
                left += self.inside(seen.path)[::-1]

    def content(self, seen: Seen) -> Content:
        """The bytes of a file."""
        if seen.content is not None:
            return seen.content
        place = self._mounted(seen.path)
        if place is None:
            refuse("not_found", f"there is no file {short(seen.path)}")
        try:
            return Content(place.mount.read(place.parts, self._tree.limits.max_file_bytes))
        except Refused as refused:
            raise Refused(refused.reason, f"{short(seen.path)}: {refused.message}") from None

    # -- inside ----------------------------------------------------------------------------------------------

    def real(self, path: str) -> Real | None:
        """What a mounted directory has there, if nothing hides it."""
        place = self._mounted(path)
        if place is None or self._is_hidden_above(path, place):
            return None
        if place.mount.copy_on_write and isinstance(self._tree.get(path), Gone):
            return None
        return place.mount.look(place.parts)

    def is_fixed(self, path: str) -> bool:
        """Whether a mount, or the way to one, is there."""
        return path == ROOT or path in self._mounts or self._has_mount(path)

    def _mounted(self, path: str) -> _Below | None:
        for point, mount in self._mounts.items():
            if path == point:
                return _Below(mount, point, ())
            if below(path, point):
                return _Below(mount, point, path[len(point) + 1 :].split("/"))
        return None

    def _has_mount(self, path: str) -> bool:
        return any(below(point, path) for point in self._mounts)

    def _is_hidden_above(self, path: str, place: _Below) -> bool:
        """Whether something on the way down from the mount point hides what the mount has at `path`."""
        if not place.mount.copy_on_write:
            return False
        return any(self._hides(above) for above in ancestors(path) if below(above, place.point))

    def _hidden(self, path: str, place: _Below) -> bool:
        """Whether what the mount has in this directory is hidden."""
        if not place.mount.copy_on_write:
            return False
        return self._is_hidden_above(path, place) or (path != place.point and self._hides(path))

    def _hides(self, path: str) -> bool:
        node = self._tree.get(path)
        return isinstance(node, (File, Gone)) or (isinstance(node, Directory) and node.opaque)


def _own(path: str, file: File) -> Seen:
    return Seen(path, "file", file.content.size, file.modified_ms, file.read_only, file.content)
