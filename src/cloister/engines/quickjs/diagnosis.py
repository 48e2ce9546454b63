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

Diagnostic: TypeAlias = dict[str, Any]

# A blank line in front of each cell: QuickJS miscounts columns on the first line.
PREFIX = "\n"
# How a name stands on the guest's global object.
ABSENT, OURS, THEIRS = range(3)
_BUILT_IN = ("print", "sleep")
_FRAMES = 32
_WORD = re.compile(r"[\w$]+")


def remember(erased: Erased) -> str:
    """JSON that the guest keeps with the running cell, so that its errors can be placed after a wake elsewhere."""
    functions = [(f.name, f.line, f.column, f.end_line, f.end_column) for f in erased.functions]
    code = "" if erased.code.isascii() else erased.code
    return json.dumps({"functions": functions, "shifts": erased.shifts, "code": code}, separators=(",", ":"))


def place(frames: str, meta: dict[str, Any] | None) -> list[int] | None:
    """The innermost of `frames` that lies in the cell which `meta` remembers."""
    if meta is None:
        return None
    functions: list[list[Any]] = meta["functions"]
    shifts: tuple[tuple[int, int, int], ...] = tuple((at[0], at[1], at[2]) for at in meta["shifts"])
    for frame in frames.split("\n")[:_FRAMES]:
        name, _, rest = frame.partition("\t")
        line, _, column = rest.partition("\t")
        if not (line.isdigit() and column.isdigit()):
            continue
        at = _in_source(int(line), int(column), shifts, meta["code"])
        if name == "<eval>" or any(_holds(function, name, at) for function in functions):
            return [at[0], at[1]]
    return None


def _in_source(line: int, column: int, shifts: tuple[tuple[int, int, int], ...], code: str) -> tuple[int, int]:
    if line <= 1:
        return 1, 1
    if code:
        line, column = guest_position(PREFIX + code, line, column)
    return original_position(shifts, line - 1, column)


def _holds(function: list[Any], name: str, at: tuple[int, int]) -> bool:
    # By lines: for what QuickJS keeps no position of, it names the start of the function's line.
    own, line, _, end_line, _ = function
    return (own or "<anonymous>") == name and line <= at[0] <= end_line


def mentioned(code: str, names: Collection[str]) -> list[str]:
    """The tools and namespaces that a cell may mean by a bare name: only those become global variables."""
    return sorted(set(_WORD.findall(code)) & {name.partition(".")[0] for name in names})


def problems(erased: Erased) -> list[Diagnostic]:
    return [
        {"code": p.code, "message": p.message, "hint": p.hint, "span": [p.line, p.column, p.end_line, p.end_column]}
        for p in erased.problems
    ]


def unknown_tools(
    erased: Erased, names: Collection[str], standing: Callable[[list[str]], list[int]]
) -> list[Diagnostic]:
    """Calls of what only a tool could be, and none is. `standing` tells how names stand on the global object."""
    spaces = {name.partition(".")[0] for name in names if "." in name}
    suspects = [r for r in erased.references if _suspicious(r.name, r.awaited, names, spaces)]
    if not suspects:
        return []
    roots = sorted({reference.name.partition(".")[0] for reference in suspects})
    stands = dict(zip(roots, standing(roots), strict=True))
    found: list[Diagnostic] = []
    for reference in suspects:
        root, dot, _ = reference.name.partition(".")
        # A program's own variable of that name is its own business.
        if stands[root] == THEIRS or (not dot and stands[root] == OURS and root in _BUILT_IN):
            continue
        said = reference.name.removeprefix("tools.")
        # `shop.x` and `tools.x` are compared with what may follow there, then with everything.
        near = difflib.get_close_matches(said, names, n=1, cutoff=0.6)
        span = [reference.line, reference.column, reference.end_line, reference.end_column]
        found.append({"code": "UNKNOWN_TOOL", "message": f"there is no tool `{said}`", "near": near[:1], "span": span})
    return found


def _suspicious(name: str, awaited: bool, names: Collection[str], spaces: set[str]) -> bool:
    root, dot, rest = name.partition(".")
    if not dot:
        return awaited and name not in names
    if root == "tools":
        return rest not in names and rest not in spaces
    return root in spaces and name not in names
