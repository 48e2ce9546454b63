"""Runs a Python program in a process of its own: what confinement does to a process cannot be undone in this one."""

import subprocess
import sys
from pathlib import Path

import pytest

import cloister.engines.confinement
from cloister.engines.confinement import landlock
from cloister.engines.confinement.layers import Unavailable

# Stand-ins for the packages above ours: a worker loads its confinement without the rest of cloister, and so do we.
PRELUDE = f"""import sys
for name in ("cloister", "cloister.engines"):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [{str(Path(cloister.engines.confinement.__file__).parents[1])!r}]
"""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the layer exists on Linux only")


def machine_offers_every_layer() -> bool:
    """Asked without putting any on: the kernel for its Landlock version, util-linux for the namespaces."""
    try:
        landlock.abi()
        entered = subprocess.run(["unshare", "--user", "--net", "--ipc", "--uts", "true"], capture_output=True)
    except (OSError, Unavailable):
        return False
    return Path("/proc/sys/kernel/seccomp").exists() and entered.returncode == 0


def command(program: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + program]


def run(program: str) -> str:
    """The program's standard output; a program that fails, fails the test with its traceback."""
    child = subprocess.run(command(program), capture_output=True, text=True, timeout=60)
    assert child.returncode == 0, f"the child ended with {child.returncode}:\n{child.stderr}"
    return child.stdout.strip()
