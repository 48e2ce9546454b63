"""Languages by name."""

import pytest

from cloister.core.errors import InvalidLanguage
from cloister.core.language import Language, parse_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("python", Language.PYTHON),
        ("typescript", Language.TYPESCRIPT),
        ("type_script", Language.TYPESCRIPT),
        (Language.PYTHON, Language.PYTHON),
    ],
)
def test_language_is_read_by_its_name(text: str, language: Language) -> None:
    assert parse_language(text) is language


@pytest.mark.parametrize("text", ["", "Python", "js", "python ", None, 5, ["python"]])
def test_other_language_is_refused_with_the_choices(text: object) -> None:
    with pytest.raises(InvalidLanguage, match="'python' or 'typescript'"):
        parse_language(text)
