"""Lines beside a program's output: the calls that it makes and the notes that it sends, as they happen.

  call get_order  12 ms  ok
  call refund  3 ms  denied APPROVAL_DENIED
  note: halfway

What is in them was chosen by a program or by a tool, so each stays on its line and drives no terminal.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

from cloister.cli.terminal import flat
from cloister.core.event import CALL_ENDS, Event
from cloister.sessions.events import EventListener

_SECOND_MS = 1000


def call_line(record: Mapping[str, Any]) -> str:
    """How one call went, from its record as JSON."""
    error = cast("Mapping[str, Any]", record.get("error") or {})
    how = " ".join(str(word) for word in (record["status"], error.get("code")) if word)
    return flat(f"  call {record['name']}  {duration(record['duration_ms'])}  {how}")


def duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:.1f} s"


def listener(write: Callable[[str], None]) -> EventListener:
    """Writes a line for each call that is over and each note."""

    def hear(event: Event) -> None:
        if event.kind in CALL_ENDS:
            write(call_line(event.data["record"]))
        elif event.kind == "cell.notified":
            write(flat(f"  note: {event.data['message']}"))

    return hear


def are_shown(chosen: bool | None, *, as_json: bool = False) -> bool:
    """Whether to write such lines: as the command says, or otherwise for a person at a terminal."""
    return chosen if chosen is not None else sys.stderr.isatty() and not as_json
