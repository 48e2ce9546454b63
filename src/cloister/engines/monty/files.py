"""Files inside a Python program: what Monty asks of a file system, put to the turn's helper.

`open()`, `pathlib` and `os` arrive as some twenty functions over absolute paths; Monty has applied the working
directory and any `..` by then, and keeps the position in an open file to itself. Each is answered at once, as Python
would: with a value, or with the exception that belongs there, whose message names the path. Nothing here knows where
files are kept, and what a worker sends is an enemy's until its shape is checked.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias, cast

import pydantic_monty as monty

from cloister.core.value import Json
from cloister.ports.engine import Program
from cloister.ports.helping import MAX_FILE_BYTES, Helper, HelperRefused

# Where relative paths begin; another name of the root.
HOME = "/workspace"
_LONGEST_PATH = 4096
_SHOWN = 200
# A walk through more than this is no answer within one step.
_MOST_ENTRIES = 20_000
_ABSENT = frozenset({"not_found", "not_directory", "invalid_path"})

# What Python raises for a refusal, and how it begins to say so. None: the host's own words.
_REFUSALS: Mapping[str, tuple[str, str | None]] = {
    "not_found": ("FileNotFoundError", "[Errno 2] No such file or directory"),
    "exists": ("FileExistsError", "[Errno 17] File exists"),
    "is_directory": ("IsADirectoryError", "[Errno 21] Is a directory"),
    "not_directory": ("NotADirectoryError", "[Errno 20] Not a directory"),
    "not_empty": ("OSError", "[Errno 39] Directory not empty"),
    "read_only": ("PermissionError", "[Errno 13] Permission denied, it is read-only"),
    "not_text": ("UnicodeDecodeError", "this is not UTF-8 text, read it as bytes"),
    "quota": ("OSError", None),
    "too_large": ("OSError", None),
    "conflict": ("OSError", None),
    "invalid_path": ("ValueError", None),
    "invalid": ("ValueError", None),
}


class _Undecodable(UnicodeDecodeError):
    """Says what we say, and not which byte: that stays with the host."""

    def __init__(self, message: str) -> None:
        super().__init__("utf-8", b"", 0, 1, message)

    def __str__(self) -> str:
        return self.reason


_KINDS: Mapping[str, Callable[[str], Exception]] = {
    "FileNotFoundError": FileNotFoundError,
    "FileExistsError": FileExistsError,
    "IsADirectoryError": IsADirectoryError,
    "NotADirectoryError": NotADirectoryError,
    "PermissionError": PermissionError,
    "OSError": OSError,
    "UnicodeDecodeError": _Undecodable,
    "ValueError": ValueError,
    "TypeError": TypeError,
    "RuntimeError": RuntimeError,
}
_TAKE_TWO = frozenset("open Path.rename Path.write_text Path.write_bytes Path.append_text Path.append_bytes".split())
_OPTIONS: Mapping[str, frozenset[str]] = {
    "Path.mkdir": frozenset({"parents", "exist_ok"}),
    "Path.scan": frozenset({"max_depth", "follow_symlinks", "pattern", "case_sensitive", "recurse_symlinks"}),
}


class _Fault(Exception):
    """What the program is told instead of an answer."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def settled(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], helper: Helper, stopped: Callable[[], bool]
) -> dict[str, Any]:
    """The answer to one of `FUNCTIONS`, as Monty takes it from a lane. Raises what only a broken host raises."""
    try:
        function, given = FUNCTIONS[name], _checked(name, args, kwargs)
        return {"return_value": function(_Asker(helper, stopped), *given, **kwargs)}
    except _Fault as fault:
        return {"exc_type": fault.kind, "message": fault.message}


def as_exception(answer: Mapping[str, Any]) -> Exception:
    """The same refusal as Monty takes it from a callback."""
    return _KINDS[answer["exc_type"]](answer["message"])


def home_of(program: Program, otherwise: str | None) -> str | None:
    """Where a program begins; a namespace that is told nothing stays where its last program went."""
    return (HOME if program.cwd == "/" else program.cwd) or otherwise


# -- paths ------------------------------------------------------------------------------------------------------------


