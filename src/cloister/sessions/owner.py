"""The name of this process among the owners of a store, and whether another that bears such a name still lives.

A process that was killed cannot say that it is gone, and its time would have to run out. Where the name tells that it
was on this machine, since its last start and among processes that can be seen from here, nobody need wait for that.
"""

import os
import secrets
from pathlib import Path

_PROC = Path("/proc")


def _home() -> str:
    """This machine since it was started, and this set of processes on it; nothing where nobody can tell."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """When a process was started, in the kernel's own counting; None if none of that number is alive."""
    try:
        # The name of its program comes before, in brackets, and may have anything in it.
        told = (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        # One that nobody has reaped is dead all the same.
        return None if told[0] in "ZXx" else told[19]
    except (OSError, IndexError):
        return None


def new_owner() -> str:
    return f"{_home()}|{os.getpid()}|{_began(os.getpid())}|{secrets.token_hex(8)}"


def is_dead(owner: str) -> bool:
    """Whether the process of that name is known to have ended. False if nobody can tell."""
    home, pid, began, *_ = [*owner.split("|"), "", "", ""]
    if not home or home != _home() or not pid.isdecimal():
        return False
    return _began(int(pid)) != began


def process_of(owner: str) -> str:
    """The process of that name, for people."""
    home, pid, *_ = [*owner.split("|"), "", ""]
    if not pid.isdecimal():
        return "another process"
    return f"process {pid}" if home and home == _home() else f"process {pid} of another machine"
