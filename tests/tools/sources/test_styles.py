"""Values as parts of a request, held against the standard library's way to read them."""

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.value import Json
from cloister.tools.sources.openapi.styles import (
    Unwritable,
    form_body,
    in_cookie,
    in_header,
    in_path,
    in_query,
    scalar,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
SINGLE = st.booleans() | st.integers() | TEXT | st.floats(allow_nan=False, allow_infinity=False)


def read(pieces: list[str]) -> list[tuple[str, str]]:
    return parse_qsl("&".join(pieces), keep_blank_values=True, max_num_fields=1000)


@given(TEXT, SINGLE)
def test_a_single_value_comes_back_from_a_query(name: str, value: Json) -> None:
    assert read(in_query(name, value, style="form", explode=True)) == [(name, scalar(value))]


@given(TEXT, st.lists(SINGLE, max_size=5))
def test_a_list_comes_back_from_a_query(name: str, values: list[Json]) -> None:
    exploded = in_query(name, values, style="form", explode=True)
    assert read(exploded) == [(name, scalar(value)) for value in values]
    joined = in_query(name, values, style="form", explode=False)
    said = [unquote(part) for part in joined[0].partition("=")[2].split(",")] if joined else []
    assert said == [scalar(value) for value in values]


@given(TEXT, st.dictionaries(TEXT, SINGLE, max_size=5))
def test_an_object_comes_back_from_a_query(name: str, value: dict[str, Json]) -> None:
    expected = [(inner, scalar(part)) for inner, part in value.items()]
    assert read(in_query(name, value, style="form", explode=True)) == expected
    deep = read(in_query(name, value, style="deepObject", explode=True))
    assert deep == [(f"{name}[{inner}]", part) for inner, part in expected]


@given(TEXT)
def test_a_text_in_a_path_stays_one_part_of_it(value: str) -> None:
    try:
        said = in_path(value, explode=False)
    except Unwritable:
        assert value in (".", "..")
        return
    assert unquote(said) == value
    assert not set(said) & set("/?#\\ ")
    assert said.isascii()


@given(TEXT)
def test_a_header_is_one_line_or_refused(value: str) -> None:
    try:
        said = in_header(value, explode=False)
    except Unwritable:
        return
    assert said == value
    assert "\n" not in said
    assert "\r" not in said


@given(st.dictionaries(TEXT, SINGLE | st.lists(SINGLE, max_size=3), max_size=5))
def test_a_form_comes_back(fields: dict[str, Json]) -> None:
    expected = [
        (name, scalar(part))
        for name, value in fields.items()
        for part in (value if isinstance(value, list) else [value])
    ]
    assert read([form_body(fields.items()).decode()] if expected else []) == expected


def test_values_are_written_as_json_would_and_not_as_python() -> None:
    assert [scalar(value) for value in (True, False, 1.0, 0.5, 10**20, "x")] == [
        "true",
        "false",
        "1",
        "0.5",
        "100000000000000000000",
        "x",
    ]


@pytest.mark.parametrize(
    "write",
    [
        lambda: in_query("a", [["b"]], style="form", explode=True),
        lambda: in_query("a", {"b": {}}, style="deepObject", explode=True),
        lambda: in_query("a", ["b"], style="deepObject", explode=True),
        lambda: in_path([], explode=False),
        lambda: in_header("a\nb", explode=False),
        lambda: in_cookie("a", ["b"]),
        lambda: form_body([("a", {"b": 1})]),
        lambda: in_path("\ud800", explode=False),
    ],
)
def test_what_a_style_does_not_define_is_refused(write: object) -> None:
    assert callable(write)
    with pytest.raises(Unwritable):
        write()
