"""The helpers of a TypeScript program, on the host's side: a worker asks, and what it asks is an enemy's.

What no honest worker sends raises `FrameError`: the program was given only the helpers of its catalog, and its half
of this has made plain values of the arguments already.
"""

import json
from typing import Any

from cloister.engines.quickjs import frames
from cloister.engines.quickjs.report import read_json, read_list, read_value, write_value
from cloister.ports.engine import Turn
from cloister.ports.helping import HELPERS, HelperRefused

# Those whose first argument is text.
_TEXT_FIRST = frozenset({"text", "notify", "store", "load"})


def answer(payload: bytes, turn: Turn) -> bytes:
    """The frame that goes back."""
    name, args = _read(payload, turn)
    try:
        frame = _answered({"value": turn.helper(name, args), "refused": None})
    except HelperRefused as refused:
        return _answered({"value": None, "refused": refused.message})
    if len(frame) > frames.TO_WORKER:
        return _answered({"value": None, "refused": f"{name}: the answer is too large"})
    return frame


def _read(payload: bytes, turn: Turn) -> tuple[str, tuple[Any, ...]]:
    match read_json(payload):
        case {"name": str(name), "args": args, **rest} if not rest and name in turn.catalog.helpers:
            given = read_list(args)
        case _:
            raise frames.FrameError("a question of no known shape")
    if name == "exit" or len(given) != len(HELPERS[name]):
        raise frames.FrameError(f"{name} is not asked like this")
    if name in _TEXT_FIRST and not isinstance(given[0], str):
        raise frames.FrameError(f"{name} is asked with something else than text")
    return name, tuple(read_value(given))


def _answered(told: dict[str, Any]) -> bytes:
    data, bigs = write_value(told)
    return frames.pack(frames.HELPED, b'{"answer":', data, b',"bigs":', json.dumps(bigs).encode(), b"}")
