"""What a host that was killed has left in the temporary directory."""

import os
import tempfile
from pathlib import Path

import pytest

from cloister.engines.confinement import lifeline
from cloister.engines.monty.scratch import scratch

_LONG_AGO = 1_000_000_000


def _left(place: Path, name: str, *, held: bool = False, young: bool = False) -> int | None:
    directory = place / name
    directory.mkdir()
    (directory / "confined-monty").write_text("#!/bin/sh\n")
    handle: int | None = lifeline.hold(str(directory / "confined-monty.lifeline"))
    if not held:
        os.close(handle)
        handle = None
    if not young:
        os.utime(directory, (_LONG_AGO, _LONG_AGO))
    return handle


def test_next_host_removes_what_killed_ones_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = _left(tmp_path, "cloister-lives", held=True)
    assert held is not None
    _left(tmp_path, "cloister-gone")
    _left(tmp_path, "cloister-starts", young=True)
    _left(tmp_path, "other-gone")
    elsewhere = tmp_path / "elsewhere"
    _left(tmp_path, "elsewhere")
    (tmp_path / "cloister-link").symlink_to(elsewhere)
    for name, content in (
        ("cloister-file", None),
        ("cloister-empty", ""),
        ("cloister-plain", "confined-monty.lifeline"),
    ):
        if content is None:
            (tmp_path / name).write_text("mine")
            continue
        (tmp_path / name).mkdir()
        if content:
            (tmp_path / name / content).write_text("no fifo")
        os.utime(tmp_path / name, (_LONG_AGO, _LONG_AGO))
    before = {entry.name for entry in tmp_path.iterdir()}
    with scratch() as made:
        assert {entry.name for entry in tmp_path.iterdir()} == before - {"cloister-gone"} | {Path(made).name}
    os.close(held)
    with scratch():
        assert not (tmp_path / "cloister-lives").exists()
