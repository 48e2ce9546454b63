"""What a program imports from modules that Monty has, but only in part.

ty knows the whole standard library and Monty does not, so `from typing import TypedDict` passes every check and fails
in the run. Whether Monty has a name is asked of Monty, once. Whether a line that looks like an import is one, and not
part of a text, is asked of ty: it must complain when the name is replaced by one that nobody has.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cloister.core.diagnostic import Span
from cloister.core.language import PYTHON_MODULES

_FROM = re.compile(
    r"^[ \t]*from[ \t]+([\w.]{1,80})[ \t]+import[ \t]+(\([^)#]{1,2000}\)|[^\n#;(]{1,2000})", re.MULTILINE
)
_PLAIN = re.compile(r"^[ \t]*import[ \t]+([^\n#;]{1,2000})", re.MULTILINE)
_NAME = re.compile(r"([A-Za-z_][\w.]*)(?:[ \t]+as[ \t]+\w+)?")
_MOST = 50


@dataclass(frozen=True, slots=True)
class Import:
    """One imported thing: the statement that imports only it, what it is called, and where its name stands."""

    statement: str
    shown: str
    start: int
    end: int

    def replaced(self, code: str) -> str:
        """The program with a name in its place that no module has."""
        return f"{code[: self.start]}cloister_no_such_name{code[self.end :]}"

    def span(self, code: str) -> Span:
        line = code.count("\n", 0, self.start) + 1
        column = self.start - (code.rfind("\n", 0, self.start) + 1) + 1
        return Span(line, column, line, column + self.end - self.start)


def find_imports(code: str) -> list[Import]:
    """What the program seems to import, of the modules that are here in part. Not whole modules: those are known."""
    return list(_found(code)) if "import" in code else []


def _found(code: str) -> Iterator[Import]:
    count = 0
    for statement in _FROM.finditer(code):
        module = statement[1]
        if module.split(".")[0] not in PYTHON_MODULES:
            continue
        for name in _NAME.finditer(statement[2]):
            start = statement.start(2) + name.start(1)
            yield Import(f"from {module} import {name[1]}", f"{module}.{name[1]}", start, start + len(name[1]))
            if (count := count + 1) == _MOST:
                return
    for statement in _PLAIN.finditer(code):
        for name in _NAME.finditer(statement[1]):
            if "." in name[1] and name[1].split(".")[0] in PYTHON_MODULES:
                start = statement.start(1) + name.start(1)
                yield Import(f"import {name[1]}", name[1], start, start + len(name[1]))
                if (count := count + 1) == _MOST:
                    return
