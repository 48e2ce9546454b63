"""The session's own files and directories, and how much of them there may be.

All changes come as a plan, path by path, which is made whole or refused whole. What is changed is noted, by who changed
it, for whoever writes it down. This module knows nothing of mounts: a `Gone` is a node like any other to it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from cloister.core.file import FileLimits
from cloister.sessions.files.node import File, Node
from cloister.sessions.files.paths import ROOT, last, parent, short, within
from cloister.sessions.files.refusal import refuse

# A snapshot names every path in one document of 16 MiB, in which a byte may take six.
MAX_NAMES_BYTES = 2 << 20

# What is to be at each path from now on; None for nothing.
Plan: TypeAlias = Mapping[str, Node | None]


class Tree:
    """Not safe for threads: whoever owns it has a lock."""

    __slots__ = ("_children", "_names_bytes", "_nodes", "changed", "dirty", "is_noting", "limits", "size")

    def __init__(self, limits: FileLimits) -> None:
        self.limits = limits
        # A session that has no files pays for a few empty objects.
        self._nodes: dict[str, Node] = {}
        # Names of what is directly below a path.
        self._children: dict[str, set[str]] = {}
        self.size = 0
        self._names_bytes = 0
        # Whether anybody writes down what changes.
        self.is_noting = False
        # By who changed them: the paths that are not written down as they are.
        self.dirty: dict[str, set[str]] = {}
        # The paths that changed since the last snapshot that tells of files.
        self.changed: set[str] = set()

    def get(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def children(self, path: str) -> Iterable[str]:
        return self._children.get(path, ())

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[tuple[str, Node]]:
        """In the order of their paths."""
        return iter(sorted(self._nodes.items()))

    def below(self, path: str) -> Iterator[tuple[str, Node]]:
        """All that is somewhere below, a directory before what is in it."""
        left = self._paths_in(path)
        while left:
            inner = left.pop()
            if (node := self._nodes.get(inner)) is not None:
                yield inner, node
            left += self._paths_in(inner)

    def apply(self, plan: Plan, who: str) -> None:
        """Make all these changes, or refuse and make none."""
        self._check(plan)
        self.put(plan)
        self.note(plan, who)

    def note(self, paths: Iterable[str], who: str) -> None:
        if self.is_noting:
            changed = set(paths)
            self.dirty.setdefault(who, set()).update(changed)
            self.changed |= changed

    def put(self, plan: Plan) -> None:
        """Without asking whether there is room, and without a note: for what was allowed and written down before."""
        for path, node in plan.items():
            old = self._nodes.get(path)
            self.size += _size(node) - _size(old)
            if node is None:
                if old is not None:
                    del self._nodes[path]
                    self._names_bytes -= len(path.encode())
                    self._unlist(path)
                continue
            self._nodes[path] = node
            if old is None:
                self._names_bytes += len(path.encode())
                self._list(path)

    # -- inside ----------------------------------------------------------------------------------------------

    def _check(self, plan: Plan) -> None:
        limits = self.limits
        count = size = names = 0
        for path, node in plan.items():
            old = self._nodes.get(path)
            change = (node is not None) - (old is not None)
            count += change
            names += change * len(path.encode())
            size += _size(node) - _size(old)
            if isinstance(node, File) and node.content.size > limits.max_file_bytes and _size(old) < node.content.size:
                refuse(
                    "quota",
                    f"{short(path)} would have {node.content.size} bytes: a file has at most {limits.max_file_bytes}",
                )
        what = short(next(iter(plan), ROOT))
        # What does not grow always fits: limits may have been wider before, and the way back must be open.
        if count > 0 and len(self._nodes) + count > limits.max_files:
            refuse("quota", f"there is no room for {what}: a session has at most {limits.max_files} files")
        if size > 0 and self.size + size > limits.max_bytes:
            left = max(limits.max_bytes - self.size, 0)
            refuse(
                "quota",
                f"{what} does not fit: the files of a session take at most {limits.max_bytes} bytes together, "
                f"of which {left} are left",
            )
        if names > 0 and self._names_bytes + names > MAX_NAMES_BYTES:
            refuse("quota", f"there is no room for {what}: all names take at most {MAX_NAMES_BYTES} bytes")

    def _paths_in(self, path: str) -> list[str]:
        return sorted((within(path, name) for name in self._children.get(path, ())), reverse=True)

    def _list(self, path: str) -> None:
        # A node below a mounted directory may have no node above it: the way down to it is kept all the same.
        while path != ROOT:
            above = parent(path)
            names = self._children.setdefault(above, set())
            if last(path) in names:
                return
            names.add(last(path))
            path = above

    def _unlist(self, path: str) -> None:
        while path != ROOT and path not in self._nodes and path not in self._children:
            above = parent(path)
            names = self._children[above]
            names.discard(last(path))
            if names:
                return
            del self._children[above]
            path = above


def _size(node: Node | None) -> int:
    return node.content.size if isinstance(node, File) else 0
