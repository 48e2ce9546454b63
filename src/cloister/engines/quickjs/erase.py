"""Turns one TypeScript cell into JavaScript for QuickJS without moving a line or a column.

Types become spaces; top-level `let`, `const`, `class` and `enum` become `var`, so that a later cell may declare them
again; the little that cannot be erased (enums, parameter properties) is lowered by text inserted in place, and every
insertion is recorded in `shifts`. Runs inside the sealed worker on hostile text: it never raises, never recurses,
and is linear in the size of the source. It knows no sessions, no tools and no QuickJS API.

Invariant: a token that is not inserted stands on its source line, at its source column plus the shifts before it.
"""

from typing import Final

import tree_sitter
from tree_sitter import Node

from . import lower  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers its handlers)
from .syntax import (
    LANGUAGE,
    Positions,
    Problem,
    diagnose,
    guest_position,
    lone_surrogate,
    operand,
    original_position,
    token,
)
from .walk import (
    AWAITED,
    BIND,
    CELL,
    NO_MODULES,
    SEVER,
    SYNC,
    TOP,
    Erased,
    Erasure,
    FunctionRange,
    Reference,
    on,
    static_name,
)

__all__ = ["Erased", "FunctionRange", "Problem", "Reference", "erase", "guest_position", "original_position"]


def erase(source: str) -> Erased:
    """The JavaScript of one cell. Total: whatever is wrong with the source is said in `problems`."""
    try:
        data = source.encode()
    except UnicodeEncodeError as error:
        return Erased("", (lone_surrogate(source, error.start),), (), (), False, ())
    root = _PARSER.parse(data).root_node
    if root.has_error:
        return Erased("", diagnose(data, root, Positions(data)), (), (), False, ())
    return Erasure(source, data).run(root)


_PARSER: Final = tree_sitter.Parser(LANGUAGE)

_STATEMENT_TYPES: Final = (
    "interface_declaration",
    "type_alias_declaration",
    "ambient_declaration",
    "function_signature",
)
# -- types: blanked where they stand -------------------------------------------------------------------------------


