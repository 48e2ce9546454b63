"""What a docstring says about each parameter, in the three usual ways of writing it: Google, NumPy, Sphinx.

Tolerant: what is not understood stays in the description. A section leaves the description only when every entry of
it went to a parameter, so nothing that the author wrote is lost.
"""

import inspect
import re
from collections.abc import Collection
from dataclasses import dataclass, field

_SECTION = r"(?:Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters)"
_GOOGLE = re.compile(rf"{_SECTION}:\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?")
_NUMPY = re.compile(_SECTION)
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_UNDERLINE = re.compile(r"-{3,}\s*")
_SPHINX = re.compile(r":(param|parameter|arg|argument|type)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")


@dataclass(slots=True)
class Docstring:
    description: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str, names: Collection[str]) -> Docstring:
    """The docstring of a function whose parameters are `names`."""
    lines = inspect.cleandoc(text).split("\n")
    found: dict[str, str] = {}
    kept: list[str] = []
    at = 0
    while at < len(lines):
        entries, end = _section(lines, at)
        for name, said in entries:
            if name in names and said:
                found.setdefault(name, said)
        if not entries or any(name not in names for name, _ in entries):
            kept.extend(lines[at : max(end, at + 1)])
        at = max(end, at + 1)
    return Docstring(inspect.cleandoc(re.sub(r"\n{3,}", "\n\n", "\n".join(kept))), found)


_Entries = list[tuple[str, str]]


def _section(lines: list[str], at: int) -> tuple[_Entries, int]:
    """The entries of the section that starts in this line, and the line after it; none if there starts no section."""
    line = lines[at]
    if _GOOGLE.fullmatch(line):
        return _google(lines, at + 1)
    if _NUMPY.fullmatch(line.rstrip()) and at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1]):
        return _numpy(lines, at + 2)
    if _SPHINX.match(line):
        return _sphinx(lines, at)
    return [], at + 1


def _google(lines: list[str], at: int) -> tuple[_Entries, int]:
    end = _indented(lines, at)
    block = [line for line in lines[at:end] if line.strip()]
    if not block:
        return [], at
    margin = _margin(block[0])
    entries: _Entries = []
    for line in block:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _margin(line) <= margin else None
        if entry is not None:
            entries.append((entry[1], entry[2] or ""))
        elif not entries:
            return [], at
        else:
            _continue(entries, 1, line)
    return entries, end


def _numpy(lines: list[str], at: int) -> tuple[_Entries, int]:
    entries: _Entries = []
    group = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if line.strip() and _margin(line) == 0:
            entry = _NUMPY_ENTRY.fullmatch(line)
            if entry is None or _UNDERLINE.fullmatch(following):
                break
            names = [name.strip().lstrip("*") for name in entry[1].split(",")]
            entries.extend((name, "") for name in names)
            group = len(names)
        elif line.strip() and entries:
            _continue(entries, group, line)
        at += 1
    return entries, at


def _sphinx(lines: list[str], at: int) -> tuple[_Entries, int]:
    entry = _SPHINX.match(lines[at])
    assert entry is not None
    end = _indented(lines, at + 1)
    if entry[1] == "type":
        # The hint says it better.
        return [(entry[2], "")], end
    return [(entry[2], " ".join([entry[3].strip(), *(line.strip() for line in lines[at + 1 : end])]).strip())], end


def _indented(lines: list[str], at: int) -> int:
    while at < len(lines) and (not lines[at].strip() or _margin(lines[at]) > 0):
        at += 1
    return at


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continue(entries: _Entries, group: int, line: str) -> None:
    for n in range(len(entries) - group, len(entries)):
        name, said = entries[n]
        entries[n] = (name, f"{said} {line.strip()}".strip())
