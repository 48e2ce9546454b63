import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cli.repl.input import indentation, is_complete
from cloister.core.language import Language

PYTHON, TYPESCRIPT = Language.PYTHON, Language.TYPESCRIPT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 + 1",
        "x = 1; y = 2",
        "await f(1)",
        "# only a comment",
        "f(1,\n  2)",
        "'''a\nb'''",
        "def f():\n    return 1\n",
        "def f():\n    return 1\n    ",
        "if x:\n    y\nelse:\n    z\n",
        "match x:\n    case 1:\n        y\n",
        "@d\ndef f(): pass\n",
        "def f():\n    a = 1\n\n    return a\nf()",
        # What can never become right goes to the engine, which says why.
        "x = )",
        "1 +* 2",
        "'open",
        "if x:\n",
        "try:\n    x\n",
        "x = 1\n  y = 2",
        "x = '\0'",
        "(" * 300 + ")" * 300,
        ":cells",
        ":approve (",
    ],
)
def test_python_that_is_a_cell(text: str) -> None:
    assert is_complete(text, PYTHON)


@pytest.mark.parametrize(
    "text",
    [
        "f(1,",
        "f(1,\n",
        "[\n\n",
        "{'a': (1",
        "'''open",
        "'''open\n",
        "x = \\",
        "def f():",
        "def f():\n    return 1",
        "if x: y",
        "async def f():\n    await g()",
        "for x in y:\n    z\nelse:",
        "match x:\n    case 1:\n        y",
        "try:\n    x",
        "@d",
        "class A:\n    x = 1",
    ],
)
def test_python_that_goes_on(text: str) -> None:
    assert not is_complete(text, PYTHON)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 + 1",
        "const f = (a: number) => { return [a] }",
        "'('",
        '"{"',
        "'\\'('",
        "'open (",
        "// (",
        "/* ( */",
        "`${`${a}`} (`",
        "`a\\`(`",
        "`\\${(`",
        "/[(/]/.test('x')",
        "x.replace(/\\(/g, '')",
        "return /(/",
        "a / b / c",
        "f(a) / (b)",
        "a)",
        "(]",
        ":quit",
    ],
)
def test_typescript_that_is_a_cell(text: str) -> None:
    assert is_complete(text, TYPESCRIPT)


@pytest.mark.parametrize(
    "text",
    [
        "f(",
        "const f = () => {",
        "[1,\n",
        "`open",
        "`${a",
        "`${`a`",
        "`${a} (",
        "/* open",
        "f('('",
        "f(// )",
        "f(/\\)/",
        "a / (b",
    ],
)
def test_typescript_that_goes_on(text: str) -> None:
    assert not is_complete(text, TYPESCRIPT)


@pytest.mark.parametrize(
    ("text", "language", "blanks"),
    [
        ("x = 1", PYTHON, 0),
        ("def f():", PYTHON, 4),
        ("def f():\n    if x:", PYTHON, 8),
        ("def f():\n    x = 1", PYTHON, 4),
        ("f(", PYTHON, 4),
        ("const f = () => {", TYPESCRIPT, 4),
        ("  a:", TYPESCRIPT, 2),
    ],
)
def test_next_line_begins_where_the_last_one_suggests(text: str, language: Language, blanks: int) -> None:
    assert indentation(text, language) == " " * blanks


@given(st.text(alphabet="([{}])'\"`$\\/*\n ax:=.", max_size=40), st.sampled_from([PYTHON, TYPESCRIPT]))
def test_any_text_is_one_or_the_other(text: str, language: Language) -> None:
    assert is_complete(text, language) in (True, False)
