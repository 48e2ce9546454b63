import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloister.engines.confinement import libraries
from tests.engines.confinement.child import on_linux

pytestmark = on_linux

PYTHON = Path(sys.executable).resolve()


def test_loader_is_read_from_the_binary() -> None:
    loader = libraries.interpreter(PYTHON)
    assert loader is not None
    assert os.access(loader, os.X_OK)


def test_every_library_that_a_running_program_maps_was_found() -> None:
    wanted = libraries.needs(PYTHON)
    mapped = subprocess.run(
        [PYTHON, "-I", "-S", "-c", "print(open('/proc/self/maps').read())"], capture_output=True, text=True, check=True
    ).stdout
    files = {Path(line.split()[5]) for line in mapped.splitlines() if ".so" in line and "lib-dynload" not in line}
    assert files
    assert files <= {path.resolve() for path in (*wanted.execute, *wanted.read)}


def test_binary_and_loader_are_all_that_may_be_executed() -> None:
    loader = libraries.interpreter(PYTHON)
    assert loader is not None
    assert libraries.needs(PYTHON).execute == (PYTHON, loader)


def test_script_is_refused_with_a_hint(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(ValueError, match="give the binary itself"):
        libraries.interpreter(script)


def test_program_without_a_loader_needs_nothing_else(tmp_path: Path) -> None:
    static = tmp_path / "static"
    static.write_bytes(b"\x7fELF\x02\x01" + bytes(58))
    assert libraries.needs(static) == libraries.Needs((static,), ())


def test_loader_that_gives_no_answer_opens_the_standard_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(file: Path, loader: Path) -> list[Path]:
        return []

    monkeypatch.setattr(libraries, "linked", silent)
    assert Path("/usr/lib") in libraries.needs(PYTHON).read
