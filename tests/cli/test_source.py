import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cli.source import excerpt
from cloister.core.diagnostic import Span


def shown(code: str, span: Span) -> list[str]:
    return [margin + text for margin, text in excerpt(code, span)]


def test_caret_is_under_the_span() -> None:
    assert shown("a = 1\nb = oops + 1", Span(2, 5, 2, 9)) == ["2 | b = oops + 1", "  |     ^^^^"]


def test_span_without_an_end_gets_one_caret() -> None:
    assert shown("a + b", Span(1, 3)) == ["1 | a + b", "  |   ^"]


def test_empty_span_at_the_end_of_a_line_gets_one_caret() -> None:
    assert shown("x +", Span(1, 4, 1, 4)) == ["1 | x +", "  |    ^"]


def test_span_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    assert shown("call(\n  1,\n)", Span(1, 1, 3, 2)) == ["1 | call(", "  | ^^^^^"]


def test_wide_characters_and_tabs_keep_the_caret_in_place() -> None:
    assert shown("\t'漢字' + x", Span(1, 9, 1, 10)) == ["1 |     '漢字' + x", "  |              ^"]


def test_long_line_is_cut_around_the_span() -> None:
    code = "a" * 500 + " + oops + " + "b" * 500
    line, caret = shown(code, Span(1, 504, 1, 508))
    assert len(line) <= 80
    assert line[caret.index("^") : caret.rindex("^") + 1] == "oops"


def test_escape_sequences_in_the_source_are_shown_not_sent() -> None:
    assert "\x1b" not in "".join(shown("x = '\x1b[2J' + y", Span(1, 5, 1, 11)))


@pytest.mark.parametrize("line", [0, 3, 99])
def test_span_outside_of_the_source_shows_nothing(line: int) -> None:
    assert excerpt("one\ntwo", Span(line, 1)) == []


@given(st.text(max_size=300), st.integers(-2, 9), st.integers(-2, 300), st.integers(-2, 9), st.integers(-2, 300))
def test_any_span_in_any_source_is_two_short_lines_or_none(code: str, a: int, b: int, c: int, d: int) -> None:
    lines = excerpt(code, Span(a, b, c, d))
    assert len(lines) in (0, 2)
    assert all(len(text) <= 200 and "\n" not in text for _, text in lines)
