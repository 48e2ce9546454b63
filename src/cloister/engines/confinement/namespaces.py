"""A user, network, IPC and host-name namespace of the worker's own: no interface, not even loopback, leads out.

Must come first, while the process has one thread: the kernel refuses a user namespace to a threaded process.
Left out on purpose: a PID namespace needs a fork and would hide the worker's pid from its host, and a mount
namespace adds nothing that Landlock does not refuse already.
"""

from __future__ import annotations

from cloister.engines.confinement import syscalls
from cloister.engines.confinement.layers import Unavailable

_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_ISOLATED = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS


def enter() -> None:
    """Move into fresh namespaces. No uid is mapped: inside, the worker is nobody and owns nothing."""
    try:
        syscalls.call("unshare", _CLONE_NEWUSER | _ISOLATED)
    except OSError as refusal:
        try:
            # Root in a container that forbids user namespaces may still be allowed the ones that matter.
            syscalls.call("unshare", _ISOLATED)
        except OSError:
            raise Unavailable(f"{refusal.strerror} (user namespaces are switched off here)") from refusal
