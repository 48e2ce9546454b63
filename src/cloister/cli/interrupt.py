"""Ctrl-C and SIGTERM while a program runs: its task is cancelled, its worker goes, then we go.

That takes milliseconds, unless a tool blocks a thread, which nobody can cancel: then we leave without it, after a
moment or at the second signal.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE_SECONDS = 2.0


class Interrupted(Exception):
    """A signal ended the work. `exit_code` is what a shell expects for it."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


def run_interruptibly(work: Coroutine[Any, Any, T], instead: Callable[[int], bool] | None = None) -> T:
    """Run `work` in an event loop of its own; raises `Interrupted` when a signal stopped it.

    `instead` hears of a signal first, on the loop, and says whether it took it for itself.
    """
    return asyncio.run(_guarded(work, instead))


async def _guarded(work: Coroutine[Any, Any, T], instead: Callable[[int], bool] | None) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    caught: list[int] = []

    def stop(signum: int) -> None:
        if caught:
            leave(signum)
        if instead is not None and instead(signum):
            return
        caught.append(signum)
        impatience = threading.Timer(_PATIENCE_SECONDS, leave, (signum,))
        impatience.daemon = True
        impatience.start()
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


def leave(signum: int) -> None:
    """Go at once."""
    # No cleanup: it waits for a thread that does not end. Workers end when their host is gone.
    sys.stderr.write(f"cloister: {Interrupted(signum)}; a tool was still running\n")
    sys.stderr.flush()
    os._exit(128 + signum)
