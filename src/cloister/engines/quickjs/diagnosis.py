"""What is wrong with a cell and where, as far as its own source tells. Runs in the worker, on hostile text.

Positions: QuickJS names a function, a line and a column of the code that it was given; here they become a place in
the cell that its author wrote, or nothing when the frame belongs to an earlier cell.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from cloister.engines.quickjs.erase import Erased, guest_position, original_position
from cloister.engines.quickjs.syntax import PROBLEM_LIMIT

Diagnostic: TypeAlias = dict[str, Any]

# A blank line in front of each cell: QuickJS miscounts columns on the first line.
PREFIX = "\n"
# How a name stands on the guest's global object.
ABSENT, OURS, THEIRS = range(3)
_BUILT_IN = ("print", "secret", "sleep")
_FRAMES = 32
_WORD = re.compile(r"[\w$]+")
_UNDEFINED = re.compile(r"ReferenceError: '?([\w$]+)'? is not defined")
_PROPERTY = re.compile(r"TypeError: cannot (?:read|set) property '([\w$]+)' of (?:undefined|null)")
_LONGEST_NAME = 100
_MOST_SUSPECTS = 200


def remember(erased: Erased) -> str:
    """JSON that the guest keeps with the running cell, so that its errors can be placed after a wake elsewhere."""
    functions = [(f.name, f.line, f.end_line) for f in erased.functions]
    return json.dumps({"functions": functions, "shifts": erased.shifts, "code": erased.code}, separators=(",", ":"))


def place(frames: str, meta: dict[str, Any] | None, message: str) -> list[int] | None:
    """The innermost of `frames` that lies in the cell which `meta` remembers, as line and column of its source."""
    if meta is None:
        return None
    code: str = meta["code"]
    shifts: tuple[tuple[int, int, int], ...] = tuple((at[0], at[1], at[2]) for at in meta["shifts"])
    for frame in frames.split("\n")[:_FRAMES]:
        name, _, rest = frame.partition("\t")
        line, _, column = rest.partition("\t")
        if not (line.isdigit() and column.isdigit()):
            continue
        at = _in_code(code, int(line), int(column))
        end = code.count("\n") + 1 if name == "<eval>" else _end_of(meta["functions"], name, at[0])
        if end is not None:
            return list(original_position(shifts, *_sharpened(code, at, end, message)))
    return None


def _in_code(code: str, line: int, column: int) -> tuple[int, int]:
    if line <= 1:
        return 1, 1
    line, column = guest_position(PREFIX + code, line, column)
    return line - 1, column


def _end_of(functions: list[list[Any]], name: str, line: int) -> int | None:
    """The last line of this cell's function of that name around that line."""
    for own, first, last in functions:
        if (own or "<anonymous>") == name and first <= line <= last:
            return last
    return None


def _sharpened(code: str, at: tuple[int, int], end: int, message: str) -> tuple[int, int]:
    """Where the thing stands that the message names, from `at` on; `at` if it is not found.

    QuickJS keeps the place of calls and throws only. A name that is not defined or a property of nothing is
    reported at the call before it, or at the first line of its function.
    """
    if found := _UNDEFINED.match(message):
        wanted = re.compile(rf"(?<![\w$.]){re.escape(found[1])}(?![\w$])")
    elif found := _PROPERTY.match(message):
        wanted = re.compile(rf"[\w$.]*[\w$)\]]\s*\.\s*{re.escape(found[1])}(?![\w$])")
    else:
        return at
    lines = code.split("\n")
    for line in range(at[0], min(end, len(lines)) + 1):
        hit = wanted.search(lines[line - 1], at[1] - 1 if line == at[0] else 0)
        if hit is not None:
            return line, hit.start() + 1
    return at


def mentioned(code: str, names: Collection[str]) -> list[str]:
    """The tools and namespaces that a cell may mean by a bare name: only those become global variables."""
    return sorted(set(_WORD.findall(code)) & {name.partition(".")[0] for name in names})


def problems(erased: Erased) -> list[Diagnostic]:
    return [
        {"code": p.code, "message": p.message, "hint": p.hint, "span": [p.line, p.column, p.end_line, p.end_column]}
        for p in erased.problems
    ]


def suspects(erased: Erased, names: Collection[str]) -> list[Diagnostic]:
    """Calls of what only a tool could be, and none is, unless the program has a variable of that name: see `guilty`."""
    spaces = {name.partition(".")[0] for name in names if "." in name}
    found: list[Diagnostic] = []
    for reference in erased.references:
        if not _suspicious(reference.name, reference.awaited, names, spaces):
            continue
        said = reference.name.removeprefix("tools.")
        near: list[str] = []
        if len(said) <= _LONGEST_NAME:
            near = difflib.get_close_matches(said, names, n=1, cutoff=0.6)
        else:
            said = said[:_LONGEST_NAME] + "..."
        span = [reference.line, reference.column, reference.end_line, reference.end_column]
        found.append({"name": reference.name, "said": said, "near": near, "span": span})
        if len(found) == _MOST_SUSPECTS:
            break
    return found


def guilty(suspected: list[Diagnostic], standing: Callable[[list[str]], list[int]]) -> list[Diagnostic]:
    """The suspects that nothing on the global object excuses; `standing` tells how names stand there."""
    roots = sorted({suspect["name"].partition(".")[0] for suspect in suspected})
    stands = dict(zip(roots, standing(roots), strict=True)) if roots else {}
    found: list[Diagnostic] = []
    for suspect in suspected:
        root, dot, _ = suspect["name"].partition(".")
        # A program's own variable of that name is its own business.
        if stands[root] == THEIRS or (not dot and stands[root] == OURS and root in _BUILT_IN):
            continue
        message = f"there is no tool `{suspect['said']}`"
        found.append({"code": "UNKNOWN_TOOL", "message": message, "near": suspect["near"], "span": suspect["span"]})
    return found[:PROBLEM_LIMIT]


def _suspicious(name: str, awaited: bool, names: Collection[str], spaces: set[str]) -> bool:
    root, dot, rest = name.partition(".")
    if not dot:
        return awaited and name not in names
    if root == "tools":
        return rest not in names and rest not in spaces
    return root in spaces and name not in names
