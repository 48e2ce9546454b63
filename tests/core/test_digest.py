"""Canonical JSON and digests: one value, one text, one digest."""

import hashlib
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.digest import canonical_json, digest_bytes, digest_json
from tests.core.json_values import json_objects, json_values


def _reversed(value: Any) -> Any:
    match value:
        case dict():
            items: list[tuple[str, Any]] = list(cast("dict[str, Any]", value).items())
            return {key: _reversed(item) for key, item in reversed(items)}
        case list():
            return [_reversed(item) for item in cast("list[Any]", value)]
        case _:
            return value


@given(json_values)
def test_digest_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    assert digest_json(value) == digest_json(_reversed(value))


@given(json_values)
def test_canonical_json_is_json_of_the_same_value(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@given(json_objects, json_objects)
def test_different_objects_have_different_digests(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = canonical_json(one) == canonical_json(other)
    assert (digest_json(one) == digest_json(other)) is same


def test_canonical_json_has_sorted_keys_no_spaces_and_plain_utf8() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_number_that_json_cannot_say_has_no_canonical_form(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json([value])


def test_lone_surrogate_has_a_digest_of_its_own() -> None:
    assert digest_json("\ud800") != digest_json("\\ud800")


@given(st.binary())
def test_digest_of_bytes_is_lower_hex_sha3_256(data: bytes) -> None:
    assert digest_bytes(data) == hashlib.sha3_256(data).hexdigest()


def test_digest_of_json_is_the_digest_of_its_canonical_text() -> None:
    assert digest_json({"a": 1}) == digest_bytes(b'{"a":1}')
