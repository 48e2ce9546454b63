"""The files as a program's helper: names and JSON in, JSON out. What is wrong with them is refused, never raised.

One for each cell, under whose name its changes are noted. Called on any thread.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Literal, cast

from cloister.core.value import Json
from cloister.ports.clock import Clock
from cloister.sessions.files.content import decode_text, encode_text
from cloister.sessions.files.grep import DEFAULT_MATCHES
from cloister.sessions.files.node import Content
from cloister.sessions.files.paths import ROOT, last, normal_path, placed, short
from cloister.sessions.files.refusal import refuse
from cloister.sessions.files.searching import grep
from cloister.sessions.files.system import FileSystem
from cloister.sessions.files.view import Seen

_OPTIONS = frozenset({"glob", "literal", "path", "limit"})


class Door:
    __slots__ = ("_base", "_clock", "_system", "_who")

    def __init__(self, system: FileSystem, who: str, clock: Clock, base: str = ROOT) -> None:
        """Relative paths begin in the directory `base`."""
        self._base = base
        self._system = system
        self._who = who
        self._clock = clock

    def __call__(self, name: str, arguments: tuple[Json, ...]) -> Json:
        system, who = self._system, self._who
        if self._base != ROOT:
            arguments = self._placed(name, arguments)
        match name, arguments:
            case "files.read", (path, ("text" | "base64") as encoding):
                return self._read(path, encoding)
            case "files.write", (path, content, ("text" | "base64") as encoding, ("w" | "a" | "x") as mode):
                return system.write(path, _decoded(path, content, encoding), mode, who)
            case "files.write_if_match", (path, content, ("text" | "base64") as encoding, (str() | None) as expected):
                return system.write_if_match(path, _decoded(path, content, encoding), expected, who)
            case "files.delete", (path, bool(recursive)):
                return system.delete(path, who, recursive=recursive)
            case "files.rmdir", (path,):
                return system.rmdir(path, who)
            case "files.list", (path,):
                return [_entry(seen) for seen in system.list(path)]
            case "files.stat", (path,):
                return _stat(*system.stat(path))
            case "files.mkdir", (path, bool(parents), bool(exist_ok)):
                return system.mkdir(path, who, parents=parents, exist_ok=exist_ok)
            case "files.move", (src, dst):
                return system.move(src, dst, who)
            case "files.copy", (src, dst):
                return system.copy(src, dst, who)
            case "files.grep", (pattern, dict() as options):
                return self._grep(pattern, options)
            case _:
                return refuse("invalid", f"{name}() does not take this")

    # -- inside ----------------------------------------------------------------------------------------------

    def _placed(self, name: str, arguments: tuple[Json, ...]) -> tuple[Json, ...]:
        """The same, with its paths as they are meant in the base."""
        if name == "files.grep":
            if len(arguments) == 2 and isinstance(options := arguments[1], dict):
                return (arguments[0], {**options, "path": _at(options.get("path", "."), self._base)})
            return arguments
        paths = 2 if name in ("files.move", "files.copy") else 1
        return (*(_at(path, self._base) for path in arguments[:paths]), *arguments[paths:])

    def _read(self, path: Json, encoding: Literal["text", "base64"]) -> Json:
        data = _loaded(path, self._system.read(path))
        return decode_text(normal_path(path), data) if encoding == "text" else base64.b64encode(data).decode()

    def _grep(self, pattern: Json, options: Mapping[str, Any]) -> Json:
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            refuse("invalid", f"grep has no option {unknown[0]!r}: there are {', '.join(sorted(_OPTIONS))}")
        literal = options.get("literal", False)
        if not isinstance(literal, bool):
            refuse("invalid", "grep's option literal is true or false")
        found = grep(
            self._system,
            pattern,
            self._clock,
            path=options.get("path", "/"),
            glob=options.get("glob"),
            literal=literal,
            limit=options.get("limit", DEFAULT_MATCHES),
        )
        return [{"path": one.path, "line": one.line, "text": one.text} for one in found]


def _at(path: Json, base: str) -> Json:
    return cast("Json", placed(path, base))


def _loaded(path: Json, content: Content) -> bytes:
    if content.data is None:
        refuse("invalid", f"{short(str(path))} has not been loaded")
    return content.data


def _decoded(path: Json, content: Json, encoding: Literal["text", "base64"]) -> bytes:
    if not isinstance(content, str):
        refuse("invalid", f"what is written to a file is text, not {type(content).__name__}")
    if encoding == "text":
        return encode_text(path if isinstance(path, str) else "", content)
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        refuse("invalid", "what is written to a file is not base64")


def _entry(seen: Seen) -> dict[str, Json]:
    return {"name": last(seen.path), "path": seen.path, "kind": seen.kind, "size_bytes": seen.size}


def _stat(seen: Seen, digest: str | None) -> dict[str, Json]:
    return {
        "path": seen.path,
        "kind": seen.kind,
        "size_bytes": seen.size,
        "modified_ms": seen.modified_ms,
        "hash": digest,
        "read_only": seen.read_only,
    }
