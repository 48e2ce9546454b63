"""How an own worker, a Python process of ours, shuts the door behind itself before it reads any guest code.

`enter_namespaces()` comes first thing, while there is one thread; then the imports; then `seal()`. From there on no
file, socket, process or thread can be opened, also not by an import: whatever is needed must have been loaded.
A worker needs no more of `cloister` than this room: see the end of `launch.py` for how to load it alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cloister.engines.confinement import descriptors, landlock, namespaces, privileges, rlimits, seccomp
from cloister.engines.confinement.layers import Unavailable, attempt
from cloister.engines.confinement.report import Report


def enter_namespaces() -> str:
    """Enter them and return the outcome, to be handed to `seal`, which completes the report with it."""
    return attempt(namespaces.enter)


def seal(
    *,
    data_bytes: int,
    keep_fds: Sequence[int] = (0, 1, 2),
    namespaces_outcome: str | None = None,
    cpu_seconds: int | None = None,
    die_with_parent: bool = True,
) -> Report:
    """Close everything but `keep_fds`, put all layers on and say which took effect. There is no way back.

    `data_bytes` bounds writable memory (wasmtime starts with 512 MiB). `die_with_parent` ends the worker with the
    thread that spawned it: pass False when that thread may end before the worker should.
    """
    parent = os.getppid()
    descriptors.close_all_but(keep_fds)
    os.chdir("/")
    entered = enter_namespaces() if namespaces_outcome is None else namespaces_outcome
    limits = rlimits.ceilings(data_bytes=data_bytes, cpu_seconds=cpu_seconds, tasks=0)
    outcome = {"rlimits": attempt(lambda: rlimits.lower(limits)), "no_new_privs": attempt(privileges.give_up)}
    if die_with_parent:
        # After the namespaces and the capabilities: a change of credentials disarms it.
        attempt(lambda: privileges.die_with_parent(parent))
    outcome["landlock"] = attempt(_restrict)
    outcome["seccomp"] = attempt(lambda: seccomp.install(seccomp.own_policy(os.getpid())))
    outcome["namespaces"] = entered
    return Report(outcome)


def _restrict() -> None:
    """Unlike seccomp, Landlock cannot reach threads that exist: with more than one, the layer would have a hole."""
    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        threads = 1
    if threads > 1:
        raise Unavailable(f"the process has {threads} threads by now; seal it before any is started")
    landlock.restrict()
