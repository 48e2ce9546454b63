"""Landlock: from here on a file can be opened only if a rule names it, and no TCP port can be bound or reached.

All access rights that this kernel's ABI knows are handled, so that what has no rule is refused. Rules name single
files, or directories whose contents may be read. What Landlock does not guard (stat, chmod, UDP, unix sockets by
path) is left to seccomp.
"""

from __future__ import annotations

import os
import struct

from cloister.engines.confinement import syscalls
from cloister.engines.confinement.layers import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_EXECUTE = 1 << 0
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_TCP = 0b11
_SCOPES = 0b11


def abi() -> int:
    """The ABI version of the running kernel; `Unavailable` when it has no Landlock or it was not enabled at boot."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError as error:
        raise Unavailable(f"{error.strerror} (Linux 5.13 with lsm=landlock is needed)") from error


def rights(version: int) -> tuple[int, int, int]:
    """All file rights, network rights and scopes that an ABI version can handle."""
    # 13 rights in ABI 1; then REFER in 2, TRUNCATE in 3, IOCTL_DEV in 5. Later versions are taken as the last known.
    files = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    return files, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0


def restrict(*, execute: Sequence[str] = (), read: Sequence[str] = ()) -> None:
    """Refuse every file but these. Only the calling thread and what it starts is bound: call it with one thread."""
    files, network, scopes = rights(abi())
    ruleset = syscalls.call("landlock_create_ruleset", struct.pack("QQQ", files, network, scopes), 24, 0)
    try:
        for path in execute:
            _allow(ruleset, path, _EXECUTE | _READ_FILE)
        for path in read:
            _allow(ruleset, path, _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE)
        syscalls.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    _check()


def _allow(ruleset: int, path: str, access: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        syscalls.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", access, handle), 0)
    finally:
        os.close(handle)


def _check() -> None:
    """No caller gives the root directory away, so that listing it tells whether the rules took effect."""
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except PermissionError:
        return
    raise Unavailable("the kernel accepted the rules and does not enforce them")
