"""The pragma in a program's first line: what it says, what is none, and each way to get it wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.pragma import MAX_LINE, MAX_NUMBER, Pragma, read_pragma
from cloister.core.diagnostic import ErrorObject, Span
from cloister.core.language import Language

PYTHON, TYPESCRIPT = Language.PYTHON, Language.TYPESCRIPT


def _refusal(code: str, language: Language = PYTHON) -> ErrorObject:
    found = read_pragma(code, language)
    assert isinstance(found, ErrorObject), found
    assert found.code == "INVALID_INPUT"
    return found


def test_both_settings_are_read() -> None:
    line = '@exec: {"yield_time_ms": 10000, "max_output_tokens": 2000}\n1 + 1'
    assert read_pragma("# " + line, PYTHON) == Pragma(10000, 2000)
    assert read_pragma("// " + line, TYPESCRIPT) == Pragma(10000, 2000)


@pytest.mark.parametrize(
    ("code", "pragma"),
    [
        ('# @exec: {"yield_time_ms": 0}', Pragma(0, None)),
        ('# @exec: {"max_output_tokens": 9007199254740991}', Pragma(None, MAX_NUMBER)),
        ("# @exec: {}", Pragma(None, None)),
        ('\ufeff# @exec: {"yield_time_ms": 5}', Pragma(5, None)),
        ('  \t#@exec:{"yield_time_ms":5}  ', Pragma(5, None)),
        ('#   @exec :  {"yield_time_ms": 5}\r\nx', Pragma(5, None)),
        ('# @exec: {"yield_time_ms": 5}\rx = {', Pragma(5, None)),
        ('# @exec: {"yield_time_ms": -0}', Pragma(0, None)),
        ('# @exec: {"yield\\u005ftime_ms": 5}', Pragma(5, None)),
    ],
)
def test_pragma_is_read_however_it_is_spaced(code: str, pragma: Pragma) -> None:
    assert read_pragma(code, PYTHON) == pragma


@pytest.mark.parametrize(
    "code",
    [
        "",
        "\n",
        "1 + 1",
        "# a comment",
        "# see @exec: {}",
        "# @execute: 5",
        "# @exec_time: 5",
        "## @exec: 5",
        "x = 1 # @exec: 5",
        "\n# @exec: 5",
        "# first\n# @exec: 5",
        "'# @exec: 5'",
        "// @exec: 5",
        "x" * 100_000,
    ],
)
def test_anything_else_in_the_first_line_is_no_pragma(code: str) -> None:
    assert read_pragma(code, PYTHON) is None


def test_sign_of_another_language_is_not_looked_for() -> None:
    assert read_pragma("# @exec: 5", TYPESCRIPT) is None
    assert read_pragma("/// @exec: 5", TYPESCRIPT) is None
    assert read_pragma("/* @exec: 5 */", TYPESCRIPT) is None


@pytest.mark.parametrize("end", ["\u2028", "\u2029"])
def test_line_ends_where_the_language_says(end: str) -> None:
    code = '@exec: {"yield_time_ms": 5}' + end + "x"
    assert read_pragma("// " + code, TYPESCRIPT) == Pragma(5, None)
    assert "not JSON" in _refusal("# " + code).message


WRONG = [
    ("@exec", "there is no colon after '@exec'"),
    ('@exec {"yield_time_ms": 5}', "there is no colon after '@exec'"),
    ("@exec-ute", "there is no colon after '@exec'"),
    ("@exec:", "there is nothing after '@exec:'"),
    ("@exec:   ", "there is nothing after '@exec:'"),
    ("@exec: yield_time_ms=5", "not JSON: Expecting value"),
    ("@exec: {yield_time_ms: 5}", "not JSON: Expecting property name"),
    ('@exec: {"yield_time_ms": 5} and more', "not JSON: Extra data"),
    ('@exec: {"yield_time_ms": NaN}', "not JSON: it has no NaN"),
    ('@exec: {"yield_time_ms": -Infinity}', "not JSON: it has no -Infinity"),
    ("@exec: " + "[" * 4000, "nested too deep"),
    ("@exec: " + '{"a":' * 800, "not JSON"),
    ("@exec: 5", "must be an object, not a number"),
    ("@exec: [5]", "must be an object, not an array"),
    ("@exec: null", "must be an object, not null"),
    ('@exec: "text"', "must be an object, not a text"),
    ('@exec: {"timeout": 5}', "unknown key 'timeout': there are 'yield_time_ms' and 'max_output_tokens'"),
    ('@exec: {"": 5}', "unknown key ''"),
    ('@exec: {"yield_time_ms": true}', "'yield_time_ms' must be a whole number, not a boolean"),
    ('@exec: {"yield_time_ms": 5.0}', "'yield_time_ms' must be a whole number, not a number with a fraction"),
    ('@exec: {"yield_time_ms": 1e3}', "'yield_time_ms' must be a whole number, not a number with a fraction"),
    ('@exec: {"max_output_tokens": "5"}', "'max_output_tokens' must be a whole number, not a text"),
    ('@exec: {"max_output_tokens": null}', "'max_output_tokens' must be a whole number, not null"),
    ('@exec: {"max_output_tokens": []}', "'max_output_tokens' must be a whole number, not an array"),
    ('@exec: {"max_output_tokens": {"a": 1, "a": 2}}', "'max_output_tokens' must be a whole number, not an object"),
    ('@exec: {"max_output_tokens": -1}', "'max_output_tokens' must not be negative"),
    ('@exec: {"max_output_tokens": 9007199254740992}', "'max_output_tokens' is larger than 9007199254740991"),
    ('@exec: {"max_output_tokens": ' + "9" * 4000 + "}", "'max_output_tokens' is larger than 9007199254740991"),
    ('@exec: {"max_output_tokens": -' + "9" * 4000 + "}", "'max_output_tokens' must not be negative"),
    ('@exec: {"yield_time_ms": 5, "yield_time_ms": 5}', "the key 'yield_time_ms' is there twice"),
    ("@exec: {}" + " " * MAX_LINE, "at most 4096 are read"),
]


@pytest.mark.parametrize(("rest", "message"), WRONG, ids=[rest[:40] for rest, _ in WRONG])
def test_each_way_to_get_it_wrong_has_its_own_message(rest: str, message: str) -> None:
    for language, sign in ((PYTHON, "# "), (TYPESCRIPT, "// ")):
        refusal = _refusal(sign + rest + "\n1", language)
        assert message in refusal.message
        assert len(refusal.message) < 300
        assert refusal.hint is not None


@pytest.mark.parametrize(("language", "sign"), [(PYTHON, "#"), (TYPESCRIPT, "//")])
def test_hint_shows_a_pragma_that_is_right(language: Language, sign: str) -> None:
    hint = _refusal(f"{sign} @exec", language).hint
    assert hint is not None
    assert read_pragma(hint.removeprefix("write it like this: "), language) == Pragma(10000, 2000)


def test_place_of_the_error_is_where_it_is_in_the_line() -> None:
    assert _refusal("# @exec 5\nx").span == Span(1, 3, 1, 8)
    assert _refusal("# @exec: [5]\nx").span == Span(1, 10, 1, 13)
    assert _refusal("# @exec: {5}").span == Span(1, 11, 1, 13)


@given(st.none() | st.integers(0, MAX_NUMBER), st.none() | st.integers(0, MAX_NUMBER))
def test_what_was_written_is_what_is_read(yield_ms: int | None, tokens: int | None) -> None:
    asked = {"yield_time_ms": yield_ms, "max_output_tokens": tokens}
    line = json.dumps({key: value for key, value in asked.items() if value is not None})
    assert read_pragma(f"# @exec: {line}\n1", PYTHON) == Pragma(yield_ms, tokens)


@given(st.text(), st.sampled_from(Language))
def test_no_text_makes_the_reader_fail(text: str, language: Language) -> None:
    for code in (text, f"# @exec{text}", f"# @exec: {text}", f"// @exec: {{{text}}}"):
        found = read_pragma(code, language)
        assert found is None or isinstance(found, (Pragma, ErrorObject))
