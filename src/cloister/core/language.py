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

# What Python programs have without an import, and a tool of such a name cannot take the place of.
PYTHON_BUILTINS: frozenset[str] = frozenset(
    "ArithmeticError AssertionError AttributeError BaseException Ellipsis Exception FileExistsError FileNotFoundError "
    "ImportError IndexError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError "
    "NameError NotADirectoryError NotImplemented NotImplementedError OSError OverflowError PermissionError "
    "RecursionError RuntimeError StopIteration SyntaxError SystemExit TimeoutError TypeError UnboundLocalError "
    "UnicodeDecodeError UnicodeEncodeError ValueError ZeroDivisionError __debug__ __doc__ __loader__ __name__ "
    "__package__ __spec__ abs all any bin bool bytes chr complex dict divmod enumerate eval exec filter float format "
    "frozenset getattr hasattr hash hex id int isinstance iter len list locals map max min next object oct open ord "
    "pow print property range repr reversed round set setattr slice sorted str sum tuple type zip".split()
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
