"""What confinement really comes to on this machine, found out by confining one short-lived child of each kind.

The child puts the layers on exactly as a worker does, reports, and ends. Nothing is inferred from kernel versions:
containers and security modules take layers away that the kernel has. The answer is kept for the life of the process.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

from cloister.engines.confinement.launcher import DATA_BYTES, LAUNCH, launch_command
from cloister.engines.confinement.layers import LAYERS, unavailable
from cloister.engines.confinement.report import Report


def probe(*, foreign: Path | None) -> dict[str, Report]:
    """Reports by kind: `"own"`, and `"foreign"` when a binary is given. Blocks for some tens of milliseconds."""
    reports = {"own": _own()}
    if foreign is not None:
        reports["foreign"] = _foreign(foreign.resolve())
    return reports


@cache
def _own() -> Report:
    return _ask([sys.executable, "-I", "-S", str(LAUNCH), "kind=own", f"data={DATA_BYTES}"])


@cache
def _foreign(binary: Path) -> Report:
    try:
        return _ask(launch_command(binary, data_bytes=DATA_BYTES))
    except (OSError, ValueError) as error:
        return _nothing(str(error))


def _ask(command: list[str]) -> Report:
    try:
        child = subprocess.run(
            [*command, "report=1", "--"], env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _nothing(str(error))
    said = dict(line.split("=", 1) for line in child.stdout.splitlines() if "=" in line)
    if child.returncode != 0 or not said:
        last = child.stderr.strip().rpartition("\n")[2]
        return _nothing(f"the probe ended with {child.returncode}: {last}")
    return Report({name: said.get(name, unavailable("not reported")) for name in LAYERS})


def _nothing(why: str) -> Report:
    return Report(dict.fromkeys(LAYERS, unavailable(why)))
