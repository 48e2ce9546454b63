"""Giving up what a process could otherwise gain or outlive: new privileges, capabilities, a dead parent.

`no_new_privs` comes before Landlock and seccomp, because an unprivileged process may only confine itself once it can
no longer execute a set-uid program inside its own confinement.
"""

from __future__ import annotations

import os
import struct

from cloister.engines.confinement import syscalls
from cloister.engines.confinement.layers import Unavailable

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_GET_NO_NEW_PRIVS = 39
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_SIGKILL = 9


def give_up() -> None:
    """No set-uid program, no file capability and no root uid gives this process or its successors power again."""
    syscalls.call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if syscalls.call("prctl", _PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        raise Unavailable("the kernel accepted no_new_privs and did not keep it")
    _drop_capabilities()


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends.

    "Parent" is the *thread* that forked: a worker that was spawned from a short-lived thread would die with that
    thread. Foreign workers are (see `lifeline.py`), so this is for workers that our own host spawns from its loop.
    """
    syscalls.call("prctl", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # the parent ended before the signal was armed: it will never come


def _drop_capabilities() -> None:
    try:
        for capability in range(64):
            syscalls.call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    except OSError:
        pass  # past the last capability (EINVAL), or not entitled to (EPERM): the set below is emptied all the same
    syscalls.call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    syscalls.call("capset", struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24))
