"""Paths, kinds and values in few characters."""

from typing import Any

import pytest

from cloister.tools.wording import json_path, kind_of, shown, unknown


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ((), "$"),
        (("items", 0, "sku"), "$.items[0].sku"),
        (("order-id",), "$['order-id']"),
        (("a b", "", "ü"), "$['a b']['']['ü']"),
        (("1",), "$['1']"),
    ],
)
def test_path_is_written_like_a_program_would_reach_it(parts: tuple[str | int, ...], path: str) -> None:
    assert json_path(parts) == path


def test_path_is_cut_before_it_is_long() -> None:
    assert len(json_path(["a"] * 1000)) <= 200
    assert len(json_path(["a b" * 100_000])) <= 200


@pytest.mark.parametrize("value", ["a" * 1000, ["a"] * 1000, {"a": "b" * 1000}, 10**1000])
def test_value_is_cut_before_it_is_long(value: Any) -> None:
    assert len(shown(value, 40)) <= 40
    assert shown(value, 40).endswith("...")


def test_short_value_is_shown_whole() -> None:
    assert (shown("a"), shown(5), shown(None)) == ("'a'", "5", "None")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "number"),
        ("a", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_kind_is_what_json_calls_it(value: Any, kind: str) -> None:
    assert kind_of(value) == kind


def test_unknown_name_is_told_some_of_those_there_are() -> None:
    assert unknown(["a"]) == "is not known; there is 'a'"
    assert unknown([f"n{n}" for n in range(20)]).endswith("'n7' and more")