def _checked(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments, with their paths as text."""
    if len(args) != (2 if name in _TAKE_TWO else 1) or not kwargs.keys() <= _OPTIONS.get(name, frozenset()):
        raise _Fault("TypeError", f"{name}: these are not its arguments")
    paths = 2 if name == "Path.rename" else 1
    return (*(_path(arg) for arg in args[:paths]), *args[paths:])


def _path(given: Any) -> str:
    if isinstance(given, monty.MontyFileHandle):
        given = given.path
    path = str(given) if isinstance(given, (str, PurePosixPath)) else ""
    if not path.startswith("/"):
        # Monty makes every path absolute but the empty one.
        raise _Fault("FileNotFoundError", "[Errno 2] No such file or directory: ''")
    if len(path) > _LONGEST_PATH:
        raise _Fault("OSError", f"[Errno 36] File name too long: {_shown(path)}")
    return path


def _shown(*paths: str) -> str:
    return " -> ".join(repr(path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…") for path in paths)


class _Asker:
    """Asks the helper, and turns what it refuses into a fault that names the paths."""

    __slots__ = ("_helper", "_stopped")

    def __init__(self, helper: Helper, stopped: Callable[[], bool]) -> None:
        self._helper = helper
        self._stopped = stopped

    def __call__(self, name: str, *given: Json, paths: int = 1) -> Any:
        try:
            return self._helper(name, given)
        except HelperRefused as refused:
            raise _fault(refused, [str(path) for path in given[:paths]]) from None

    def stat(self, path: str) -> dict[str, Any] | None:
        """What is there; None if nothing is."""
        try:
            return cast("dict[str, Any]", self._helper("files.stat", (path,)))
        except HelperRefused as refused:
            if refused.code in _ABSENT:
                return None
            raise _fault(refused, [path]) from None

    def go_on(self) -> None:
        """For whoever asks many times: a program that was killed meanwhile hears no answer."""
        if self._stopped():
            raise _Fault("RuntimeError", "the program was stopped")


def _fault(refused: HelperRefused, paths: list[str]) -> _Fault:
    kind, said = _REFUSALS.get(refused.code, ("OSError", None))
    if said is not None:
        return _Fault(kind, f"{said}: {_shown(*paths)}")
    named = any(shown in refused.message for shown in (paths[0], _shown(paths[0])))
    return _Fault(kind, refused.message if named else f"{refused.message}: {_shown(*paths)}")


def _too_large(path: str, size: int) -> _Fault:
    most = MAX_FILE_BYTES >> 20
    return _Fault("OSError", f"[Errno 27] File too large: {_shown(path)}: {size} bytes, and at most {most} MiB at once")


# -- what there is ----------------------------------------------------------------------------------------------------


def _exists(ask: _Asker, path: str) -> bool:
    return ask.stat(path) is not None


def _is_file(ask: _Asker, path: str) -> bool:
    found = ask.stat(path)
    return found is not None and found["kind"] == "file"


def _is_dir(ask: _Asker, path: str) -> bool:
    found = ask.stat(path)
    return found is not None and found["kind"] == "directory"


def _is_symlink(_ask: _Asker, _path: str) -> bool:
    return False


def _stat(ask: _Asker, path: str) -> Any:
    found = ask("files.stat", path)
    seconds = found["modified_ms"] / 1000
    if found["kind"] == "directory":
        return monty.StatResult.dir_stat(0o555 if found["read_only"] else 0o755, seconds)
    return monty.StatResult.file_stat(found["size_bytes"], 0o444 if found["read_only"] else 0o644, seconds)


def _iterdir(ask: _Asker, path: str) -> list[PurePosixPath]:
    return [PurePosixPath(entry["name"]) for entry in ask("files.list", path)]


def _scan(ask: _Asker, path: str, *, max_depth: Any = None, **_hints: Any) -> list[Any]:
    """A directory and what is below it, with paths relative to it. Monty sorts out what a pattern matches.

    Searches take an OSError for an empty directory. What must not be missed is a RuntimeError.
    """
    deepest = max_depth if isinstance(max_depth, int) else _LONGEST_PATH
    if ask("files.stat", path)["kind"] != "directory":
        return [monty.ScanEntry("", is_dir=False, is_file=True, is_symlink=False)]
    found = [monty.ScanEntry("", is_dir=True, is_file=False, is_symlink=False)]
    left = [("", 0)]
    while left:
        below, depth = left.pop()
        if depth >= deepest:
            continue
        ask.go_on()
        try:
            entries = ask("files.list", f"{path.rstrip('/')}/{below}" if below else path)
        except _Fault as fault:
            raise _Fault("RuntimeError", fault.message) from None
        for entry in entries:
            name, is_dir = f"{below}/{entry['name']}" if below else entry["name"], entry["kind"] == "directory"
            found.append(monty.ScanEntry(name, is_dir=is_dir, is_file=not is_dir, is_symlink=False))
            if is_dir:
                left.append((name, depth + 1))
            if len(found) > _MOST_ENTRIES:
                message = f"more than {_MOST_ENTRIES} entries below {_shown(path)}: go through it in parts"
                raise _Fault("RuntimeError", message)
    return found


def _plain(_ask: _Asker, path: str) -> str:
    # There are no links, so an absolute path is a resolved one.
    return path


# -- contents ---------------------------------------------------------------------------------------------------------


def _open(ask: _Asker, path: str, mode: Any) -> Any:
    """What opening does by itself; reading and writing come as functions of their own."""
    try:
        handle = monty.MontyFileHandle(path, mode)
    except (ValueError, TypeError):
        raise _Fault("ValueError", f"invalid mode: {_shown(str(mode))}") from None
    if handle.writable:
        ask("files.write", path, "", "text", handle.mode[0])
    elif ask("files.stat", path)["kind"] == "directory":
        raise _fault(HelperRefused("", code="is_directory"), [path])
    return handle


def _read(ask: _Asker, path: str, encoding: str) -> str:
    size = ask("files.stat", path)["size_bytes"]
    if size > MAX_FILE_BYTES:
        raise _too_large(path, size)
    return ask("files.read", path, encoding)


def _read_text(ask: _Asker, path: str) -> str:
    return _read(ask, path, "text")


def _read_bytes(ask: _Asker, path: str) -> bytes:
    return base64.b64decode(_read(ask, path, "base64"))


def _put(ask: _Asker, path: str, data: Any, mode: str) -> int:
    """Returns the length in the program's terms: characters of a text, bytes otherwise."""
    if isinstance(data, str):
        size = len(data) if data.isascii() else len(data.encode("utf-8", "surrogatepass"))
        if size > MAX_FILE_BYTES:
            raise _too_large(path, size)
        ask("files.write", path, data, "text", mode)
    elif isinstance(data, (bytes, bytearray)):
        if len(data) > MAX_FILE_BYTES:
            raise _too_large(path, len(data))
        ask("files.write", path, base64.b64encode(data).decode(), "base64", mode)
    else:
        raise _Fault("ValueError", f"only text and bytes can be written to {_shown(path)}")
    return len(data)


def _write(ask: _Asker, path: str, data: Any) -> int:
    return _put(ask, path, data, "w")


def _append(ask: _Asker, path: str, data: Any) -> int:
    return _put(ask, path, data, "a")


# -- changes ----------------------------------------------------------------------------------------------------------


def _mkdir(ask: _Asker, path: str, *, parents: Any = False, exist_ok: Any = False) -> None:
    ask("files.mkdir", path, bool(parents), bool(exist_ok))


def _unlink(ask: _Asker, path: str) -> None:
    if ask("files.stat", path)["kind"] == "directory":
        raise _fault(HelperRefused("", code="is_directory"), [path])
    ask("files.delete", path, False)


def _rmdir(ask: _Asker, path: str) -> None:
    ask("files.rmdir", path)


def _rename(ask: _Asker, path: str, target: str) -> None:
    ask("files.move", path, target, paths=2)


_Function: TypeAlias = Callable[..., Any]
# Monty's names for them.
FUNCTIONS: Mapping[str, _Function] = {
    "open": _open,
    "Path.exists": _exists,
    "Path.is_file": _is_file,
    "Path.is_dir": _is_dir,
    "Path.is_symlink": _is_symlink,
    "Path.stat": _stat,
    "Path.iterdir": _iterdir,
    "Path.scan": _scan,
    "Path.resolve": _plain,
    "Path.absolute": _plain,
    "Path.read_text": _read_text,
    "Path.read_bytes": _read_bytes,
    "Path.write_text": _write,
    "Path.write_bytes": _write,
    "Path.append_text": _append,
    "Path.append_bytes": _append,
    "Path.mkdir": _mkdir,
    "Path.unlink": _unlink,
    "Path.rmdir": _rmdir,
    "Path.rename": _rename,
}
