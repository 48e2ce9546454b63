"""What cannot simply be erased: functions, classes and enums, brought to JavaScript where they stand.

Registers its handlers with the walk when imported. An insertion never spans lines, so only columns behind it move.
"""

from typing import Final

from tree_sitter import Node

from .syntax import operand, token
from .walk import ASYNC, BIND, SYNC, TOP, Erasure, given_name, on, static_name

_MEMBER_TYPES: Final = ("method_signature", "abstract_method_signature", "index_signature")
_FIELD_MODIFIERS: Final = ("readonly", "?", "!", "accessibility_modifier", "override_modifier")
_ENUM_HEAD: Final = (
    " = (({0}, __enum_next = 0, __enum_put = (__k, __v = __enum_next) => {{ {0}[__k] = __v;"
    ' if (typeof __v === "number") {{ {0}[__v] = __k; __enum_next = __v + 1 }} }}) =>'
)


# -- functions -----------------------------------------------------------------------------------------------------


@on(
    "function_declaration",
    "function_expression",
    "generator_function_declaration",
    "generator_function",
)
def _function(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    name = node.child_by_field_name("name")
    erasure.function(node, erasure.bind(name) or given_name(hint))
    erasure.push(node.named_children, _inner_scope(node))


@on("arrow_function")
def _arrow(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.function(node, given_name(hint))
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
            and inner == ASYNC
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
        [(child, inner, BIND if child == single else "") for child in node.named_children if child not in dropped]
    )


@on("method_definition")
def _method(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    name = static_name(erasure, node.child_by_field_name("name"))
    for child in node.children:
        kind = child.type
        if kind == "?":
            erasure.blank_node(child)
        elif kind in ("get", "set"):
            name = f"{kind} {name}"
    if name == "constructor" and hint:
        # QuickJS shows a constructor under the name of its class.
        name = given_name(hint)
        _parameter_properties(erasure, node)
    erasure.function(node, name)
    erasure.push(node.named_children, _inner_scope(node))


@on("formal_parameters")
def _parameters(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
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


@on("required_parameter", "optional_parameter")
def _parameter(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    pattern = node.child_by_field_name("pattern")
    for child in node.children:
        if child.type in ("?", "readonly"):
            erasure.blank_node(child)
    name = erasure.text(pattern) if pattern is not None and pattern.type == "identifier" else ""
    erasure.push_with([(child, scope, BIND if child == pattern else name) for child in node.named_children])


def _inner_scope(function: Node) -> int:
    return ASYNC if token(function, "async") is not None else SYNC


def _parameter_properties(erasure: Erasure, constructor: Node) -> None:
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


@on("class_declaration", "abstract_class_declaration", "class")
def _class(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    name = erasure.bind(node.child_by_field_name("name"))
    abstract = token(node, "abstract")
    if abstract is not None:
        erasure.blank_node(abstract)
    if hint is TOP and name:
        keyword = token(node, "class") or node
        erasure.insert_before(keyword, f"var {name} = ")
        erasure.insert_after(node, ";")
    body = node.child_by_field_name("body")
    named = name or given_name(hint)
    erasure.push_with([(child, scope, named if child == body else "") for child in node.named_children])


@on("class_body")
def _class_body(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
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
            entries.append((child, scope, hint or BIND))
        elif child.is_named:
            entries.append((child, scope, ""))
    erasure.push_with(entries)


def _field(erasure: Erasure, node: Node, ended: bool, scope: int) -> list[tuple[Node, int, str]]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    given = static_name(erasure, name)
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


@on("class_static_block")
def _static_block(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    erasure.function(node, "")
    erasure.push(node.named_children, SYNC)


# -- enums ---------------------------------------------------------------------------------------------------------


@on("enum_declaration")
def _enum(erasure: Erasure, node: Node, scope: int, hint: str) -> None:
    """`enum E { A, B = 2 }` runs as `var E = (E => { put("A"); put("B", 2); return E })({});`, member by member."""
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return
    name = erasure.bind(name_node)
    for child in node.children:
        if child.type == "const":
            erasure.blank_node(child)
        elif child.type == "enum":
            erasure.overwrite(child, "var " if hint is TOP else "let ")
    erasure.insert_after(name_node, _ENUM_HEAD.format(name))
    _enum_members(erasure, name, body, scope)
    erasure.insert_before(body.children[-1], f";return {name}")
    # A second declaration in the same cell adds to the first, as in TypeScript; in a later cell it starts anew.
    erasure.insert_after(body, f")({name});" if hint is TOP and name in erasure.enums else ")({});")
    if hint is TOP:
        erasure.enums.add(name)


def _enum_members(erasure: Erasure, enum: str, body: Node, scope: int) -> None:
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
        members.add(static_name(erasure, key))
    erasure.push_with(entries)


def _qualify_members(erasure: Erasure, enum: str, members: set[str], value: Node) -> None:
    """`B = A + 1` means the member A, not a variable."""
    stack = [value]
    while stack:
        node = stack.pop()
        if node.type == "identifier" and erasure.text(node) in members:
            erasure.insert_before(node, f"{enum}.")
        stack.extend(node.named_children)