@on(
    "type_annotation",
    "asserts_annotation",
    "type_predicate_annotation",
    "type_parameters",
    "type_arguments",
    "implements_clause",
    "accessibility_modifier",
    "override_modifier",
)
def _blank_type(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.blank_node(node)


@on(*_STATEMENT_TYPES)
def _blank_type_statement(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.blank_statement(node)


@on("as_expression", "satisfies_expression")
def _cast_after(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    word, value = token(node, "as", "satisfies"), operand(node)
    if word is not None and value is not None:
        erasure.blank(word.start_byte, node.end_byte, head=";" if hint is SEVER else "")
        erasure.push([value], scope, "" if hint is SEVER else hint)


@on("type_assertion")
def _cast_before(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
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


@on("binary_expression")
def _binary(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    left = node.children[0]
    if node.children[1].type == ">" and left.type == "binary_expression" and left.children[1].type == "<":
        # What the grammar makes of a generic tag: f<T>`text`. As a comparison it is not TypeScript either.
        erasure.refuse(node, "`a < b > c` is two comparisons here", "drop the type arguments, or add parentheses")
        return
    erasure.push(node.named_children, scope)


@on("non_null_expression")
def _non_null(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.blank_node(node.children[-1])
    erasure.push(node.named_children, scope, hint)


@on("parenthesized_expression")
def _parentheses(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.push(node.named_children, scope, "" if hint is TOP else hint)


# -- names that this cell binds ------------------------------------------------------------------------------------


@on("identifier")
def _identifier(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    if hint is BIND:
        erasure.bind(node)


@on("shorthand_property_identifier_pattern")
def _shorthand(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.bind(node)


@on("object_pattern", "array_pattern", "rest_pattern")
def _pattern(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.push(node.named_children, scope, hint)


@on("pair_pattern")
def _pair_pattern(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    value = node.child_by_field_name("value")
    erasure.push_with([(child, scope, hint if child == value else "") for child in node.named_children])


@on("assignment_pattern", "object_assignment_pattern")
def _default(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    left = node.child_by_field_name("left")
    name = erasure.text(left) if left is not None and not left.named_child_count else ""
    erasure.push_with([(child, scope, hint if child == left else name) for child in node.named_children])


@on("catch_clause")
def _catch(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    parameter = node.child_by_field_name("parameter")
    erasure.push_with([(child, scope, BIND if child == parameter else "") for child in node.named_children])


@on("for_in_statement")
def _for_in(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    declared = node.child_by_field_name("left") if node.child_by_field_name("kind") is not None else None
    word = token(node, "await")
    if word is not None and scope == SYNC:
        _refuse_await(erasure, word)
    erasure.push_with([(child, scope, BIND if child == declared else "") for child in node.named_children])


# -- statements ----------------------------------------------------------------------------------------------------


@on("program")
def _program(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    statements = node.named_children
    for statement in reversed(statements):
        kind = statement.type
        if kind in _STATEMENT_TYPES or kind in ("comment", "empty_statement") or _is_type_only(statement):
            continue
        erasure.has_value = kind == "expression_statement"
        break
    erasure.push(statements, scope, TOP)


@on("expression_statement")
def _expression_statement(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    if erasure.data[node.start_byte] == 0x7B:
        message = "a statement that starts with `{` is a block, not an object"
        erasure.refuse(node, message, "wrap the object in parentheses: ({ ... })", "SYNTAX_ERROR")
        return
    erasure.push(node.named_children, scope, hint)


@on("sequence_expression")
def _sequence(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.push(node.named_children, scope, TOP if hint is TOP else "")


@on("lexical_declaration")
def _lexical(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    children = node.children
    declarators = [child for child in node.named_children if child.type == "variable_declarator"]
    if hint is TOP:
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


@on("variable_declarator")
def _declarator(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    name = node.child_by_field_name("name")
    mark = token(node, "!")
    if mark is not None:
        erasure.blank_node(mark)
    given = erasure.text(name) if name is not None and name.type == "identifier" else ""
    erasure.push_with([(child, scope, BIND if child == name else given) for child in node.named_children])


@on("return_statement")
def _return(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    if scope == CELL:
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


@on("import_statement", "import_alias")
def _import(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    if _is_type_only(node):
        erasure.blank_statement(node)
    else:
        erasure.refuse(node, "`import` is not supported", NO_MODULES)


@on("export_statement")
def _export(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    declaration = node.child_by_field_name("declaration")
    word = token(node, "export")
    if _is_type_only(node):
        erasure.blank_statement(node)
    elif token(node, "default") is not None:
        erasure.refuse(node, "`export default` is not supported", "drop `export default`: a cell is not a module")
    elif declaration is None or word is None:
        erasure.refuse(node, "`export` is not supported", NO_MODULES)
    else:
        erasure.blank_node(word)
        erasure.push(node.named_children, scope, hint)


@on("meta_property")
def _meta(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    if node.children[0].type == "import":
        erasure.refuse(node, "`import.meta` is not supported", NO_MODULES)


@on("internal_module", "module")
def _namespace(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.refuse(node, "namespaces are not supported", "use an object: const name = { ... }")


@on("decorator")
def _decorator(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.refuse(node, "decorators are not supported", "call the function on the class or method instead")


@on("string")
def _string(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    if erasure.has_line_break(node.start_byte, node.end_byte):
        # The grammar lets a raw line break pass; only an escaped one is a continuation.
        breaks = erasure.text(node).count("\n")
        escaped = sum(erasure.text(part).count("\n") for part in node.named_children if part.type == "escape_sequence")
        if breaks != escaped:
            help_ = "a string ends on its own line; use a `template` for several lines"
            erasure.refuse(node.children[0], "unterminated string", help_, "SYNTAX_ERROR")


@on("assignment_expression")
def _assignment(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    left = node.child_by_field_name("left")
    word = node.children[0]
    if word.type == "using":
        erasure.bind(left)
        if hint is TOP:
            help_ = "put it in a block, or use try/finally: the top level of a cell never ends"
            erasure.refuse(word, "`using` at the top level of a cell is not supported", help_)
    name = erasure.text(left) if left is not None and left.type == "identifier" else ""
    erasure.push_with([(child, scope, "" if child == left else name) for child in node.named_children])


@on("pair")
def _pair(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    key = node.child_by_field_name("key")
    name = static_name(erasure, key)
    erasure.push_with([(child, scope, "" if child == key else name) for child in node.named_children])


# -- calls ---------------------------------------------------------------------------------------------------------


def _refuse_await(erasure: Erasure, word: Node) -> None:
    message = "`await` inside a function that is not async"
    erasure.refuse(word, message, "write `async` in front of the function", "SYNTAX_ERROR")


@on("await_expression")
def _await(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    if scope == SYNC:
        _refuse_await(erasure, node.children[0])
    value = operand(node)
    using = value is not None and value.type == "assignment_expression"
    erasure.push(node.named_children, scope, hint if using else AWAITED)


@on("call_expression")
def _call(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    callee = node.child_by_field_name("function")
    awaited = hint is AWAITED
    severed = False
    if callee is not None:
        kind = callee.type
        if kind == "import":
            erasure.refuse(callee, "`import()` is not supported", NO_MODULES)
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
    erasure.push_with([(child, scope, SEVER if severed and child == callee else "") for child in node.named_children])


def _dotted(erasure: Erasure, target: Node) -> tuple[str, str] | None:
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
            names.append(static_name(erasure, key))
        if owner is None:
            return None
        target = owner
    return None
