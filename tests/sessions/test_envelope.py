"""The envelope around a snapshot: nothing in it is believed before its seal is."""

import hashlib
import hmac
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SnapshotCorrupt, SnapshotError, SnapshotForeign, SnapshotVersionMismatch
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.sessions.envelope import FORMAT, Envelope, key_id, seal, unseal
from tests.core.json_values import json_objects, session_ids, session_limits, text

KEY = b"k" * 32
SOME = Envelope(
    session_id="here",
    language=Language.PYTHON,
    engine="monty",
    engine_version="monty 1.4",
    limits=SessionLimits(wall_ms=1234),
    capabilities={"get_order": "d" * 64},
    created_at="2026-11-16T12:00:00.000Z",
    state=b"state " * 50,
    cell={"id": "cel_1", "pending": [[1, "f", [], {}, "tool"]]},
    seed=2**55,
    labels={"team": "é"},
    left_out=("a socket", "an open file"),
)
SEALED = seal(SOME, KEY)

envelopes = st.builds(
    Envelope,
    session_id=session_ids,
    language=st.sampled_from(Language),
    engine=text,
    engine_version=text,
    limits=session_limits,
    capabilities=st.dictionaries(text, text, max_size=3),
    created_at=text,
    state=st.none() | st.binary(max_size=200),
    cell=st.none() | json_objects,
    seed=st.integers(0, 2**56),
    labels=st.dictionaries(text, text, max_size=2),
    left_out=st.lists(text, max_size=2).map(tuple),
)


@settings(max_examples=50)
@given(envelopes, st.binary(min_size=16, max_size=40))
def test_envelope_comes_out_as_it_went_in(envelope: Envelope, key: bytes) -> None:
    assert unseal(seal(envelope, key), key) == envelope


def test_what_was_left_out_is_listed() -> None:
    assert unseal(SEALED, KEY).left_out == ("a socket", "an open file")


def test_state_that_is_empty_is_not_the_same_as_none() -> None:
    assert unseal(seal(replace(SOME, state=b""), KEY), KEY).state == b""
    assert unseal(seal(replace(SOME, state=None), KEY), KEY).state is None


def test_snapshot_cut_at_any_length_is_refused() -> None:
    for length in range(len(SEALED)):
        with pytest.raises(SnapshotError):
            unseal(SEALED[:length], KEY)


def test_snapshot_with_bytes_after_it_is_refused() -> None:
    with pytest.raises(SnapshotCorrupt):
        unseal(SEALED + b"x", KEY)


@pytest.mark.parametrize("bit", [0, 7])
def test_snapshot_with_any_bit_flipped_is_refused(bit: int) -> None:
    for at in range(len(SEALED)):
        changed = bytearray(SEALED)
        changed[at] ^= 1 << bit
        with pytest.raises(SnapshotError):
            unseal(bytes(changed), KEY)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_snapshot_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotCorrupt):
        unseal(data, KEY)


@given(st.binary(max_size=200))
def test_bytes_that_begin_like_a_snapshot_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        unseal(SEALED[:18] + data, KEY)


@pytest.mark.parametrize("data", [None, "text", 5, [1]])
def test_what_is_not_bytes_is_refused(data: Any) -> None:
    with pytest.raises(SnapshotCorrupt, match="bytes"):
        unseal(data, KEY)


def test_snapshot_of_another_key_is_foreign() -> None:
    with pytest.raises(SnapshotForeign) as refusal:
        unseal(SEALED, b"other" * 8)
    assert refusal.value.hint


def test_key_s_id_does_not_show_the_key() -> None:
    assert KEY[:8] not in key_id(KEY)
    assert key_id(KEY) != key_id(b"other" * 8)


def _with_format(version: int) -> bytes:
    body = SEALED[:8] + struct.pack(">H", version) + SEALED[10:-32]
    return body + hmac.new(KEY, body, hashlib.sha3_256).digest()


def test_snapshot_of_a_newer_format_says_so() -> None:
    with pytest.raises(SnapshotVersionMismatch, match=str(FORMAT + 1)):
        unseal(_with_format(FORMAT + 1), KEY)


def test_state_is_compressed() -> None:
    assert len(seal(replace(SOME, state=b"a" * 10**6), KEY)) < 5000


def test_sealing_twice_gives_the_same_bytes() -> None:
    assert seal(SOME, KEY) == seal(SOME, KEY)
