"""The keys of one purpose: made once, the same for all who start at once, and from whatever place is meant."""

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, InvalidInput
from cloister.app.keys import KEY_BYTES, Keys, data_directory
from cloister.ports.keys import Purpose

A, B = bytes(range(32)), bytes(range(1, 33))


def snapshot_keys(given: object = None) -> list[bytes]:
    return materials(Keys(Purpose.SNAPSHOT, given))


def materials(keys: Keys, *, make: bool = False) -> list[bytes]:
    return [key.material for key in keys.ring_now(make=make).keys]


# -- in a file -------------------------------------------------------------------------------------------------------


def test_key_is_made_on_first_use_and_found_again() -> None:
    (first,) = materials(Keys(Purpose.SNAPSHOT), make=True)
    assert len(first) == KEY_BYTES
    assert materials(Keys(Purpose.SNAPSHOT), make=True) == [first]


def test_who_only_looks_makes_no_key(data_directory: Path) -> None:
    assert snapshot_keys() == []
    assert not data_directory.exists()


def test_snapshots_and_secrets_never_share_a_key(data_directory: Path) -> None:
    found = [materials(Keys(purpose), make=True) for purpose in Purpose]
    assert found[0] != found[1]
    assert sorted(file.name for file in data_directory.iterdir()) == ["secret.key", "snapshot.key"]


def test_two_installations_have_two_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[bytes]] = []
    for name in ("one", "two"):
        monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path / name))
        found.append(materials(Keys(Purpose.SECRET), make=True))
    assert found[0] != found[1]


@pytest.mark.anyio
async def test_program_without_snapshots_touches_no_file(data_directory: Path) -> None:
    async with Cloister(workers=1) as cloister:
        await (await cloister.open_session()).run("1")
    assert not data_directory.exists()


def test_directory_that_cannot_be_made_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path / "file" / "data"))
    with pytest.raises(InvalidInput) as refusal:
        Keys(Purpose.SECRET).ring_now(make=True)
    assert "CLOISTER_DATA_DIR" in (refusal.value.hint or "")
    assert "CLOISTER_SECRET_KEY" in (refusal.value.hint or "")


def test_processes_that_start_at_once_share_one_key(data_directory: Path) -> None:
    # Each waits for the pipe to close, so that all of them look for the key in the same moment.
    code = (
        "import sys; from cloister.app.keys import Keys; from cloister.ports.keys import Purpose; sys.stdin.read(); "
        "print(Keys(Purpose.SNAPSHOT).ring_now(make=True).newest.material.hex())"
    )
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


# -- given in code ---------------------------------------------------------------------------------------------------


def test_given_key_touches_no_file(data_directory: Path) -> None:
    assert snapshot_keys(b"k" * 16) == [b"k" * 16]
    assert not data_directory.exists()


def test_of_several_given_keys_the_first_is_the_newest() -> None:
    ring = Keys(Purpose.SECRET, [A, B]).ring_now()
    assert (ring.newest.material, len(ring.keys)) == (A, 2)


@pytest.mark.parametrize(
    ("purpose", "given"),
    [
        (Purpose.SNAPSHOT, b"k" * 15),
        (Purpose.SECRET, b"k" * 31),
        (Purpose.SECRET, b"k" * 33),
        (Purpose.SECRET, "k" * 32),
        (Purpose.SECRET, []),
        (Purpose.SECRET, [A, None]),
        (Purpose.SECRET, [A, A]),
    ],
)
def test_given_key_that_is_none_is_refused(purpose: Purpose, given: Any) -> None:
    with pytest.raises(InvalidInput, match=f"{purpose}[_ ]key"):
        Keys(purpose, given)


def test_key_is_in_no_repr() -> None:
    ring = Keys(Purpose.SECRET, A).ring_now()
    assert repr(A)[2:-1] not in repr(ring)
    assert str(ring) == ring.newest.id.hex()


def test_one_text_is_another_key_s_for_each_purpose() -> None:
    assert len({Keys(purpose, A).ring_now().newest.id for purpose in Purpose}) == 2


# -- from the environment --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        A.hex(),
        A.hex().upper(),
        base64.b64encode(A).decode(),
        base64.urlsafe_b64encode(A).decode().rstrip("="),
        f" {A.hex()}\n",
    ],
)
def test_key_from_the_environment_may_be_hex_or_base64(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_SNAPSHOT_KEY", text)
    keys = Keys(Purpose.SNAPSHOT)
    assert (materials(keys), keys.origin) == ([A], "environment")
    assert Keys(Purpose.SECRET).origin == "file"


def test_environment_may_have_several_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_SECRET_KEY", f"{A.hex()}, {base64.b64encode(B).decode()}")
    assert materials(Keys(Purpose.SECRET)) == [A, B]


@pytest.mark.parametrize(
    "text",
    [
        "correct-horse-battery",
        "ab" * 31,
        "ab" * 33,
        "::::",
        ",",
        "é" * 44,
        f"{A.hex()},{A.hex()}",
        f"{A.hex()},hunter2",
    ],
)
def test_what_is_no_key_is_refused_without_being_repeated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_SECRET_KEY", text)
    with pytest.raises(InvalidInput, match="CLOISTER_SECRET_KEY") as refusal:
        Keys(Purpose.SECRET).ring_now()
    said = f"{refusal.value} {refusal.value.hint}"
    assert not [part for part in text.split(",") if len(part) > 3 and part in said]


def test_key_and_command_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_SECRET_KEY", A.hex())
    monkeypatch.setenv("CLOISTER_SECRET_KEY_COMMAND", "print-key")
    with pytest.raises(InvalidInput, match="both"):
        Keys(Purpose.SECRET).ring_now()


def test_what_is_given_in_code_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_SECRET_KEY", A.hex())
    assert materials(Keys(Purpose.SECRET, B)) == [B]


# -- from a command --------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_command_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    script = tmp_path / "give key"
    script.write_text(f"#!/bin/sh\necho x >> {asked}\necho {A.hex()}\necho {B.hex()}\n")
    script.chmod(0o700)
    monkeypatch.setenv("CLOISTER_SECRET_KEY_COMMAND", f"'{script}' --one")
    keys = Keys(Purpose.SECRET)
    for _ in range(2):
        assert [key.material for key in (await keys.ring()).keys] == [A, B]
    assert materials(keys) == [A, B]
    assert (asked.read_text(), keys.origin) == ("x\n", "command")
