"""One walk over the tree of a cell: what it collects, and how a node is told about its surroundings.

Knows no TypeScript: what happens at a node is registered with `on` by erase.py and lower.py. Iterative, because
hostile source nests deeper than Python may recurse.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from .syntax import LANGUAGE, PROBLEM_LIMIT, Edits, Problem, Shifts, operand

__all__ = [
    "ASYNC",
    "AWAITED",
    "BIND",
    "CELL",
    "NO_MODULES",
    "SEVER",
    "SYNC",
    "TOP",
    "Erased",
    "Erasure",
    "FunctionRange",
    "Reference",
    "given_name",
    "on",
    "static_name",
]


@dataclass(frozen=True, slots=True)
class FunctionRange:
    """Where a function of this cell stands, under the name that QuickJS shows in a stack ('' when anonymous)."""

    name: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Reference:
    """The callee of a call to something this cell does not bind: `x`, `tools.x` or `ns.x`; `awaited` if directly so."""

    name: str
    line: int
    column: int
    end_line: int
    end_column: int
    awaited: bool


@dataclass(frozen=True, slots=True)
class Erased:
    """A cell ready to run, or (code '') the problems that stop it. Positions other than `shifts` are the source's."""

    code: str
    problems: tuple[Problem, ...]
    functions: tuple[FunctionRange, ...]
    references: tuple[Reference, ...]
    has_value: bool
    shifts: Shifts


# What a node is told by its parent: a name for an anonymous function, or one of these, compared by identity.
TOP: Final = "\0top level"
BIND: Final = "\0binds names"
AWAITED: Final = "\0awaited"
SEVER: Final = "\0ends a statement"

# What encloses a node: `await` is fine in the first and the last, `return` in the last two.
CELL, SYNC, ASYNC = range(3)

NO_MODULES: Final = "tools are global: call `await tools.name({...})`; there are no modules"


class Erasure(Edits):
    """One walk over one tree: collects edits, problems, functions and references."""

    def __init__(self, source: str, data: bytes) -> None:
        super().__init__(source, data)
        self.stack: list[tuple[Node, int, str]] = []
        self.problems: list[Problem] = []
        self.functions: list[FunctionRange] = []
        self.calls: list[tuple[str, Reference]] = []
        self.bound: set[str] = set()
        self.enums: set[str] = set()
        self.has_value = False

    def run(self, root: Node) -> Erased:
        stack = self.stack
        stack.append((root, CELL, ""))
        while stack:
            node, scope, hint = stack.pop()
            handler = HANDLERS.get(node.kind_id)
            if handler is not None:
                handler(self, node, scope, hint)
            elif children := node.named_children:
                stack.extend([(child, scope, "") for child in reversed(children)])
        references = tuple(reference for root_name, reference in self.calls if root_name not in self.bound)
        for reference in references:
            if reference.name == "require":
                span = (reference.line, reference.column, reference.end_line, reference.end_column)
                self.problems.append(Problem("UNSUPPORTED_FEATURE", "`require` is not supported", NO_MODULES, *span))
        if self.problems:
            problems = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
            return Erased("", tuple(problems[:PROBLEM_LIMIT]), tuple(self.functions), references, self.has_value, ())
        code, shifts = self.assemble()
        return Erased(code, (), tuple(self.functions), references, self.has_value, shifts)

    def push(self, nodes: list[Node], scope: int, hint: str = "") -> None:
        self.stack.extend([(node, scope, hint) for node in reversed(nodes)])

    def push_with(self, entries: list[tuple[Node, int, str]]) -> None:
        self.stack.extend(reversed(entries))

    def bind(self, name: Node | None) -> str:
        if name is None:
            return ""
        text = self.text(name)
        self.bound.add(text)
        return text

    def refuse(self, node: Node, message: str, hint: str | None, code: str = "UNSUPPORTED_FEATURE") -> None:
        # Sorting and cutting come last; the bound here only keeps hostile input from filling memory.
        if len(self.problems) < PROBLEM_LIMIT * 10:
            self.problems.append(Problem(code, message, hint, *self.positions.span(node)))

    def function(self, node: Node, name: str) -> None:
        self.functions.append(FunctionRange(name, *self.positions.span(node)))


Handler = Callable[[Erasure, Node, int, str], None]
HANDLERS: Final[dict[int, Handler]] = {}


def on(*kinds: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for kind in kinds:
            number = LANGUAGE.id_for_node_kind(kind, True)
            assert number is not None, f"the grammar has no node {kind!r}"
            HANDLERS[number] = handler
        return handler

    return register


def static_name(erasure: Erasure, key: Node | None) -> str:
    """The name a property key gives to its function, as far as the text shows it."""
    if key is None:
        return ""
    if key.type == "computed_property_name":
        key = operand(key)
        if key is None or key.type not in ("string", "number"):
            return ""
    return erasure.text(key)[1:-1] if key.type == "string" else erasure.text(key)


def given_name(hint: str) -> str:
    return "" if hint[:1] == "\0" else hint
