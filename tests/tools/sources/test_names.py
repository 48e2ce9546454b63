"""Names from elsewhere as names in programs."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.capability import check_tool_name
from cloister.tools.sources.names import LONGEST, identifier, identifiers


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("get_order", "get_order"),
        ("get-order", "get_order"),
        ("GET /orders/{id}", "GET_orders_id"),
        ("naïve café", "naive_cafe"),
        ("1password", "_1password"),
        ("import", "import_"),
        ("日本", "tool"),
        ("_private_", "_private_"),
        ("x" * 99, "x" * LONGEST),
        ("", "tool"),
    ],
)
def test_a_name_becomes_one_that_can_be_written(original: str, name: str) -> None:
    assert identifier(original) == name


def test_a_name_that_stands_alone_is_no_word_of_typescript_either() -> None:
    assert identifier("delete", global_name=True) == "delete_"
    assert identifier("delete") == "delete"


def test_a_name_that_stands_alone_is_no_module_of_python_either() -> None:
    assert identifier("time", global_name=True) == "time_"
    assert identifier("time") == "time"


def test_those_that_would_be_written_alike_are_told_apart() -> None:
    assert identifiers(["get.order", "get-order", "get_order", "get_order_2"]) == {
        "get_order": "get_order",
        "get_order_2": "get_order_2",
        "get-order": "get_order_3",
        "get.order": "get_order_4",
    }


NAMES = st.lists(st.text(st.sampled_from("ab_-. é1"), max_size=4) | st.text(max_size=90), max_size=30)


@given(NAMES, st.randoms())
def test_every_name_can_be_written_and_is_its_own_whatever_the_order(originals: list[str], chance: object) -> None:
    made = identifiers(originals)
    assert set(made) == set(originals)
    assert len(set(made.values())) == len(made)
    for name in made.values():
        assert check_tool_name(name) == name
        assert not keyword.iskeyword(name)
    assert identifiers(sorted(originals, reverse=True)) == made


def test_ten_thousand_that_are_all_written_alike_are_told_apart_at_once() -> None:
    made = identifiers(f"a{'-' * (n % 97)}{'.' * (n // 97)}" for n in range(10_000))
    assert len(set(made.values())) == len(made)
