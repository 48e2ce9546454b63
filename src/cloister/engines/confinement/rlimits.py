"""The resource ceilings of one worker: no core file, no file growth, few descriptors, bounded memory.

Soft and hard limit are lowered together, so that the worker cannot raise them again. `RLIMIT_AS` is left alone:
wasmtime reserves gigabytes of address space that it never touches; `RLIMIT_DATA` counts what can be written.
Nothing here starts or bounds wall-clock time: deadlines belong to the host.
"""

from __future__ import annotations

import sys

from cloister.engines.confinement.layers import Unavailable

if sys.platform != "win32":
    import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OPEN_FILES = 16
STACK_BYTES = 8 * 1024 * 1024


def ceilings(*, data_bytes: int, cpu_seconds: int | None = None, tasks: int | None = None) -> dict[str, int]:
    """The limits by their name after `RLIMIT_`. `tasks` counts all of a user's threads outside a user namespace."""
    limits = {
        "CORE": 0,
        "FSIZE": 0,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
        "NOFILE": OPEN_FILES,
        "STACK": STACK_BYTES,
        "DATA": data_bytes,
    }
    if cpu_seconds is not None:
        limits["CPU"] = cpu_seconds
    if tasks is not None:
        limits["NPROC"] = tasks
    return limits


def lower(limits: Mapping[str, int]) -> None:
    """Lower each limit to its ceiling; one that is lower already stays. Reads back what the kernel kept."""
    if sys.platform == "win32":
        raise Unavailable("this operating system has no resource limits")
    for name, ceiling in limits.items():
        which = getattr(resource, f"RLIMIT_{name}", None)
        if which is None:
            continue  # RLIMIT_MSGQUEUE exists on Linux only
        wanted = min([ceiling, *(now for now in resource.getrlimit(which) if now != resource.RLIM_INFINITY)])
        try:
            resource.setrlimit(which, (wanted, wanted))
        except (ValueError, OSError) as error:
            raise Unavailable(f"RLIMIT_{name} cannot be set to {wanted}: {error}") from error
        if resource.getrlimit(which) != (wanted, wanted):
            raise Unavailable(f"RLIMIT_{name} did not keep {wanted}")
