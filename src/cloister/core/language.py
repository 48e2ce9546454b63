"""The languages a session can speak."""

from enum import StrEnum

from cloister.core.errors import InvalidLanguage


class Language(StrEnum):
    PYTHON = "python"
    TYPESCRIPT = "typescript"


# Spellings that we read but never write.
_ALIASES = {"type_script": Language.TYPESCRIPT}


def parse_language(text: object) -> Language:
    """The language that `text` names; raises `InvalidLanguage` with the choices otherwise."""
    if isinstance(text, str):
        if text in _ALIASES:
            return _ALIASES[text]
        try:
            return Language(text)
        except ValueError:
            pass
    raise InvalidLanguage(f"unknown language {text!r}: use 'python' or 'typescript'")
