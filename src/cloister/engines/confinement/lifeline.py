"""A foreign worker ends with its host, whichever thread of the host started it.

The usual means, PR_SET_PDEATHSIG, is armed against the *thread* that forked, and Monty's pool forks from whatever
thread asks for a worker. So the host holds a FIFO open for as long as it lives, and each worker carries a reading
end on which the kernel has been asked to announce changes with SIGKILL. Nothing is ever written to it: the one
change that can come is that its last writer is gone. A worker that closes its end loses nothing but this.
"""

from __future__ import annotations

import fcntl
import os

_SIGKILL = 9
_O_ASYNC = 0o20000
_F_SETOWN = 8
_F_SETSIG = 10


def hold(path: str) -> int:
    """Host side: create the FIFO and keep it alive. Closing the descriptor kills every worker that is tied to it."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def tie(path: str) -> int:
    """Worker side: from now on this process is killed when the host goes. Returns the descriptor that must stay."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_inheritable(handle, True)
    fcntl.fcntl(handle, _F_SETOWN, os.getpid())
    fcntl.fcntl(handle, _F_SETSIG, _SIGKILL)
    fcntl.fcntl(handle, fcntl.F_SETFL, os.O_NONBLOCK | _O_ASYNC)
    try:
        os.read(handle, 1)
    except BlockingIOError:
        return handle
    os._exit(0)  # end of file: the host went before the signal was armed
