"""The output budget: what is kept, what is missing, and that both are told truly."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.cut import bytes_for, cut_middle, fit

Item = Mapping[str, Any]

MARKER = re.compile(r"\n\[… (\d+) bytes \(about (\d+) tokens\) are missing here(?:; they are in (\S+))? …\]\n")

# Letters of one to four bytes, and what clings to them; nothing that looks like a marker.
texts = st.text(st.sampled_from("abé漢😀\u0301\u200d\n"), max_size=60)
budgets = st.integers(0, 120)


def _text(text: str) -> Item:
    return {"type": "input_text", "text": text}


def _image(name: str) -> Item:
    return {"type": "input_image", "image_url": f"https://example.com/{name}"}


items = st.lists(texts.map(_text) | st.sampled_from("xyz").map(_image), max_size=8)


def _joined(parts: "list[Item] | tuple[Item, ...]") -> str:
    return "".join(part["text"] for part in parts if part["type"] == "input_text")


def _check(kept: str, missing: int, whole: str, budget: int) -> None:
    """What is true of every cut text, whether it was one or several."""
    total = len(whole.encode())
    if total <= budget:
        assert (kept, missing) == (whole, 0)
        return
    found = MARKER.findall(kept)
    assert [(int(count), int(tokens)) for count, tokens, _ in found] == [(missing, -(-missing // 4))]
    head, tail = kept[: MARKER.search(kept).start()], kept[MARKER.search(kept).end() :]  # pyright: ignore[reportOptionalMemberAccess]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    left = len(head.encode()) + len(tail.encode())
    assert left <= budget
    assert left + missing == total


def test_token_is_about_four_bytes() -> None:
    assert bytes_for(0) == 0
    assert bytes_for(2000) == 8000


def test_text_that_fits_is_the_very_same() -> None:
    text = "x" * 100
    kept, missing = cut_middle(text, 100)
    assert kept is text
    assert missing == 0


def test_middle_is_cut_and_the_marker_says_how_much() -> None:
    assert cut_middle("abcdefghij", 4) == ("ab\n[… 6 bytes (about 2 tokens) are missing here …]\nij", 6)


def test_marker_says_where_the_whole_output_is() -> None:
    kept, _ = cut_middle("abcdefghij", 5, "/outputs/cel_1.txt")
    assert kept == ("abc\n[… 5 bytes (about 2 tokens) are missing here; they are in /outputs/cel_1.txt …]\nij")


@pytest.mark.parametrize("budget", [0, -5])
def test_budget_of_nothing_leaves_only_the_marker(budget: int) -> None:
    assert cut_middle("abc", budget) == ("\n[… 3 bytes (about 1 tokens) are missing here …]\n", 3)


def test_character_is_never_split() -> None:
    kept, missing = cut_middle("😀" * 4, 10)
    assert MARKER.split(kept)[0] == "😀"
    assert missing == 8


@pytest.mark.parametrize("mark", ["\u0301", "\ufe0f", "\u0940", "\u200d"])
def test_mark_stays_with_its_letter_or_goes_with_it(mark: str) -> None:
    letter = "e" + mark
    for budget in range(len(letter.encode()) * 9):
        kept, _ = cut_middle(letter * 10, budget)
        match = MARKER.search(kept)
        assert match is not None
        assert not kept[: match.start()].endswith("e")
        assert not kept[match.end() :].startswith(mark)


def test_text_of_nothing_but_marks_is_cut_all_the_same() -> None:
    whole = "\u0301" * 10_000
    kept, missing = cut_middle(whole, 1000)
    _check(kept, missing, whole, 1000)
    assert missing < len(whole.encode())


def test_half_a_surrogate_pair_does_not_lose_the_output() -> None:
    kept, missing = cut_middle("\ud800" * 10, 6)
    assert kept.startswith("\ud800")
    assert kept.endswith("\ud800")
    assert missing == 24


@given(texts, budgets)
def test_cut_text_keeps_to_the_budget_and_counts_what_is_missing(text: str, budget: int) -> None:
    kept, missing = cut_middle(text, budget)
    _check(kept, missing, text, budget)


@given(items, budgets)
def test_cut_items_are_cut_like_one_text(parts: list[Item], budget: int) -> None:
    kept, missing = fit(parts, budget, None)
    whole = _joined(parts)
    _check(_joined(kept), missing, whole, budget)
    assert (_joined(kept), missing) == cut_middle(whole, budget)


@given(items, budgets)
def test_images_are_all_kept_in_order(parts: list[Item], budget: int) -> None:
    kept, _ = fit(parts, budget, None)
    assert [part for part in kept if part["type"] == "input_image"] == [
        part for part in parts if part["type"] == "input_image"
    ]


@given(items, budgets)
def test_items_that_fit_come_back_as_the_same_objects(parts: list[Item], spare: int) -> None:
    kept, missing = fit(parts, len(_joined(parts).encode()) + spare, "/outputs/x.txt")
    assert missing == 0
    assert len(kept) == len(parts)
    assert all(one is other for one, other in zip(kept, parts, strict=True))


def test_images_stay_between_the_texts_they_were_between() -> None:
    parts = [_image("1"), _text("aaaa"), _image("2"), _text("bbbb"), _image("3"), _text("cccc"), _image("4")]
    kept, missing = fit(parts, 4, "/outputs/x.txt")
    assert missing == 8
    marker = "\n[… 8 bytes (about 2 tokens) are missing here; they are in /outputs/x.txt …]\n"
    assert kept == (
        _image("1"),
        _text("aa" + marker),
        _image("2"),
        _image("3"),
        _text("cc"),
        _image("4"),
    )


def test_whole_items_outside_the_gap_are_the_same_objects() -> None:
    parts = [_text("aa"), _text("bbbbbb"), _text("cc")]
    kept, missing = fit(parts, 4, None)
    assert missing == 6
    assert kept[0] is parts[0]
    assert kept[2] is parts[2]
    assert kept[1]["text"] == "\n[… 6 bytes (about 2 tokens) are missing here …]\n"


def test_items_without_text_cost_nothing() -> None:
    parts = [_image("1"), _image("2")]
    assert fit(parts, 0, None) == (tuple(parts), 0)
    assert fit([], 0, None) == ((), 0)
