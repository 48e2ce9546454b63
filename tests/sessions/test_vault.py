"""What is sealed opens as it was, and only where it belongs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import InvalidInput, Secret, SecretsLocked
from cloister.ports.keys import Key, KeyRing, Purpose
from cloister.ports.rows import SecretRow
from cloister.sessions.vault import open_row, reseal, seal_row, sealed_with

OLD, NEW = (Key.of(Purpose.SECRET, bytes([n]) * 32) for n in (1, 2))
VALUE = "hunter2-hunter2"
RING = KeyRing((OLD,))


def sealed(value: str = VALUE, ring: KeyRing = RING) -> SecretRow:
    return seal_row("s", "TOKEN", Secret(value, ("a.b", "c")), ring, created_ms=1, updated_ms=2)


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=8, max_size=40)


@given(texts)
def test_secret_comes_out_as_it_went_in(value: str) -> None:
    try:
        secret = Secret(value, ("shop.*",))
    except InvalidInput:
        return
    row = seal_row("s", "N", secret, RING, created_ms=1, updated_ms=2)
    assert open_row(row, RING) == secret
    assert value.encode() not in row.sealed


def test_sealing_twice_gives_other_bytes() -> None:
    assert sealed().sealed != sealed().sealed


def test_any_bit_that_is_flipped_locks_it() -> None:
    row = sealed()
    for place in range(len(row.sealed)):
        changed = bytearray(row.sealed)
        changed[place] ^= 1
        with pytest.raises(SecretsLocked):
            open_row(replace(row, sealed=bytes(changed)), RING)


def test_any_end_that_is_missing_locks_it() -> None:
    row = sealed()
    for length in range(len(row.sealed)):
        with pytest.raises(SecretsLocked):
            open_row(replace(row, sealed=row.sealed[:length]), RING)


@pytest.mark.parametrize(
    "moved",
    [
        {"session_id": "other"},
        {"name": "OTHER"},
        {"doc": {"allowed": ["*"]}},
        {"doc": {"allowed": ["c", "a.b"]}},
        {"doc": {"allowed": []}},
        {"doc": {"allowed": "*"}},
        {"doc": {}},
    ],
    ids=str,
)
def test_what_was_moved_or_allowed_for_more_in_the_store_does_not_open(moved: dict[str, object]) -> None:
    with pytest.raises(SecretsLocked, match="changed in the store") as refusal:
        open_row(replace(sealed(), **moved), RING)
    assert VALUE not in f"{refusal.value} {refusal.value.hint}"


def test_key_that_is_not_here_is_named() -> None:
    with pytest.raises(SecretsLocked) as refusal:
        open_row(sealed(), KeyRing((NEW,)))
    assert OLD.id.hex() in refusal.value.message
    assert NEW.id.hex() in refusal.value.message
    with pytest.raises(SecretsLocked, match="the keys here are none"):
        open_row(sealed(), KeyRing())


def test_what_an_older_key_sealed_is_sealed_anew_with_the_newest() -> None:
    old, ring = sealed(), KeyRing((NEW, OLD))
    (new,) = reseal([old], ring)
    assert (sealed_with(old), sealed_with(new)) == (OLD.id, NEW.id)
    assert open_row(new, KeyRing((NEW,))) == Secret(VALUE, ("a.b", "c"))
    assert (new.created_ms, new.updated_ms) == (1, 2)
    assert reseal([new], ring) == []
