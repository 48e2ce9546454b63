"""Which step of which conversation something belongs to: a cell, a call, and all events of theirs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strand:
    thread_id: str
    turn_id: str
    item_id: str | None = None
