import asyncio
import base64
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, tool
from cloister.app.keys import RingFile
from cloister.ports.keys import Key, Purpose
from tests.cli.shell import Shell

A, B = os.urandom(32), os.urandom(32)
VALUE = "hunter2-hunter2"


def key_id(purpose: Purpose, material: bytes) -> str:
    return Key.of(purpose, material).id.hex()


def listed(shell: Shell, **environment: str) -> list[dict[str, Any]]:
    done = shell("keys", "list", "--json", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["keys"]


def filed(shell: Shell, purpose: str) -> list[str]:
    """The ids in the file, the newest first."""
    return [key.id.hex() for key in RingFile(shell.data / f"{purpose}.key", Purpose(purpose)).ring().keys]


def made(shell: Shell, purpose: str, count: int = 1) -> list[str]:
    for number in range(count):
        ring = RingFile(shell.data / f"{purpose}.key", Purpose(purpose))
        ring.rotate(number) if ring.ring().keys else ring.make(number)
    return filed(shell, purpose)


def keep_secret(shell: Shell, session_id: str = "s", store: str | None = None) -> None:
    """As a host in that data directory would."""

    @tool
    def send(token: str) -> None: ...

    async def fill() -> None:
        ring = RingFile(shell.data / "secret.key", Purpose.SECRET)
        ring.make(0)
        keys = [key.material for key in ring.ring().keys]
        url = store or f"sqlite://{shell.data}/cloister.db"
        async with Cloister(store=url, secret_key=keys, tools=[send], workers=1) as cloister:
            await (await cloister.open_session(session_id)).secrets.set("TOKEN", VALUE, allow=["send"])

    asyncio.run(fill())


@pytest.fixture
def store(shell: Shell) -> Path:
    keep_secret(shell)
    return shell.data / "cloister.db"


# -- list -----------------------------------------------------------------------------------------------------------


def test_list_says_that_there_are_none_yet_and_makes_none(shell: Shell) -> None:
    done = shell("keys", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("none yet") == 2
    assert str(shell.data / "secret.key") in done.stdout
    assert not shell.data.exists()
    assert listed(shell) == []


def test_list_shows_ids_and_no_keys(shell: Shell) -> None:
    made(shell, "snapshot", 2)
    made(shell, "secret")
    done = shell("keys", "list")
    found = listed(shell)
    assert [(key["purpose"], key["state"]) for key in found] == [
        ("snapshot", "in use"),
        ("snapshot", "accepted"),
        ("secret", "in use"),
    ]
    assert re.findall(r"^  ([0-9a-f]{16})  ", done.stdout, re.MULTILINE) == [key["id"] for key in found]
    for name in ("snapshot", "secret"):
        for filed in RingFile(shell.data / f"{name}.key", Purpose(name)).filed():
            for form in (filed.material.hex(), base64.b64encode(filed.material).decode()):
                assert form not in done.stdout + json.dumps(found)


def test_list_shows_keys_of_the_environment_and_of_a_command(shell: Shell) -> None:
    script = shell.here / "give"
    script.write_text(f"#!/bin/sh\necho {B.hex()}\n")
    script.chmod(0o700)
    found = listed(shell, CLOISTER_SNAPSHOT_KEY=f"{A.hex()},{B.hex()}", CLOISTER_SECRET_KEY_COMMAND=str(script))
    assert [(key["id"], key["state"], key["origin"]) for key in found] == [
        (key_id(Purpose.SNAPSHOT, A), "in use", "environment"),
        (key_id(Purpose.SNAPSHOT, B), "accepted", "environment"),
        (key_id(Purpose.SECRET, B), "in use", "command"),
    ]


def test_file_that_others_can_read_is_refused_with_what_to_do(shell: Shell) -> None:
    made(shell, "secret")
    (shell.data / "secret.key").chmod(0o644)
    done = shell("keys", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"chmod 600 {shell.data}/secret.key" in done.stderr


# -- rotate ---------------------------------------------------------------------------------------------------------


def test_rotate_makes_new_keys_and_accepts_the_old(shell: Shell) -> None:
    shell.data.mkdir(mode=0o700)
    # As it was before there were rings.
    (shell.data / "snapshot.key").write_bytes(A)
    (shell.data / "snapshot.key").chmod(0o600)
    done = shell("keys", "rotate")
    assert (done.returncode, done.stderr) == (0, "")
    (new, old), (secret,) = filed(shell, "snapshot"), filed(shell, "secret")
    assert old == key_id(Purpose.SNAPSHOT, A)
    assert f"the snapshot key is {new} now" in done.stdout
    assert f"the secret key is {secret} now" in done.stdout
    for name in ("snapshot.key", "secret.key"):
        assert stat.S_IMODE((shell.data / name).stat().st_mode) == 0o600


@pytest.mark.slow
def test_snapshot_outlives_the_rotation_and_not_the_retirement_of_its_key(shell: Shell) -> None:
    shell("repl", stdin="n = 41\n:snapshot kept\n")
    (old,) = filed(shell, "snapshot")
    assert shell("keys", "rotate", "snapshot").returncode == 0
    snapshot = (shell.here / "kept").read_bytes()

    def is_accepted() -> bool:
        ring = RingFile(shell.data / "snapshot.key", Purpose.SNAPSHOT).ring()
        return Cloister(snapshot_key=[key.material for key in ring.keys]).can_restore(snapshot)

    assert is_accepted()
    done = shell("keys", "retire", old[:8])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"the snapshot key {old} is gone")
    assert not is_accepted()


def test_rotate_seals_the_secrets_in_the_store_anew(shell: Shell, store: Path) -> None:
    (old,) = filed(shell, "secret")
    done = shell("keys", "rotate", "secret")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 secret sealed anew; 0 had the newest key already." in done.stdout
    told = json.loads(shell("keys", "retire", old, "--json").stdout)
    assert told == {"ok": True, "retired": old, "purpose": "secret"}
    done = shell("keys", "reseal", "--store", f"sqlite://{store}")
    assert done.stdout == "0 secrets sealed anew; 1 had the newest key already.\n"
    assert VALUE.encode() not in store.read_bytes()


def test_machines_are_told_in_json(shell: Shell, store: Path) -> None:
    assert store.exists()
    told = json.loads(shell("keys", "rotate", "--json").stdout)
    assert told["ok"]
    assert told["made"] == {purpose: filed(shell, purpose)[0] for purpose in ("snapshot", "secret")}
    assert told["secrets"] == {"resealed": 1, "current": 0, "in_use": [], "locked": [], "forgotten": 0}


def test_store_that_cannot_be_used_is_refused_before_anything_changes(shell: Shell) -> None:
    before = made(shell, "secret")
    (shell.data / "cloister.db").write_text("hello" * 100)
    done = shell("keys", "rotate")
    assert (done.returncode, done.stdout) == (1, "")
    assert "not a database" in done.stderr
    assert filed(shell, "secret") == before


def test_store_means_nothing_to_a_snapshot_key(shell: Shell) -> None:
    _, old = made(shell, "snapshot", 2)
    for words in (["rotate", "snapshot"], ["retire", old]):
        done = shell("keys", *words, "--store", "sqlite:///some/store.db")
        assert (done.returncode, done.stdout) == (2, "")
        assert "with the secret key" in done.stderr
    assert len(filed(shell, "snapshot")) == 2


def test_store_that_is_not_there_is_refused_before_anything_changes(shell: Shell, store: Path) -> None:
    assert store.exists()
    before = filed(shell, "secret")
    done = shell("keys", "rotate", "--store", "sqlite:///no/such/store.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no store" in done.stderr
    assert filed(shell, "secret") == before


def test_keys_that_are_not_ours_are_not_rotated(shell: Shell) -> None:
    done = shell("keys", "rotate", environment={"CLOISTER_SECRET_KEY": A.hex()})
    assert (done.returncode, done.stdout) == (2, "")
    assert "CLOISTER_SECRET_KEY=NEW,OLD" in done.stderr
    assert A.hex() not in done.stderr
    assert not shell.data.exists()


@pytest.mark.slow
def test_keys_of_the_environment_are_rotated_by_naming_both_and_sealing_anew(shell: Shell, store: Path) -> None:
    assert store.exists()
    (old,) = RingFile(shell.data / "secret.key", Purpose.SECRET).filed()
    both = {"CLOISTER_SECRET_KEY": f"{A.hex()},{old.material.hex()}"}
    assert "1 secret sealed anew" in shell("keys", "reseal", environment=both).stdout
    done = shell("keys", "reseal", environment={"CLOISTER_SECRET_KEY": A.hex()})
    assert (done.returncode, done.stdout) == (0, "0 secrets sealed anew; 1 had the newest key already.\n")


# -- reseal ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_secrets_that_no_key_opens_fail_until_they_are_forgotten(shell: Shell, store: Path) -> None:
    assert store.exists()
    wrong = {"CLOISTER_SECRET_KEY": B.hex()}
    done = shell("keys", "reseal", environment=wrong)
    assert (done.returncode, done.stderr) == (1, "")
    assert "left as it is: the secret 'TOKEN' of session 's' was sealed with key" in done.stdout
    done = shell("keys", "reseal", "--forget-locked", environment=wrong)
    assert (done.returncode, done.stderr) == (0, "")
    assert "forgotten: the secret 'TOKEN'" in done.stdout
    assert shell("keys", "reseal", environment=wrong).returncode == 0


def test_reseal_without_a_store_says_so(shell: Shell) -> None:
    done = shell("keys", "reseal")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no store" in done.stderr


# -- retire ---------------------------------------------------------------------------------------------------------


def test_key_that_stored_secrets_need_is_not_retired(shell: Shell, store: Path) -> None:
    (old,) = filed(shell, "secret")
    # Elsewhere, where this rotation does not look.
    elsewhere = f"sqlite://{shell.here}/other.db"
    keep_secret(shell, store=elsewhere)
    assert store.exists()
    made(shell, "secret")
    done = shell("keys", "retire", old, "--store", elsewhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert "1 secret in" in done.stderr
    assert "cloister keys reseal first" in done.stderr
    assert old in filed(shell, "secret")
    assert shell("keys", "reseal", "-s", elsewhere).returncode == 0
    assert shell("keys", "retire", old, "--store", elsewhere).returncode == 0


@pytest.mark.slow
def test_secret_key_is_not_retired_where_there_is_no_store_to_look_into(shell: Shell) -> None:
    _, old = made(shell, "secret", 2)
    done = shell("keys", "retire", old)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--store URL" in done.stderr
    assert shell("keys", "retire", old, "--force").returncode == 0
    assert len(filed(shell, "secret")) == 1


def test_key_in_use_is_not_retired(shell: Shell) -> None:
    (key,) = made(shell, "snapshot")
    done = shell("keys", "retire", key)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cloister keys rotate snapshot" in done.stderr
    assert filed(shell, "snapshot") == [key]


@pytest.mark.parametrize("word", ["12", A.hex()], ids=["short", "a key itself"])
def test_what_is_no_id_is_refused_and_not_repeated(shell: Shell, word: str) -> None:
    done = shell("keys", "retire", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert "16 hex digits" in done.stderr
    assert word not in done.stderr.replace("16 hex", "")


def test_key_that_is_not_there_is_refused(shell: Shell) -> None:
    done = shell("keys", "retire", "0123456789abcdef")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no key 0123456789abcdef" in done.stderr


def test_help_has_examples_for_every_command(shell: Shell) -> None:
    done = shell("keys", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("list", "rotate", "reseal", "retire"):
        assert command in done.stdout
    done = shell("keys", "retire", "--help")
    assert "Examples:" in done.stdout
    assert "Exit codes:" in done.stdout
