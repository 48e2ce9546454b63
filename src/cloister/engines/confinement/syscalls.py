"""System call numbers of the two machines that we know, and a way to make a call that libc has no wrapper for.

On any other machine or operating system there is no table, and each layer that needs one reports itself unavailable.
The numbers are kernel ABI and never change; a test compares them with the kernel headers where those are installed.
"""

from __future__ import annotations

import ctypes
import os
import sys

from cloister.engines.confinement.layers import Unavailable

# The calls that both machines have, numbered the same since Linux 5.1.
_SHARED = {
    "clone3": 435,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}

X86_64 = _SHARED | {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "pread64": 17, "readv": 19, "writev": 20, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28,
    "nanosleep": 35, "getpid": 39, "socket": 41, "sendto": 44, "recvfrom": 45, "shutdown": 48, "clone": 56,
    "execve": 59, "exit": 60, "fcntl": 72, "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrusage": 98,
    "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "capset": 126, "sigaltstack": 131,
    "prctl": 157, "arch_prctl": 158, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204,
    "getdents64": 217, "set_tid_address": 218, "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "exit_group": 231, "epoll_wait": 232, "epoll_ctl": 233, "tgkill": 234, "openat": 257,
    "newfstatat": 262, "readlinkat": 267, "pselect6": 270, "ppoll": 271, "unshare": 272, "set_robust_list": 273,
    "epoll_pwait": 281, "prlimit64": 302, "getcpu": 309, "seccomp": 317, "getrandom": 318, "memfd_create": 319,
    "membarrier": 324, "statx": 332, "rseq": 334,
}  # fmt: skip

AARCH64 = _SHARED | {
    "getcwd": 17, "epoll_ctl": 21, "epoll_pwait": 22, "fcntl": 25, "ioctl": 29, "openat": 56, "close": 57,
    "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67, "pselect6": 72,
    "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "capset": 91, "exit": 93, "exit_group": 94,
    "set_tid_address": 96, "unshare": 97, "futex": 98, "set_robust_list": 99, "nanosleep": 101, "clock_gettime": 113,
    "clock_getres": 114, "clock_nanosleep": 115, "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128,
    "tgkill": 131, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139,
    "getrusage": 165, "prctl": 167, "getcpu": 168, "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174,
    "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178, "socket": 198, "sendto": 206, "recvfrom": 207,
    "shutdown": 210, "brk": 214, "munmap": 215, "mremap": 216, "clone": 220, "execve": 221, "mmap": 222,
    "mprotect": 226, "madvise": 233, "prlimit64": 261, "seccomp": 277, "getrandom": 278, "memfd_create": 279,
    "membarrier": 283, "statx": 291, "rseq": 293,
}  # fmt: skip

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
# Asked once: behind a filter uname is refused, and its PermissionError would pass for one of the call itself.
_MACHINE = os.uname().machine if sys.platform == "linux" else ""
_MACHINES = {"x86_64": (X86_64, 0xC000003E), "aarch64": (AARCH64, 0xC00000B7)}


def machine() -> tuple[dict[str, int], int]:
    """The number table and the audit architecture of this process, or `Unavailable`."""
    if sys.platform != "linux":
        raise Unavailable(f"{sys.platform} has no such layer, it needs Linux")
    if _MACHINE not in _MACHINES or sys.maxsize < 2**32:
        raise Unavailable(f"no system call table for {_MACHINE!r}, only for 64-bit x86_64 and aarch64")
    return _MACHINES[_MACHINE]


def call(name: str, *arguments: int | bytes | None) -> int:
    """Make the system call and return its result; a refusal is an `OSError` that names the call."""
    number = machine()[0][name]
    assert _LIBC is not None, "machine() has refused every other operating system"
    # Variadic: an int without an explicit width would reach the kernel with undefined upper halves.
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result
