"""What threads are asked for and answer with: a page of them, and a turn that has begun."""

from dataclasses import dataclass

from cloister.core.thread import Thread
from cloister.core.turn import Turn


@dataclass(frozen=True, slots=True)
class ThreadList:
    """The newest first. `next` is where the next page begins, None at the end; a page may be short of what was asked
    for when it had to pass over many."""

    threads: tuple[Thread, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    thread: Thread
    turn: Turn
    # Its operation_key has made it before.
    is_known: bool
