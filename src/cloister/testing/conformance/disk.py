"""Files for the suite: a dictionary that answers as a session's files do, small enough to be believed.

It keeps bytes under normal paths and nothing else: no quota but one on bytes, no history. What it refuses, and with
which code, is what the port says.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from cloister.core.value import Json
from cloister.ports.helping import HelperRefused

NOW_MS = 1_700_000_000_000


def _refuse(code: str, path: str) -> HelperRefused:
    return HelperRefused(f"{code.replace('_', ' ')}: {path[:200]!r}", code=code)


def normal(path: str) -> str:
    """`/workspace/a/b`, `/a/b` and `a/b/` are one path: `/a/b`."""
    if "\0" in path or "\\" in path or len(path) > 1024:
        raise _refuse("invalid_path", path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _refuse("invalid_path", path)
    if parts[:1] == ["workspace"]:
        parts = parts[1:]
    return "/" + "/".join(parts)


class Disk:
    """Answers the names of `ports.helping.FILES`."""

    def __init__(self, *, most_bytes: int = 64 << 20) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = {"/"}
        self.read_only: set[str] = set()
        self.most_bytes = most_bytes
        # What was asked, with its path, in order.
        self.asked: list[tuple[str, Json]] = []

    def __call__(self, name: str, given: tuple[Json, ...]) -> Json:
        # As it would be if somebody were far away.
        arguments = json.loads(json.dumps(given))
        self.asked.append((name, arguments[0]))
        answer: Callable[..., Any] = getattr(self, f"_{name.removeprefix('files.')}")
        return json.loads(json.dumps(answer(*arguments)))

    # -- what there is ---------------------------------------------------------------------------------------

    def _stat(self, path: str) -> Mapping[str, Json]:
        at = self._there(path)
        data = self.files.get(at)
        return {
            "path": at,
            "kind": "directory" if data is None else "file",
            "size_bytes": len(data or b""),
            "modified_ms": NOW_MS,
            "hash": None if data is None else _hash(data),
            "read_only": at in self.read_only,
        }

    def _list(self, path: str) -> list[Json]:
        at = self._there(path)
        if at in self.files:
            raise _refuse("not_directory", path)
        start = at.rstrip("/") + "/"
        names = sorted({one[len(start) :] for one in {*self.files, *self.directories} if one.startswith(start)})
        return [self._entry(start + name) for name in names if name and "/" not in name]

    def _entry(self, at: str) -> Json:
        found = self._stat(at)
        return {"name": at.rpartition("/")[2], **{key: found[key] for key in ("path", "kind", "size_bytes")}}

    def _read(self, path: str, encoding: str) -> str:
        at = self._there(path)
        if at not in self.files:
            raise _refuse("is_directory", path)
        if encoding == "base64":
            return base64.b64encode(self.files[at]).decode()
        try:
            return self.files[at].decode()
        except UnicodeDecodeError:
            raise _refuse("not_text", path) from None

    def _grep(self, pattern: str, options: dict[str, Any]) -> list[Json]:
        try:
            wanted = re.compile(re.escape(pattern) if options.get("literal") else pattern)
        except re.error:
            raise HelperRefused(f"{pattern[:200]!r} is no regular expression", code="invalid") from None
        root = normal(options.get("path", "/"))
        found: list[Json] = []
        for at in sorted(self.files):
            if at.startswith(root) and fnmatchcase(at, f"*{options.get('glob', '')}"):
                lines = self.files[at].decode(errors="ignore").splitlines()
                for number, line in enumerate(lines, 1):
                    if wanted.search(line):
                        found.append({"path": at, "line": number, "text": line})
        return found[: options.get("limit", 1000)]

    # -- changes ---------------------------------------------------------------------------------------------

    def _write(self, path: str, content: str, encoding: str, mode: str) -> int:
        at, data = normal(path), _bytes(content, encoding)
        if mode == "x" and self._is_there(at):
            raise _refuse("exists", path)
        self._put(path, at, self.files.get(at, b"") + data if mode == "a" else data)
        return len(self.files[at])

    def _write_if_match(self, path: str, content: str, encoding: str, known: str | None) -> str:
        at = normal(path)
        there = _hash(self.files[at]) if at in self.files else None
        if there != known:
            raise _refuse("conflict", path)
        self._put(path, at, _bytes(content, encoding))
        return _hash(self.files[at])

    def _delete(self, path: str, recursive: bool) -> bool:
        at = normal(path)
        if at == "/":
            raise _refuse("invalid", path)
        if not self._is_there(at):
            return False
        inside = [one for one in {*self.files, *self.directories} if one.startswith(at.rstrip("/") + "/")]
        if self.read_only & {at, *inside}:
            raise _refuse("read_only", path)
        if inside and not recursive:
            return False
        for one in (at, *inside):
            self.files.pop(one, None)
            self.directories.discard(one)
        return True

    def _rmdir(self, path: str) -> None:
        if self._there(path) in self.files:
            raise _refuse("not_directory", path)
        if not self._delete(path, recursive=False):
            raise _refuse("not_empty", path)

    def _mkdir(self, path: str, parents: bool, exist_ok: bool) -> None:
        at = normal(path)
        if self._is_there(at):
            if at in self.files or not exist_ok:
                raise _refuse("exists", path)
            return
        above = _above(at)
        if above in self.files:
            raise _refuse("not_directory", path)
        if not parents and above not in self.directories:
            raise _refuse("not_found", above)
        self._make(path, at)

    def _move(self, source: str, target: str) -> None:
        self._copy(source, target)
        self._delete(source, recursive=True)

    def _copy(self, source: str, target: str) -> None:
        at, to = self._there(source), normal(target)
        if at in self.read_only:
            raise _refuse("read_only", source)
        if at in self.files:
            self._put(target, to, self.files[at])
            return
        if self._is_there(to) or to.startswith(f"{at}/"):
            raise _refuse("exists", target)
        for one in sorted(self.directories):
            if one == at or one.startswith(f"{at}/"):
                self._make(target, to + one[len(at) :])
        for one in list(self.files):
            if one.startswith(f"{at}/"):
                self.files[to + one[len(at) :]] = self.files[one]

    # -- inside ----------------------------------------------------------------------------------------------

    def _is_there(self, at: str) -> bool:
        return at in self.files or at in self.directories

    def _there(self, path: str) -> str:
        at = normal(path)
        if not self._is_there(at):
            raise _refuse("not_directory" if _above(at) in self.files else "not_found", path)
        return at

    def _make(self, path: str, at: str) -> None:
        if at in self.files:
            raise _refuse("not_directory", path)
        if at not in self.directories:
            self._make(path, _above(at))
            self.directories.add(at)

    def _put(self, path: str, at: str, data: bytes) -> None:
        if at in self.directories:
            raise _refuse("is_directory", path)
        if at in self.read_only:
            raise _refuse("read_only", path)
        if sum(len(one) for other, one in self.files.items() if other != at) + len(data) > self.most_bytes:
            raise _refuse("quota", path)
        self._make(path, _above(at))
        self.files[at] = data


def _above(at: str) -> str:
    return at.rpartition("/")[0] or "/"


def _hash(data: bytes) -> str:
    return hashlib.sha3_256(data).hexdigest()


def _bytes(content: str, encoding: str) -> bytes:
    if encoding == "text":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        raise HelperRefused("this is not base64", code="invalid") from None
