"""The filter is run here by a small machine of our own, so that the arm64 program is tested on any machine."""

import errno
import struct

import pytest

from cloister.engines.confinement import bpf, seccomp, syscalls

X86 = (syscalls.X86_64, 0xC000003E)
ARM = (syscalls.AARCH64, 0xC00000B7)
MACHINES = pytest.mark.parametrize("machine", [X86, ARM], ids=["x86_64", "aarch64"])
EPERM, ENOSYS = bpf.refuse(errno.EPERM), bpf.refuse(errno.ENOSYS)
PID = 4711

Machine = tuple[dict[str, int], int]


def verdict(program: bytes, number: int, architecture: int, arguments: tuple[int, ...] = ()) -> int:
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * (6 - len(arguments))))
    accumulator = at = 0
    while True:
        code, true, false, constant = struct.unpack_from("HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, constant)
            case 0x54:
                accumulator &= constant
            case 0x15:
                at += true if accumulator == constant else false
            case 0x06:
                return constant
            case _:
                raise AssertionError(f"the filter holds an instruction {code:#x} that this machine does not know")


def own(machine: Machine, name: str, *arguments: int) -> int:
    program = seccomp.compiled(seccomp.own_policy(PID), *machine)
    return verdict(program, machine[0][name], machine[1], arguments)


def foreign(machine: Machine, name: str, *arguments: int, look_around: bool = False) -> int:
    program = seccomp.compiled(seccomp.foreign_policy(PID, look_around=look_around), *machine)
    return verdict(program, machine[0][name], machine[1], arguments)


@MACHINES
@pytest.mark.parametrize(
    "name", ["read", "write", "mmap", "mprotect", "futex", "rt_sigreturn", "getrandom", "exit_group"]
)
def test_computing_and_talking_over_open_descriptors_is_allowed(machine: Machine, name: str) -> None:
    assert own(machine, name, 1, 2, 3) == bpf.ALLOW


@MACHINES
@pytest.mark.parametrize("name", ["openat", "execve", "clone", "socket", "unshare", "seccomp", "pread64"])
def test_own_worker_opens_and_starts_nothing(machine: Machine, name: str) -> None:
    assert own(machine, name) == EPERM


@MACHINES
def test_number_that_no_policy_names_is_refused(machine: Machine) -> None:
    program = seccomp.compiled(seccomp.own_policy(PID), *machine)
    allowed = {machine[0][name] for name in machine[0] if name in seccomp.own_policy(PID)}
    for number in set(range(600)) - allowed:
        assert verdict(program, number, machine[1]) in {EPERM, ENOSYS}


def test_call_of_another_architecture_is_refused() -> None:
    program = seccomp.compiled(seccomp.own_policy(PID), *X86)
    i386 = 0x40000003
    assert verdict(program, syscalls.X86_64["read"], i386) == EPERM


def test_x32_call_is_refused() -> None:
    program = seccomp.compiled(seccomp.own_policy(PID), *X86)
    assert verdict(program, 0x40000000 | syscalls.X86_64["read"], X86[1]) == EPERM


@MACHINES
@pytest.mark.parametrize("name", ["clone3", "memfd_create", "statx"])
def test_call_with_a_fallback_looks_too_new_for_the_kernel(machine: Machine, name: str) -> None:
    assert own(machine, name) == ENOSYS
    assert foreign(machine, name) == ENOSYS


@MACHINES
def test_foreign_worker_may_start_a_thread_but_no_process(machine: Machine) -> None:
    thread, detached, fork, thread_in_new_network = 0x3D0F00, 0x7D0F00, 17, 0x3D0F00 | 0x40000000
    assert foreign(machine, "clone", thread) == bpf.ALLOW
    assert foreign(machine, "clone", detached) == bpf.ALLOW
    assert foreign(machine, "clone", fork) == EPERM
    assert foreign(machine, "clone", thread_in_new_network) == EPERM


@MACHINES
def test_signal_reaches_the_worker_itself_and_nobody_else(machine: Machine) -> None:
    assert own(machine, "tgkill", PID, PID, 6) == bpf.ALLOW
    assert own(machine, "tgkill", 1, 1, 6) == EPERM


@MACHINES
def test_limits_can_be_read_and_never_set(machine: Machine) -> None:
    somewhere = 0x7FFF_0000_0000
    assert own(machine, "prlimit64", 0, 7, 0, somewhere) == bpf.ALLOW
    assert own(machine, "prlimit64", 0, 7, somewhere, 0) == EPERM
    assert own(machine, "prlimit64", 0, 7, 0xFFFF, 0) == EPERM
    assert own(machine, "prlimit64", 1, 7, 0, somewhere) == EPERM


@MACHINES
def test_message_to_an_address_is_refused_while_one_to_the_peer_passes(machine: Machine) -> None:
    assert own(machine, "sendto", 1, 2, 3, 0, 0, 0) == bpf.ALLOW
    assert own(machine, "sendto", 1, 2, 3, 0, 1 << 40, 16) == EPERM


@MACHINES
def test_descriptor_flags_can_change_but_not_who_is_signalled(machine: Machine) -> None:
    get_flags, set_flags, set_owner = 3, 4, 8
    assert own(machine, "fcntl", 0, get_flags) == bpf.ALLOW
    assert own(machine, "fcntl", 0, set_flags) == bpf.ALLOW
    assert own(machine, "fcntl", 0, set_owner, 1) == EPERM


@MACHINES
def test_foreign_worker_opens_files_only_to_read_them(machine: Machine) -> None:
    read_only, cloexec, write_only, read_write, create, truncate, path = 0, 0o2000000, 1, 2, 0o100, 0o1000, 0o10000000
    assert foreign(machine, "openat", 3, 0, read_only) == bpf.ALLOW
    assert foreign(machine, "openat", 3, 0, cloexec) == bpf.ALLOW
    for flag in (write_only, read_write, create, truncate, path):
        assert foreign(machine, "openat", 3, 0, cloexec | flag) == EPERM


@MACHINES
def test_stat_by_path_needs_directories_to_look_around_in(machine: Machine) -> None:
    at_empty_path = 0x1000
    assert foreign(machine, "newfstatat", 3, 0, 0, at_empty_path) == bpf.ALLOW
    assert foreign(machine, "newfstatat", 3, 0, 0, 0) == EPERM
    assert foreign(machine, "newfstatat", 3, 0, 0, 0, look_around=True) == bpf.ALLOW


def test_check_with_many_values_accepts_each_and_nothing_else() -> None:
    program = bpf.assemble(1, {5: [bpf.one_of(2, [10, 20, 30]), bpf.null(0)]}, {}, EPERM)
    assert [value for value in range(40) if verdict(program, 5, 1, (0, 0, value)) == bpf.ALLOW] == [10, 20, 30]
    assert verdict(program, 5, 1, (1 << 33, 0, 20)) == EPERM
