"""The key of the snapshots: made once, kept for its owner alone, the same for all who start at once."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cloister import Cloister, InvalidInput
from cloister.app.keys import KEY_BYTES, SnapshotKey, data_directory


def test_key_is_made_on_first_use_and_found_again(data_directory: Path) -> None:
    first = SnapshotKey()()
    assert len(first) == KEY_BYTES
    assert SnapshotKey()() == first


def test_key_is_readable_by_its_owner_alone(data_directory: Path) -> None:
    SnapshotKey()()
    files = list(data_directory.iterdir())
    assert [file.name for file in files] == ["snapshot.key"]
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(data_directory.stat().st_mode) == 0o700


def test_two_installations_have_two_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []
    for name in ("one", "two"):
        monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path / name))
        keys.append(SnapshotKey()())
    assert keys[0] != keys[1]


def test_given_key_touches_no_file(data_directory: Path) -> None:
    assert SnapshotKey(b"k" * 16)() == b"k" * 16
    assert not data_directory.exists()


@pytest.mark.anyio
async def test_program_without_snapshots_touches_no_file(data_directory: Path) -> None:
    async with Cloister(workers=1) as cloister:
        await (await cloister.open_session()).run("1")
    assert not data_directory.exists()


def test_short_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="16 bytes"):
        SnapshotKey(b"k" * 15)


def test_file_that_is_no_key_is_refused_and_left_alone(data_directory: Path) -> None:
    data_directory.mkdir()
    (data_directory / "snapshot.key").write_bytes(b"short")
    with pytest.raises(InvalidInput, match="not a snapshot key"):
        SnapshotKey()()
    assert (data_directory / "snapshot.key").read_bytes() == b"short"


def test_directory_that_cannot_be_made_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path / "file" / "data"))
    with pytest.raises(InvalidInput) as refusal:
        SnapshotKey()()
    assert "CLOISTER_DATA_DIR" in (refusal.value.hint or "")


def test_processes_that_start_at_once_share_one_key(data_directory: Path) -> None:
    # Each waits for the pipe to close, so that all of them look for the key in the same moment.
    code = "import sys; from cloister.app.keys import SnapshotKey; sys.stdin.read(); print(SnapshotKey()().hex())"
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    keys: set[str] = set()
    for process in started:
        assert process.stdout is not None
        keys.add(process.stdout.read().strip())
        process.stdout.close()
        assert process.wait() == 0
    assert len(keys) == 1
    assert [file.name for file in data_directory.iterdir()] == ["snapshot.key"]


def test_data_directory_is_the_user_s_when_none_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOISTER_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_directory() == Path("/data/cloister")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert data_directory() == Path("/home/somebody/.local/share/cloister")


def test_key_does_not_depend_on_the_umask(data_directory: Path) -> None:
    old = os.umask(0)
    try:
        SnapshotKey()()
    finally:
        os.umask(old)
    assert stat.S_IMODE((data_directory / "snapshot.key").stat().st_mode) == 0o600
