import re
import sys
from pathlib import Path

import pytest

from cloister.engines.confinement import seccomp, syscalls
from cloister.engines.confinement.layers import Unavailable
from tests.engines.confinement.child import on_linux

HEADERS = {
    "x86_64": (syscalls.X86_64, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    # arm64 uses the generic numbers.
    "aarch64": (syscalls.AARCH64, "/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    table, header = HEADERS[machine]
    if not Path(header).exists():
        pytest.skip(f"{header} is not installed")
    text = Path(header).read_text()
    defined = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", text)}
    if machine == "aarch64":
        defined["newfstatat"] = defined["fstatat"]
    assert table == {name: defined.get(name) for name in table}


def test_calls_that_only_x86_has_are_the_old_ones_that_arm_never_got() -> None:
    assert set(syscalls.AARCH64) < set(syscalls.X86_64)
    only_x86 = set(syscalls.X86_64) - set(syscalls.AARCH64)
    assert only_x86 == {"open", "stat", "lstat", "poll", "select", "readlink", "time", "epoll_wait", "arch_prctl"}


def test_every_call_that_a_policy_names_has_a_number() -> None:
    named = {*seccomp.own_policy(1), *seccomp.foreign_policy(1, look_around=True)}
    assert named <= set(syscalls.X86_64)


@on_linux
def test_refused_call_is_an_error_that_names_it() -> None:
    with pytest.raises(OSError, match="prctl: Invalid argument"):
        syscalls.call("prctl", 0x7FFFFFF, 0, 0, 0, 0)


def test_another_operating_system_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Unavailable, match="darwin"):
        syscalls.machine()


def test_unknown_machine_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(syscalls, "_MACHINE", "riscv64")
    with pytest.raises(Unavailable, match="riscv64"):
        syscalls.machine()
