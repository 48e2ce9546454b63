"""Frames of server-sent events: each is one line of JSON, so nothing that a program or a person has said can end it or
begin another.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from cloister.core.json_text import json_writer

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
_MOST_WRITTEN = 2048
# ASCII, and so without any of the characters that somebody might take for the end of a line.
_json = json_writer(ascii_only=True, allow_nan=True)


def framed(name: str, said: Mapping[str, Any], seq: int | None = None) -> bytes:
    """One event. What has no number cannot be asked for again, and has no id."""
    head = "" if seq is None else f"id: {seq}\n"
    name = name if _NAME.match(name) else "event"
    return f"{head}event: {name}\ndata: {_json(said)}\n\n".encode()


class Frames:
    """Events that were written once and are sent to many. Those of a log only: their numbers are never used again."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()

    def of(self, whose: str, seq: int, previous: int, write: Callable[[], bytes]) -> bytes:
        key = (whose, seq, previous)
        found = self._written.get(key)
        if found is None:
            found = self._written[key] = write()
            while len(self._written) > _MOST_WRITTEN:
                self._written.popitem(last=False)
        return found
