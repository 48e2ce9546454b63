"""The directory that a host has its launcher in, and those that hosts before it could not remove any more.

A host that was killed leaves its own behind: a script and a FIFO. Which ones nobody holds is known by the FIFO: its
host has it open for as long as it lives.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_PREFIX = "cloister-"
_LIFELINE = "*.lifeline"
# A host that starts at this moment has made its directory, and does not hold its FIFO yet.
_YOUNG_SECONDS = 60
# At one start: whoever starts has not come to tidy up.
_MOST = 100


def scratch() -> tempfile.TemporaryDirectory[str]:
    for left in islice(_abandoned(Path(tempfile.gettempdir())), _MOST):
        shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=_PREFIX)


def _abandoned(place: Path) -> Iterator[Path]:
    try:
        with os.scandir(place) as entries:
            ours = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX) and _is_old(entry)]
    except OSError:
        return
    for directory in ours:
        lifelines = list(directory.glob(_LIFELINE))
        if lifelines and not any(map(_is_held, lifelines)):
            yield directory


def _is_old(entry: os.DirEntry[str]) -> bool:
    """A directory of this user's that was not made just now."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and found.st_mtime < time.time() - _YOUNG_SECONDS
    )


def _is_held(lifeline: Path) -> bool:
    try:
        handle = os.open(lifeline, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        # It went meanwhile, or is nothing of ours.
        return True
    try:
        return not stat.S_ISFIFO(os.fstat(handle).st_mode) or os.read(handle, 1) != b""
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
