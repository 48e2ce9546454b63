"""Ctrl-C and SIGTERM while a program runs: its task is cancelled, its worker goes, then we go.

A second signal does not wait for anything: a tool in a thread cannot be cancelled and may never return.
"""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """A signal ended the work. `exit_code` is what a shell expects for it."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


def run_interruptibly(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in an event loop of its own; raises `Interrupted` when a signal stopped it."""
    return asyncio.run(_guarded(work))


async def _guarded(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    caught: list[int] = []

    def stop(signum: int) -> None:
        if caught:
            os._exit(128 + signum)
        caught.append(signum)
        task.cancel()

    for signum in (signal.SIGINT, signal.SIGTERM):
        # Whoever started us with the signal ignored (nohup, `&` in a script) meant it.
        if signal.getsignal(signum) is not signal.SIG_IGN:
            loop.add_signal_handler(signum, stop, signum)
    try:
        made = await task
    except asyncio.CancelledError:
        if not caught:
            raise
    else:
        # The terminal sends Ctrl-C to the worker too, so the run may have ended as a crash first.
        if not caught:
            return made
    raise Interrupted(caught[0])
