"""The helpers of a TypeScript program, on the host's side: a worker asks, and what it asks is an enemy's.

What no honest worker sends raises `FrameError`: the program was given only the helpers of its catalog, and its half
of this has made plain values of the arguments already.
"""

import json
from collections.abc import Mapping
from typing import Any

from cloister.engines.quickjs import frames
from cloister.engines.quickjs.report import read_json, read_list, read_value, write_value
from cloister.ports.engine import Turn
from cloister.ports.helping import FILES, FILES_OBJECT, HELPERS, MAX_FILE_BYTES, HelperRefused

# Those whose first argument is text.
_TEXT_FIRST = frozenset({"text", "notify", "store", "load"})
# What each argument of an operation on files is.
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "recursive": bool,
    "parents": bool,
    "exist_ok": bool,
    "options": dict,
    "hash": (str, type(None)),
}


def answer(payload: bytes, turn: Turn) -> bytes:
    """The frame that goes back."""
    name, args = _read(payload, turn)
    try:
        if name in FILES:
            _bound(name, args, turn)
        value = turn.helper(name, args)
        frame = _told(value, args[1]) if name == "files.read" else _answered({"value": value, "refused": None})
    except HelperRefused as refused:
        code = f"FILE_{refused.code.upper()}" if refused.code else None
        return _answered({"value": None, "refused": refused.message, "code": code})
    if len(frame) > frames.TO_WORKER:
        return _answered({"value": None, "refused": f"{name}: the answer is too large", "code": "FILE_TOO_LARGE"})
    return frame


def _read(payload: bytes, turn: Turn) -> tuple[str, tuple[Any, ...]]:
    if len(payload) > frames.LARGEST_HELP and not frames.is_about_files(payload):
        raise frames.FrameError("a question that is too long")
    match read_json(payload):
        case {"name": str(name), "args": args, **rest} if not rest:
            given = read_list(args)
        case _:
            raise frames.FrameError("a question of no known shape")
    helpers = turn.catalog.helpers
    if name in FILES and FILES_OBJECT in helpers:
        _check_file_arguments(name, given)
    elif name not in HELPERS or name not in helpers or name == "exit" or len(given) != len(HELPERS[name]):
        raise frames.FrameError(f"{name[:80]} is not asked like this")
    elif name in _TEXT_FIRST and not isinstance(given[0], str):
        raise frames.FrameError(f"{name} is asked with something else than text")
    return name, tuple(read_value(given))


def _check_file_arguments(name: str, given: list[Any]) -> None:
    parameters = FILES[name]
    if len(given) != len(parameters):
        raise frames.FrameError(f"{name} is not asked like this")
    for parameter, value in zip(parameters, given, strict=True):
        if not isinstance(value, _KINDS.get(parameter, str)):
            raise frames.FrameError(f"{name} is asked with something else than its {parameter}")


def _bound(name: str, args: tuple[Any, ...], turn: Turn) -> None:
    """No more of a file crosses at once than may, either way."""
    if name == "files.read":
        # Its text is asked for only when it is known to be short enough.
        found: Any = turn.helper("files.stat", args[:1])
        size = found["size_bytes"]
    elif name in ("files.write", "files.write_if_match"):
        size = _decoded(args[1]) if args[2] == "base64" else len(args[1].encode())
    else:
        return
    if size > MAX_FILE_BYTES:
        most = MAX_FILE_BYTES >> 20
        raise HelperRefused(
            f"too large for one read or write: {args[0]!r}, {size} bytes, and at most {most} MiB at once",
            code="too_large",
        )


def _decoded(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _told(content: Any, encoding: str) -> bytes:
    """The same for the content of a file, which may be long: looked at once at most, because meanwhile the host does
    nothing else."""
    data = f'"{content}"'.encode() if encoding == "base64" else json.dumps(content, ensure_ascii=False).encode()
    return frames.pack(frames.HELPED, b'{"answer":{"value":', data, b',"refused":null},"bigs":null}')


def _answered(told: dict[str, Any]) -> bytes:
    data, bigs = write_value(told)
    return frames.pack(frames.HELPED, b'{"answer":', data, b',"bigs":', json.dumps(bigs).encode(), b"}")
