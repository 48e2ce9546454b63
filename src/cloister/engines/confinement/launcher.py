"""Writes the executable file that a foreign client library starts instead of its binary.

The file is a two-line shell script with everything resolved at writing time: the Python that runs `launch.py`, the
binary, and the files that its Landlock rules name. It takes the binary's arguments and has its pid, so that the
client library sees no difference. The directory must belong to this host alone: the lifeline lies next to it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from cloister.engines.confinement import lifeline
from cloister.engines.confinement.libraries import needs

DATA_BYTES = 1024**3
LAUNCH = Path(__file__).with_name("launch.py")

# Held for as long as the host lives: that they close when it dies is what ends its workers.
_lifelines: dict[Path, int] = {}


def write_launcher(
    directory: Path,
    binary: Path,
    *,
    data_bytes: int = DATA_BYTES,
    required: bool,
    cpu_seconds: int | None = None,
    readable: Sequence[Path] = (),
) -> Path:
    """Write a launcher for `binary` and return its path, which accepts the binary's own arguments.

    With `required`, a missing layer makes it exit with 126 and one line on stderr; without, it goes on with the
    layers that there are. `readable` names further files or directories; a binary that is given any may also list
    and stat. `cpu_seconds` bounds the processor time of one worker's whole life.
    """
    path = directory.resolve() / f"confined-{binary.name}"
    tie = path.with_suffix(".lifeline")
    words = launch_command(binary, data_bytes=data_bytes, cpu_seconds=cpu_seconds, readable=readable)
    words += [f"required={int(required)}"]
    if sys.platform == "linux":
        if path not in _lifelines:
            tie.unlink(missing_ok=True)
            _lifelines[path] = lifeline.hold(str(tie))
        words += [f"lifeline={tie}"]
    draft = path.with_suffix(".draft")
    draft.write_text(f'#!/bin/sh\nexec {shlex.join([*words, "--", str(binary.resolve())])} "$@"\n')
    draft.chmod(0o700)
    draft.replace(path)
    return path


def discard_launcher(path: Path) -> None:
    """Remove the launcher and end every worker that was started through it."""
    held = _lifelines.pop(path, None)
    if held is not None:
        os.close(held)
    path.with_suffix(".lifeline").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def launch_command(
    binary: Path, *, data_bytes: int, cpu_seconds: int | None = None, readable: Sequence[Path] = ()
) -> list[str]:
    """The command line of `launch.py` up to its `--`, with the rules for this binary worked out."""
    words = [sys.executable, "-I", "-S", str(LAUNCH), "kind=foreign", f"data={data_bytes}"]
    if cpu_seconds is not None:
        words.append(f"cpu={cpu_seconds}")
    if sys.platform == "linux":
        wanted = needs(binary.resolve())
        words += [f"execute={path}" for path in wanted.execute]
        words += [f"read={path}" for path in (*wanted.read, *readable)]
    if readable:
        words.append("look=1")
    return words
