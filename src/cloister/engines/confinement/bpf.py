"""A seccomp filter as a list of instructions: a linear allow-list, system call by system call.

Each entry is one block that either falls through to the next (another call), or returns a verdict. A block never
jumps out of itself, so it can be read and tested alone. Arguments are 64 bits wide while the filter machine
compares 32: a check says whether the kernel looks at the low half only (int arguments) or at both (pointers).
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant
    Check = Sequence[Instruction]

ALLOW = 0x7FFF0000
_ERRNO = 0x00050000

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_NUMBER = 0  # offsets in struct seccomp_data
_ARCHITECTURE = 4
_ARGUMENTS = 16

_REFUSED = -1  # a jump to the end of the block, measured once its length is known


def refuse(errno: int) -> int:
    """The verdict that makes the call fail with this error number."""
    return _ERRNO | errno


def one_of(argument: int, values: Iterable[int], *, ignoring: int = 0) -> Check:
    """The low half of an argument, without the ignored bits, is one of the values."""
    wanted = list(values)
    check: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)]
    if ignoring:
        check.append((_AND, 0, 0, ~ignoring & 0xFFFFFFFF))
    for left, value in zip(range(len(wanted) - 1, -1, -1), wanted, strict=True):
        check.append((_EQUAL, left, 0 if left else _REFUSED, value))
    return check


def null(argument: int) -> Check:
    """Both halves of an argument are zero: no pointer was passed."""
    low = _ARGUMENTS + 8 * argument
    return [(_LOAD, 0, 0, low), (_EQUAL, 0, _REFUSED, 0), (_LOAD, 0, 0, low + 4), (_EQUAL, 0, _REFUSED, 0)]


def assemble(
    architecture: int,
    allowed: Mapping[int, Sequence[Check]],
    answers: Mapping[int, int],
    otherwise: int,
) -> bytes:
    """The program for `struct sock_filter[]`: numbers allowed under checks, numbers with a verdict of their own.

    Calls of another architecture (int 0x80) and of x32, whose numbers carry a high bit, match no entry.
    """
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, otherwise),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for number, checks in allowed.items():
        program += _block(number, checks, otherwise)
    for number, verdict in answers.items():
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, verdict)]
    program.append((_RETURN, 0, 0, otherwise))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def _block(number: int, checks: Sequence[Check], otherwise: int) -> list[Instruction]:
    body = [instruction for check in checks for instruction in check]
    length = len(body)
    resolved = [
        (code, true, length - position if false == _REFUSED else false, constant)
        for position, (code, true, false, constant) in enumerate(body)
    ]
    verdicts = [(_RETURN, 0, 0, ALLOW), (_RETURN, 0, 0, otherwise)] if checks else [(_RETURN, 0, 0, ALLOW)]
    return [(_EQUAL, 0, length + len(verdicts), number), *resolved, *verdicts]
