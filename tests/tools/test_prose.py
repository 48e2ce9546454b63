"""Text from anywhere stays in its place in source code, and can be seen."""

import ast
import inspect
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cloister.tools.prose import docstring, jsdoc, line, quoted
from tests.tools.schemas import HOSTILE, texts
from tests.tools.typescript_parser import parse

_any = st.text() | texts


@given(_any)
@example("".join(HOSTILE))
@example('ends with "')
@example('\\"""')
@example("ends with \\")
def test_docstring_says_the_text_and_nothing_else(text: str) -> None:
    function = ast.parse(f"def f():\n    {docstring(text)}\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 1
    assert ast.get_docstring(function) == inspect.cleandoc("\n".join(row.rstrip() for row in text.strip().split("\n")))


@given(_any)
@example("*/ declare const pwned: 1; /*")
@example("*")
def test_comment_in_typescript_ends_where_it_should(text: str) -> None:
    made = jsdoc(text)
    assert made.count("*/") == bool(made)
    assert [node.type for node in parse(f"{made}declare const x: number;").children][-1] == "ambient_declaration"


@given(_any)
def test_text_in_typescript_is_the_text(text: str) -> None:
    made = quoted(text)
    assert json.loads(made) == text
    parse(f"declare const x: {made};")


@given(_any)
def test_nothing_is_hidden(text: str) -> None:
    assert line(text).isprintable()
    assert quoted(text).isprintable()
    assert all(row.isprintable() for row in docstring(text).split("\n"))
    assert all(row.isprintable() for row in jsdoc(text).split("\n"))


@pytest.mark.parametrize("text", ["Look it up.", "Größe in 厘米", "Says 'hello' twice.", 'a "b" c', "C:\\x"])
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert line(text) == text
    assert text in jsdoc(text)
    assert text in docstring(text).replace("\\\\", "\\")


def test_lines_of_a_docstring_and_of_a_comment_are_indented() -> None:
    assert docstring("One.\n\n  two") == '"""One.\n\n      two\n    """'
    assert jsdoc("One.\n\n  two", "  ") == "  /**\n   * One.\n   *\n   *   two\n   */\n"
    assert jsdoc("") == ""
