"""A ring of keys in a file: whole or not there, its owner's alone, and never losing a key to somebody quicker."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloister import InvalidInput
from cloister.app.keys import RingFile
from cloister.ports.keys import Key, Purpose

OLD = b"\xffkey of before" + bytes(18)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "snapshot.key"


def at(path: Path, purpose: Purpose = Purpose.SNAPSHOT) -> RingFile:
    return RingFile(path, purpose)


def ids(path: Path) -> list[str]:
    return [key.id.hex() for key in at(path).ring().keys]


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)


def test_file_is_readable_by_its_owner_alone_whatever_the_umask(path: Path) -> None:
    old = os.umask(0)
    try:
        at(path).make(1)
        at(path).rotate(2)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["snapshot.key"]


def test_key_that_is_there_is_not_made_again(path: Path) -> None:
    at(path).make(1)
    found = ids(path)
    at(path).make(2)
    assert ids(path) == found


def test_new_key_comes_before_those_that_are_there(path: Path) -> None:
    at(path).make(1000)
    (first,) = ids(path)
    made = at(path).rotate(2000)
    assert ids(path) == [made.id.hex(), first]
    assert [key.made_ms for key in at(path).filed()] == [2000, 1000]


def test_key_of_before_there_were_rings_is_a_ring_s_first(path: Path) -> None:
    write(path, OLD)
    assert [key.material for key in at(path).ring().keys] == [OLD]
    made = at(path).rotate(1)
    assert [key.material for key in at(path).ring().keys] == [made.material, OLD]
    assert at(path).filed()[1].made_ms is None


def test_key_that_was_retired_is_gone(path: Path) -> None:
    write(path, OLD)
    ring = at(path)
    made = ring.rotate(1)
    ring.retire(Key.of(Purpose.SNAPSHOT, OLD).id)
    assert [key.material for key in at(path).ring().keys] == [made.material]


def test_newest_key_cannot_be_retired(path: Path) -> None:
    write(path, OLD)
    with pytest.raises(InvalidInput, match="in use"):
        at(path).retire(Key.of(Purpose.SNAPSHOT, OLD).id)
    made = at(path).rotate(1)
    with pytest.raises(InvalidInput, match="in use"):
        at(path).retire(made.id)
    with pytest.raises(InvalidInput, match="there is no"):
        at(path).retire(b"unknown!")
    assert len(ids(path)) == 2


def test_file_that_another_has_changed_is_read_again(path: Path) -> None:
    mine = at(path)
    mine.make(1)
    before = mine.ring()
    made = at(path).rotate(2)
    assert mine.ring().keys == (made, *before.keys)


def test_those_who_rotate_at_once_lose_no_key(path: Path) -> None:
    at(path).make(1)
    made: list[bytes] = []
    go = threading.Barrier(4)

    def rotate() -> None:
        go.wait()
        made.extend(at(path).rotate(number).id for number in range(5))

    threads = [threading.Thread(target=rotate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    there = {key.id for key in at(path).ring().keys}
    assert (len(made), len(there)) == (20, 21)
    assert set(made) < there


def test_file_is_as_it_was_when_the_new_one_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(path).make(1)
    before = path.read_bytes()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match="No space left"):
        at(path).rotate(2)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["snapshot.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o610])
def test_file_that_others_can_read_or_write_is_refused_with_what_to_do(path: Path, mode: int) -> None:
    at(path).make(1)
    path.chmod(mode)
    for attempt in (at(path).ring, lambda: at(path).rotate(2)):
        with pytest.raises(InvalidInput, match=f"{mode:04o}") as refusal:
            attempt()
        assert "chmod 600" in (refusal.value.hint or "")
    path.chmod(0o600)
    assert len(ids(path)) == 1


def test_file_that_others_can_read_since_it_was_read_is_refused(path: Path) -> None:
    mine = at(path)
    mine.make(1)
    mine.ring()
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="0644"):
        mine.ring()


def _ring(**changes: Any) -> bytes:
    key = {"key": "A" * 43 + "=", "made_ms": 1}
    return json.dumps(
        {"format": "cloister-keys", "version": 1, "purpose": "snapshot", "keys": [key], **changes}
    ).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes"),
        (b"short", "5 bytes"),
        (bytes(33), "33 bytes"),
        (b"{" * 70_000, "more than"),
        (_ring()[:-1], "cut off"),
        (b"{}" + b" " * 31, "not a key ring"),
        (_ring(version=2), "version 2"),
        (_ring(purpose="secret"), "another purpose"),
        (_ring(keys=[]), "not a key ring"),
        (_ring(keys=[{"key": "A" * 43 + "="}]), "damaged"),
        (_ring(keys=[{"key": "A" * 44, "made_ms": None}]), "damaged"),
        (_ring(keys=[{"key": "?" * 44, "made_ms": None}]), "damaged"),
        (_ring(keys=[5]), "damaged"),
        (_ring(keys=[{"key": "A" * 43 + "=", "made_ms": 1}] * 2), "twice"),
    ],
)
def test_file_that_is_no_ring_is_refused_and_left_alone(path: Path, data: bytes, why: str) -> None:
    write(path, data)
    for attempt in (at(path).ring, lambda: at(path).rotate(2)):
        with pytest.raises(InvalidInput, match=why):
            attempt()
    at(path).make(3)
    assert path.read_bytes() == data


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_ring_with_any_byte_changed_gives_other_keys_or_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "ring"
    whole = _ring()
    place = data.draw(st.integers(0, len(whole) - 1))
    write(path, whole[:place] + data.draw(st.binary(max_size=2)) + whole[place + 1 :])
    try:
        keys = at(path).filed()
    except InvalidInput:
        return
    assert all(len(key.material) == 32 for key in keys)


def test_pipe_in_the_place_of_the_file_makes_nobody_wait(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path, 0o600)
    with pytest.raises(InvalidInput, match="no plain file"):
        at(path).ring()


def test_directory_in_the_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir(parents=True, mode=0o700)
    with pytest.raises(InvalidInput):
        at(path).ring()
