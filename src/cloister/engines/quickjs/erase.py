"""Turns one TypeScript cell into JavaScript for QuickJS without moving a line or a column.

Types become spaces; top-level `let`, `const`, `class` and `enum` become `var`, so that a later cell may declare them
again; the little that cannot be erased (enums, parameter properties) is lowered by text inserted in place, and every
insertion is recorded in `shifts`. Runs inside the sealed worker on hostile text: it never raises, never recurses,
and is linear in the size of the source. It knows no sessions, no tools and no QuickJS API.

Invariant: a token that is not inserted stands on its source line, at its source column plus the shifts before it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import tree_sitter
from tree_sitter import Node

from .syntax import (
    LANGUAGE,
    PROBLEM_LIMIT,
    Edits,
    Positions,
    Problem,
    diagnose,
    guest_position,
    lone_surrogate,
    operand,
    original_position,
    token,
)

__all__ = ["Erased", "FunctionRange", "Problem", "Reference", "erase", "guest_position", "original_position"]


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
    shifts: tuple[tuple[int, int, int], ...]


def erase(source: str) -> Erased:
    """The JavaScript of one cell. Total: whatever is wrong with the source is said in `problems`."""
    try:
        data = source.encode()
    except UnicodeEncodeError as error:
        return Erased("", (lone_surrogate(source, error.start),), (), (), False, ())
    root = _PARSER.parse(data).root_node
    if root.has_error:
        return Erased("", diagnose(data, root, Positions(data)), (), (), False, ())
    return _Erasure(source, data).run(root)


_PARSER: Final = tree_sitter.Parser(LANGUAGE)

# What a node is told by its parent: a name for an anonymous function, or one of these, compared by identity.
_TOP: Final = "\0top level"
_BIND: Final = "\0binds names"
_AWAITED: Final = "\0awaited"
_SEVER: Final = "\0ends a statement"

# What encloses a node: `await` is fine in the first and the last, `return` in the last two.
_CELL, _SYNC, _ASYNC = range(3)

_NO_MODULES: Final = "tools are global: call `await tools.name({...})`; there are no modules"
_STATEMENT_TYPES: Final = (
    "interface_declaration",
    "type_alias_declaration",
    "ambient_declaration",
    "function_signature",
)
_MEMBER_TYPES: Final = ("method_signature", "abstract_method_signature", "index_signature")
_FIELD_MODIFIERS: Final = ("readonly", "?", "!", "accessibility_modifier", "override_modifier")
_ENUM_HEAD: Final = (
    " = (({0}, __enum_next = 0, __enum_put = (__k, __v = __enum_next) => {{ {0}[__k] = __v;"
    ' if (typeof __v === "number") {{ {0}[__v] = __k; __enum_next = __v + 1 }} }}) =>'
)


class _Erasure(Edits):
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
        stack.append((root, _CELL, ""))
        while stack:
            node, scope, hint = stack.pop()
            handler = _HANDLERS.get(node.kind_id)
            if handler is not None:
                handler(self, node, scope, hint)
            elif children := node.named_children:
                stack.extend([(child, scope, "") for child in reversed(children)])
        references = tuple(reference for root_name, reference in self.calls if root_name not in self.bound)
        for reference in references:
            if reference.name == "require":
                span = (reference.line, reference.column, reference.end_line, reference.end_column)
                self.problems.append(Problem("UNSUPPORTED_FEATURE", "`require` is not supported", _NO_MODULES, *span))
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


_Handler = Callable[[_Erasure, Node, int, str], None]
_HANDLERS: Final[dict[int, _Handler]] = {}


def _on(*kinds: str) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        for kind in kinds:
            number = LANGUAGE.id_for_node_kind(kind, True)
            assert number is not None, f"the grammar has no node {kind!r}"
            _HANDLERS[number] = handler
        return handler

    return register


def _static_name(erasure: _Erasure, key: Node | None) -> str:
    """The name a property key gives to its function, as far as the text shows it."""
    if key is None:
        return ""
    if key.type == "computed_property_name":
        key = operand(key)
        if key is None or key.type not in ("string", "number"):
            return ""
    return erasure.text(key)[1:-1] if key.type == "string" else erasure.text(key)


# -- types: blanked where they stand -------------------------------------------------------------------------------


@_on(
    "type_annotation",
    "asserts_annotation",
    "type_predicate_annotation",
    "type_parameters",
    "type_arguments",
    "implements_clause",
    "accessibility_modifier",
    "override_modifier",
)
def _blank_type(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.blank_node(node)


@_on(*_STATEMENT_TYPES)
def _blank_type_statement(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.blank_statement(node)


@_on("as_expression", "satisfies_expression")
def _cast_after(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    word, value = token(node, "as", "satisfies"), operand(node)
    if word is not None and value is not None:
        erasure.blank(word.start_byte, node.end_byte, head=";" if hint is _SEVER else "")
        erasure.push([value], scope, "" if hint is _SEVER else hint)


@_on("type_assertion")
def _cast_before(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    types, value = node.named_children[0], node.named_children[-1]
    if value.type == "binary_expression":
        # `<T>f<U>(x)`: the grammar reads the second pair of angles as comparisons.
        erasure.refuse(node, "an angle-bracket cast of a generic call is ambiguous", "write `value as Type`")
        return
    # Without parentheses `() => <T>{}` would turn into a block and `return <T>⏎x` into `return;`.
    starts_statement = erasure.data[value.start_byte : value.start_byte + 8].startswith((b"{", b"function", b"class"))
    if starts_statement or erasure.has_line_break(types.start_byte, value.start_byte):
        erasure.blank(types.start_byte, types.end_byte, head="(")
        erasure.insert_after(node, ")")
    else:
        erasure.blank_node(types)
    erasure.push([value], scope, hint)


@_on("binary_expression")
def _binary(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    left = node.children[0]
    if node.children[1].type == ">" and left.type == "binary_expression" and left.children[1].type == "<":
        # What the grammar makes of a generic tag: f<T>`text`. As a comparison it is not TypeScript either.
        erasure.refuse(node, "`a < b > c` is two comparisons here", "drop the type arguments, or add parentheses")
        return
    erasure.push(node.named_children, scope)


@_on("non_null_expression")
def _non_null(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.blank_node(node.children[-1])
    erasure.push(node.named_children, scope, hint)


@_on("parenthesized_expression")
def _parentheses(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.push(node.named_children, scope, "" if hint is _TOP else hint)


# -- names that this cell binds ------------------------------------------------------------------------------------


@_on("identifier")
def _identifier(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    if hint is _BIND:
        erasure.bind(node)


@_on("shorthand_property_identifier_pattern")
def _shorthand(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.bind(node)


@_on("object_pattern", "array_pattern", "rest_pattern")
def _pattern(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.push(node.named_children, scope, hint)


@_on("pair_pattern")
def _pair_pattern(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    value = node.child_by_field_name("value")
    erasure.push_with([(child, scope, hint if child == value else "") for child in node.named_children])


@_on("assignment_pattern", "object_assignment_pattern")
def _default(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    left = node.child_by_field_name("left")
    name = erasure.text(left) if left is not None and not left.named_child_count else ""
    erasure.push_with([(child, scope, hint if child == left else name) for child in node.named_children])


@_on("catch_clause")
def _catch(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    parameter = node.child_by_field_name("parameter")
    erasure.push_with([(child, scope, _BIND if child == parameter else "") for child in node.named_children])


@_on("for_in_statement")
def _for_in(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    declared = node.child_by_field_name("left") if node.child_by_field_name("kind") is not None else None
    word = token(node, "await")
    if word is not None and scope == _SYNC:
        _refuse_await(erasure, word)
    erasure.push_with([(child, scope, _BIND if child == declared else "") for child in node.named_children])


# -- statements ----------------------------------------------------------------------------------------------------


@_on("program")
def _program(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    statements = node.named_children
    for statement in reversed(statements):
        kind = statement.type
        if kind in _STATEMENT_TYPES or kind in ("comment", "empty_statement") or _is_type_only(statement):
            continue
        erasure.has_value = kind == "expression_statement"
        break
    erasure.push(statements, scope, _TOP)


@_on("expression_statement")
def _expression_statement(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    if erasure.data[node.start_byte] == 0x7B:
        message = "a statement that starts with `{` is a block, not an object"
        erasure.refuse(node, message, "wrap the object in parentheses: ({ ... })", "SYNTAX_ERROR")
        return
    erasure.push(node.named_children, scope, hint)


@_on("sequence_expression")
def _sequence(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.push(node.named_children, scope, _TOP if hint is _TOP else "")


@_on("lexical_declaration")
def _lexical(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    children = node.children
    declarators = [child for child in node.named_children if child.type == "variable_declarator"]
    if hint is _TOP:
        keyword = children[0]
        constant = keyword.type == "const"
        erasure.overwrite(keyword, "var  " if constant else "var")
        for declarator in declarators:
            name = declarator.child_by_field_name("name")
            if name is None or declarator.child_by_field_name("value") is not None:
                continue
            if constant:
                erasure.refuse(declarator, "a `const` needs a value", "use `let`, or give it one", "SYNTAX_ERROR")
                continue
            # `var x` would keep the value of an earlier cell. Unended, it would go on into a next line's `(`.
            unended = declarator == declarators[-1] and children[-1].type != ";"
            erasure.insert_after(name, "=void 0;" if unended else "=void 0")
    erasure.push(node.named_children, scope)


@_on("variable_declarator")
def _declarator(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    name = node.child_by_field_name("name")
    mark = token(node, "!")
    if mark is not None:
        erasure.blank_node(mark)
    given = erasure.text(name) if name is not None and name.type == "identifier" else ""
    erasure.push_with([(child, scope, _BIND if child == name else given) for child in node.named_children])


@_on("return_statement")
def _return(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    if scope == _CELL:
        help_ = "the value of a cell is its last expression; drop `return`"
        erasure.refuse(node.children[0], "`return` outside a function", help_, "SYNTAX_ERROR")
    erasure.push(node.named_children, scope)


def _is_type_only(statement: Node) -> bool:
    """Imports and exports that leave nothing at run time."""
    if statement.type == "import_statement":
        return token(statement, "type") is not None
    if statement.type != "export_statement":
        return False
    declaration = statement.child_by_field_name("declaration")
    if declaration is not None:
        return declaration.type in _STATEMENT_TYPES
    clause = token(statement, "export_clause")
    empty = clause is not None and not clause.named_child_count and statement.child_by_field_name("source") is None
    return empty or token(statement, "type") is not None


@_on("import_statement", "import_alias")
def _import(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    if _is_type_only(node):
        erasure.blank_statement(node)
    else:
        erasure.refuse(node, "`import` is not supported", _NO_MODULES)


@_on("export_statement")
def _export(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    declaration = node.child_by_field_name("declaration")
    word = token(node, "export")
    if _is_type_only(node):
        erasure.blank_statement(node)
    elif token(node, "default") is not None:
        erasure.refuse(node, "`export default` is not supported", "drop `export default`: a cell is not a module")
    elif declaration is None or word is None:
        erasure.refuse(node, "`export` is not supported", _NO_MODULES)
    else:
        erasure.blank_node(word)
        erasure.push(node.named_children, scope, hint)


@_on("meta_property")
def _meta(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    if node.children[0].type == "import":
        erasure.refuse(node, "`import.meta` is not supported", _NO_MODULES)


@_on("internal_module", "module")
def _namespace(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.refuse(node, "namespaces are not supported", "use an object: const name = { ... }")


@_on("decorator")
def _decorator(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.refuse(node, "decorators are not supported", "call the function on the class or method instead")


@_on("string")
def _string(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    if erasure.has_line_break(node.start_byte, node.end_byte):
        # The grammar lets a raw line break pass; only an escaped one is a continuation.
        breaks = erasure.text(node).count("\n")
        escaped = sum(erasure.text(part).count("\n") for part in node.named_children if part.type == "escape_sequence")
        if breaks != escaped:
            help_ = "a string ends on its own line; use a `template` for several lines"
            erasure.refuse(node.children[0], "unterminated string", help_, "SYNTAX_ERROR")


@_on("assignment_expression")
def _assignment(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    left = node.child_by_field_name("left")
    word = node.children[0]
    if word.type == "using":
        erasure.bind(left)
        if hint is _TOP:
            help_ = "put it in a block, or use try/finally: the top level of a cell never ends"
            erasure.refuse(word, "`using` at the top level of a cell is not supported", help_)
    name = erasure.text(left) if left is not None and left.type == "identifier" else ""
    erasure.push_with([(child, scope, "" if child == left else name) for child in node.named_children])


@_on("pair")
def _pair(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    key = node.child_by_field_name("key")
    name = _static_name(erasure, key)
    erasure.push_with([(child, scope, "" if child == key else name) for child in node.named_children])


# -- calls ---------------------------------------------------------------------------------------------------------


def _refuse_await(erasure: _Erasure, word: Node) -> None:
    message = "`await` inside a function that is not async"
    erasure.refuse(word, message, "write `async` in front of the function", "SYNTAX_ERROR")


@_on("await_expression")
def _await(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    if scope == _SYNC:
        _refuse_await(erasure, node.children[0])
    value = operand(node)
    using = value is not None and value.type == "assignment_expression"
    erasure.push(node.named_children, scope, hint if using else _AWAITED)


@_on("call_expression")
def _call(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    callee = node.child_by_field_name("function")
    awaited = hint is _AWAITED
    severed = False
    if callee is not None:
        kind = callee.type
        if kind == "import":
            erasure.refuse(callee, "`import()` is not supported", _NO_MODULES)
        # `x as T` cannot be called: its line ended there, and the next one starts with `(`.
        severed = kind in ("as_expression", "satisfies_expression")
        target: Node | None = callee
        while target is not None and target.type in ("await_expression", "unary_expression", "binary_expression"):
            # The grammar reads `await f<T>(x)` as `(await f)<T>(x)`; the call is f's.
            awaited = target.type == "await_expression"
            target = target.named_children[-1] if target.named_child_count else None
        if target is not None and (path := _dotted(erasure, target)):
            root_name, name = path
            erasure.calls.append((root_name, Reference(name, *erasure.positions.span(target), awaited)))
    erasure.push_with([(child, scope, _SEVER if severed and child == callee else "") for child in node.named_children])


def _dotted(erasure: _Erasure, target: Node) -> tuple[str, str] | None:
    """The root and the whole of a callee like `x`, `tools.x`, `tools["x"]` or `tools.ns.x`."""
    names: list[str] = []
    while len(names) < 3:
        kind = target.type
        if kind == "identifier":
            root_name = erasure.text(target)
            return root_name, ".".join([root_name, *reversed(names)])
        if kind not in ("member_expression", "subscript_expression", "non_null_expression"):
            return None
        owner = target.named_children[0] if kind == "non_null_expression" else target.child_by_field_name("object")
        if kind != "non_null_expression":
            key = target.child_by_field_name("property" if kind == "member_expression" else "index")
            if key is None or key.type not in ("property_identifier", "string"):
                return None
            names.append(_static_name(erasure, key))
        if owner is None:
            return None
        target = owner
    return None


# -- functions -----------------------------------------------------------------------------------------------------


@_on(
    "function_declaration",
    "function_expression",
    "generator_function_declaration",
    "generator_function",
)
def _function(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    name = node.child_by_field_name("name")
    erasure.function(node, erasure.bind(name) or _given_name(hint))
    erasure.push(node.named_children, _inner_scope(node))


@_on("arrow_function")
def _arrow(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.function(node, _given_name(hint))
    inner = _inner_scope(node)
    single = node.child_by_field_name("parameter")
    generics = node.child_by_field_name("type_parameters")
    parameters = node.child_by_field_name("parameters")
    result = node.child_by_field_name("return_type")
    dropped: list[Node] = []
    if parameters is not None:
        # JavaScript allows no line break after `async` nor before `=>`: the parenthesis moves to the other side.
        if (
            generics is not None
            and inner == _ASYNC
            and erasure.has_line_break(generics.start_byte, parameters.start_byte)
        ):
            erasure.blank(generics.start_byte, generics.end_byte, head="(")
            erasure.blank_node(parameters.children[0])
            dropped.append(generics)
        if result is not None and erasure.has_line_break(parameters.end_byte, result.end_byte):
            erasure.blank_node(parameters.children[-1])
            erasure.blank(result.start_byte, result.end_byte, tail=")")
            dropped.append(result)
    erasure.push_with(
        [(child, inner, _BIND if child == single else "") for child in node.named_children if child not in dropped]
    )


@_on("method_definition")
def _method(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    name = _static_name(erasure, node.child_by_field_name("name"))
    for child in node.children:
        kind = child.type
        if kind == "?":
            erasure.blank_node(child)
        elif kind in ("get", "set"):
            name = f"{kind} {name}"
    if name == "constructor" and hint:
        # QuickJS shows a constructor under the name of its class.
        name = _given_name(hint)
        _parameter_properties(erasure, node)
    erasure.function(node, name)
    erasure.push(node.named_children, _inner_scope(node))


@_on("formal_parameters")
def _parameters(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    kept: list[Node] = []
    dropped = False
    for child in node.children:
        pattern = child.child_by_field_name("pattern") if child.is_named else None
        if pattern is not None and pattern.type == "this":
            erasure.blank_node(child)
            dropped = True
        elif child.is_named:
            kept.append(child)
        elif child.type == "," and dropped:
            erasure.blank_node(child)
            dropped = False
    erasure.push(kept, scope)


@_on("required_parameter", "optional_parameter")
def _parameter(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    pattern = node.child_by_field_name("pattern")
    for child in node.children:
        if child.type in ("?", "readonly"):
            erasure.blank_node(child)
    name = erasure.text(pattern) if pattern is not None and pattern.type == "identifier" else ""
    erasure.push_with([(child, scope, _BIND if child == pattern else name) for child in node.named_children])


def _given_name(hint: str) -> str:
    return "" if hint[:1] == "\0" else hint


def _inner_scope(function: Node) -> int:
    return _ASYNC if token(function, "async") is not None else _SYNC


def _parameter_properties(erasure: _Erasure, constructor: Node) -> None:
    """`constructor(private x: T)` also assigns: first thing in the body, or once `super()` has made `this`."""
    parameters, body = constructor.child_by_field_name("parameters"), constructor.child_by_field_name("body")
    if parameters is None or body is None:
        return
    assigned = ""
    for parameter in parameters.named_children:
        pattern = parameter.child_by_field_name("pattern")
        if pattern is not None and token(parameter, "accessibility_modifier", "readonly", "override_modifier"):
            assigned += f"this.{erasure.text(pattern)} = {erasure.text(pattern)};"
    if not assigned:
        return
    for statement in body.named_children:
        value = operand(statement) if statement.type == "expression_statement" else None
        callee = (
            value.child_by_field_name("function") if value is not None and value.type == "call_expression" else None
        )
        if callee is not None and callee.type == "super":
            erasure.insert_after(statement, ";" + assigned)
            return
    if erasure.data.find(b"super(", body.start_byte, body.end_byte) >= 0:
        erasure.refuse(body, "parameter properties need `super(...)` as a statement of its own", "assign in the body")
    erasure.insert_after(body.children[0], assigned)


# -- classes -------------------------------------------------------------------------------------------------------


@_on("class_declaration", "abstract_class_declaration", "class")
def _class(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    name = erasure.bind(node.child_by_field_name("name"))
    abstract = token(node, "abstract")
    if abstract is not None:
        erasure.blank_node(abstract)
    if hint is _TOP and name:
        keyword = token(node, "class") or node
        erasure.insert_before(keyword, f"var {name} = ")
        erasure.insert_after(node, ";")
    body = node.child_by_field_name("body")
    named = name or _given_name(hint)
    erasure.push_with([(child, scope, named if child == body else "") for child in node.named_children])


@_on("class_body")
def _class_body(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    children = node.children
    entries: list[tuple[Node, int, str]] = []
    for index, child in enumerate(children):
        kind = child.type
        if kind in _MEMBER_TYPES:
            erasure.blank_statement(child)
        elif kind == "public_field_definition":
            ended = children[index + 1].type == ";"
            entries.extend(_field(erasure, child, ended, scope))
        elif kind == "method_definition":
            entries.append((child, scope, hint or _BIND))
        elif child.is_named:
            entries.append((child, scope, ""))
    erasure.push_with(entries)


def _field(erasure: _Erasure, node: Node, ended: bool, scope: int) -> list[tuple[Node, int, str]]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    given = _static_name(erasure, name)
    entries: list[tuple[Node, int, str]] = []
    children = node.children
    if any(child.type in ("declare", "abstract") for child in children):
        erasure.blank_statement(node)
        return []
    for child in children:
        kind = child.type
        if child == name:
            entries.append((child, scope, ""))
        elif kind == "accessor":
            erasure.refuse(child, "`accessor` fields are not supported", "write a getter and a setter")
        elif kind in _FIELD_MODIFIERS:
            erasure.blank_node(child)
        elif kind == "type_annotation":
            # Untyped, `get: T⏎f() {}` would read as a getter f.
            head = "" if ended or value is not None else ";"
            erasure.blank(child.start_byte, child.end_byte, head)
        elif child.is_named:
            entries.append((child, scope, given))
    return entries


@_on("class_static_block")
def _static_block(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.function(node, "")
    erasure.push(node.named_children, _SYNC)


# -- enums ---------------------------------------------------------------------------------------------------------


@_on("enum_declaration")
def _enum(erasure: _Erasure, node: Node, scope: int, hint: str) -> None:
    """`enum E { A, B = 2 }` runs as `var E = (E => { put("A"); put("B", 2); return E })({});`, member by member."""
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return
    name = erasure.bind(name_node)
    for child in node.children:
        if child.type == "const":
            erasure.blank_node(child)
        elif child.type == "enum":
            erasure.overwrite(child, "var " if hint is _TOP else "let ")
    erasure.insert_after(name_node, _ENUM_HEAD.format(name))
    _enum_members(erasure, name, body, scope)
    erasure.insert_before(body.children[-1], f";return {name}")
    # A second declaration in the same cell adds to the first, as in TypeScript; in a later cell it starts anew.
    erasure.insert_after(body, f")({name});" if hint is _TOP and name in erasure.enums else ")({});")
    if hint is _TOP:
        erasure.enums.add(name)


def _enum_members(erasure: _Erasure, enum: str, body: Node, scope: int) -> None:
    members: set[str] = set()
    text_before = False
    entries: list[tuple[Node, int, str]] = []
    for child in body.children:
        if child.type == ",":
            erasure.overwrite(child, ";")
            continue
        if not child.is_named or child.type == "comment":
            continue
        assignment = child.type == "enum_assignment"
        key = child.child_by_field_name("name") if assignment else child
        value = child.child_by_field_name("value") if assignment else None
        if key is None:
            continue
        quote = '"' if key.type == "property_identifier" else ""
        erasure.insert_before(key, f"__enum_put({quote}")
        if key.type == "computed_property_name":
            erasure.blank_node(key.children[0])
            erasure.blank_node(key.children[-1])
        erasure.insert_after(key, quote if value is not None else f"{quote})")
        if value is not None:
            equals = token(child, "=")
            if equals is not None:
                erasure.overwrite(equals, ",")
            _qualify_members(erasure, enum, members, value)
            erasure.insert_after(value, ")")
            entries.append((value, scope, ""))
        elif text_before:
            erasure.refuse(child, "an enum member after a text member needs a value", "give it one", "SYNTAX_ERROR")
        text_before = value is not None and value.type in ("string", "template_string")
        members.add(_static_name(erasure, key))
    erasure.push_with(entries)


def _qualify_members(erasure: _Erasure, enum: str, members: set[str], value: Node) -> None:
    """`B = A + 1` means the member A, not a variable."""
    stack = [value]
    while stack:
        node = stack.pop()
        if node.type == "identifier" and erasure.text(node) in members:
            erasure.insert_before(node, f"{enum}.")
        stack.extend(node.named_children)
