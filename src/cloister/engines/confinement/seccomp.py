"""The system calls that a worker may make; each other one fails with EPERM, so that libraries can fall back.

An own worker may compute and talk over the descriptors that it has. A foreign one may in addition be executed, load
its libraries and start threads. Where Landlock guards a call by path (`openat`, `execve`), it stays allowed here:
a filter sees pointers, not the paths behind them. A foreign worker can therefore execute, but only the files that
its Landlock rules name, which is itself, under this same filter.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from cloister.engines.confinement import bpf, syscalls
from cloister.engines.confinement.layers import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloister.engines.confinement.bpf import Check

_SET_MODE_FILTER = 1
_FLAG_TSYNC = 1
_INSTRUCTION = 8  # bytes
_AT_EMPTY_PATH = 0x1000
_FIONBIO = 0x5421
_O_RDONLY = 0
# CLOEXEC, NONBLOCK, NOCTTY, and the four bits for DIRECT, LARGEFILE, DIRECTORY, NOFOLLOW, which arm64 orders otherwise.
_HARMLESS_OPEN_FLAGS = 0o2000000 | 0o4000 | 0o400 | 0o740000
_ARCH_SET_FS = 0x1002
_PR_SET_NAME = 15
_PR_SET_VMA = 0x53564D41
_FCNTL_FLAGS = (1, 2, 3, 4)  # F_GETFD, F_SETFD, F_GETFL, F_SETFL; F_SETOWN would aim signals at other processes
_CLONE_THREAD_FLAGS = 0x3D0F00  # what pthread_create passes: shares everything, new namespaces nothing
_CLONE_DETACHED = 0x400000  # musl adds it, the kernel ignores it

_COMPUTE = (
    "read", "write", "readv", "writev", "recvfrom", "shutdown", "close", "lseek", "fstat",
    "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_ctl",
    "mmap", "mprotect", "munmap", "mremap", "madvise", "brk", "membarrier",
    "futex", "set_robust_list", "rseq", "sched_yield", "sched_getaffinity", "getcpu",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall",
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "getrandom", "getrusage", "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid",
    "exit", "exit_group",
)  # fmt: skip
_LOAD_LIBRARIES = ("execve", "pread64", "set_tid_address")
_LOOK_AROUND = ("stat", "lstat", "newfstatat", "statx", "readlink", "readlinkat", "getdents64", "getcwd")


def own_policy(pid: int) -> dict[str, Sequence[Check]]:
    """What a sealed worker may call, with the checks on its arguments. It opens nothing and starts nothing."""
    policy: dict[str, Sequence[Check]] = dict.fromkeys(_COMPUTE, ())
    return policy | {
        "newfstatat": [bpf.one_of(3, [_AT_EMPTY_PATH])],
        "sendto": [bpf.null(4)],  # without an address: only to the peer that the host connected
        "fcntl": [bpf.one_of(1, _FCNTL_FLAGS)],
        "ioctl": [bpf.one_of(1, [_FIONBIO])],  # how Python makes a descriptor (non-)blocking
        "prctl": [bpf.one_of(0, [_PR_SET_NAME, _PR_SET_VMA])],
        "prlimit64": [bpf.one_of(0, [0]), bpf.null(2)],  # its own limits, to read
        "tgkill": [bpf.one_of(0, [pid])],  # abort() signals its own thread
    }


def foreign_policy(pid: int, *, look_around: bool) -> dict[str, Sequence[Check]]:
    """The same for a binary that is about to be executed. `look_around`: it was given directories to read."""
    policy = own_policy(pid) | dict.fromkeys(_LOAD_LIBRARIES, ())
    # Landlock does not see O_PATH, which would do to ask for any file's owner and size.
    policy["openat"] = [bpf.one_of(2, [_O_RDONLY], ignoring=_HARMLESS_OPEN_FLAGS)]
    policy["open"] = [bpf.one_of(1, [_O_RDONLY], ignoring=_HARMLESS_OPEN_FLAGS)]
    policy["clone"] = [bpf.one_of(0, [_CLONE_THREAD_FLAGS], ignoring=_CLONE_DETACHED)]
    policy["arch_prctl"] = [bpf.one_of(0, [_ARCH_SET_FS])]
    if look_around:
        policy |= dict.fromkeys(_LOOK_AROUND, ())
    return policy


def install(policy: Mapping[str, Sequence[Check]]) -> None:
    """Bind every thread of the process to the policy, for good."""
    load(compiled(policy, *syscalls.machine()))
    _check()


def compiled(policy: Mapping[str, Sequence[Check]], numbers: Mapping[str, int], architecture: int) -> bytes:
    """The policy as a program for one machine. A call that the machine lacks (open on arm64) needs no entry."""
    allowed = {numbers[name]: checks for name, checks in policy.items() if name in numbers}
    # Callers of these have a fallback, which they take only when the kernel seems too old for the call: glibc
    # turns to clone, whose flags a filter can see; wasmtime copies memory images; Rust turns to fstat.
    too_new = [numbers[name] for name in ("clone3", "memfd_create", "statx") if name not in policy]
    answers = dict.fromkeys(too_new, bpf.refuse(errno.ENOSYS))
    return bpf.assemble(architecture, allowed, answers, bpf.refuse(errno.EPERM))


def load(program: bytes) -> None:
    """Hand a program to the kernel, on behalf of all threads."""
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // _INSTRUCTION, ctypes.addressof(instructions))  # sock_fprog
    try:
        stray = syscalls.call("seccomp", _SET_MODE_FILTER, _FLAG_TSYNC, header)
    except OSError as error:
        raise Unavailable(f"{error.strerror} (a kernel with CONFIG_SECCOMP_FILTER is needed)") from error
    if stray:
        raise Unavailable(f"thread {stray} has a filter of its own")


def _check() -> None:
    """No policy allows a socket, so that asking for one tells whether the filter took effect."""
    try:
        handle = syscalls.call("socket", 1, 1, 0)
    except PermissionError:
        return
    os.close(handle)
    raise Unavailable("the kernel accepted the filter and does not enforce it")
