"""The end of a command's process: when all that has to be done at exit is done, it ends, and Python does not first take
itself apart.

Threads of an engine's libraries outlive its pool by a moment. One that hands something over just while the interpreter
comes down aborts the process, and an exit code that was 0 is lost. What waits for threads and what `atexit` knows of is
done before; only what nobody may rely on, `__del__` of what is left over, is not.
"""

import atexit
import os
import sys
from contextlib import suppress


class Ending:
    """Made before anything else is, so that it comes after all that is to be done at exit."""

    def __init__(self) -> None:
        # None: it ended in a way that nobody here knows of.
        self.code: int | None = None
        atexit.register(self._end)

    def _end(self) -> None:
        if self.code is None:
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(self.code)
