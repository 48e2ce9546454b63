"""The languages a session can speak."""

from enum import StrEnum

from cloister.core.errors import InvalidLanguage


class Language(StrEnum):
    PYTHON = "python"
    TYPESCRIPT = "typescript"


# What Python programs can import beside the namespaces of tools: none of those can have such a name.
PYTHON_MODULES: frozenset[str] = frozenset(
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools "
    "json math os pathlib random re sys time tomllib typing unicodedata".split()
)

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
