"""What threads are asked for and answer with: a page of them, and a turn that has begun."""

from dataclasses import dataclass
from datetime import datetime

from cloister.core.thread import Thread, ThreadParams
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


def new_thread(thread_id: str, session_id: str, now: datetime, tenant: str, params: ThreadParams) -> Thread:
    """As it was asked for."""
    return Thread(
        thread_id,
        session_id,
        now,
        now,
        title=params.title,
        tenant=tenant,
        driver=params.driver,
        wake=params.wake,
        model=params.model,
        system_prompt=params.system_prompt,
        dynamic_tools=params.dynamic_tools,
        environments=params.environments,
        labels=params.labels,
        metadata=params.metadata,
    )
