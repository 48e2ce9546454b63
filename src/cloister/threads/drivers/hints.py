"""Hints for mistakes that models make, where the check of the language has nothing better to say.

Most are met there: unknown tools, `tools.x` and bare names, imports, `require`, a missing `await`. Here are those that
show only when a program runs, or that are no mistake of the language but of whoever took it for another.
"""

import re
from dataclasses import replace

from cloister.cells.notes import with_hint
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.language import Language
from cloister.threads.drivers.fences import blocks_of
from cloister.tools.registry import ToolRegistry

_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
_SCRIPT = re.compile(r"^\s*(?:const|let|var|function|interface|export)\b|=>\s*[{(]|^\s*//", re.MULTILINE)


def hinted(error: ErrorObject, code: str, language: Language, tools: ToolRegistry) -> ErrorObject:
    """The error with a hint that the model can act on, if there is one to give."""
    if error == with_hint(replace(error, hint=None)) and error.code == Code.SYNTAX_ERROR and _has_block(code):
        return replace(error, hint="send the program alone: no words around it, and no ``` lines")
    if language is not Language.PYTHON:
        return error
    if error.code == Code.SYNTAX_ERROR and _SCRIPT.search(code):
        return replace(error, hint="programs are Python here, not TypeScript: write it in Python")
    found = _NAME.search(error.message)
    if found is None:
        return error
    name = found[1]
    if name == "require":
        return replace(error, hint="a tool is called by its own name, without an import: `await name(...)`")
    of_it = sorted(full for full in tools.names() if full.startswith(f"{name}."))
    if of_it:
        return replace(error, hint=f"write `from {name} import {of_it[0].partition('.')[2]}` first, or `import {name}`")
    return error


def _has_block(code: str) -> bool:
    """Whether a program stands in it as in an answer to a person."""
    return any(block.language is not None for block in blocks_of(code))
