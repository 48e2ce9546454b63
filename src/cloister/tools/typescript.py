"""TypeScript declarations: what a reader is told about tools, and how a hint shows one.

A program reaches a tool as `tools.name`, as `space.name`, and as `name` alone; where the language has another use
for the name, only through `tools`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cloister.core.capability import Capability
from cloister.core.value import Json
from cloister.tools.prose import jsdoc, line, quoted
from cloister.tools.schema import read_schema
from cloister.tools.tree import (
    AliasType,
    Arguments,
    Constant,
    Field,
    ListOf,
    MapOf,
    Named,
    Node,
    ObjectType,
    OneOf,
    Plain,
    Scalar,
    Tree,
    TupleOf,
    Unknown,
    options_of,
)

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_WORDS = frozenset(
    "arguments await break case catch class const continue debugger default delete do else enum eval export extends "
    "false finally for function if implements import in instanceof interface let new null package private protected "
    "public return static super switch this throw true try typeof var void while with yield".split()
)
# The language's own globals win over a tool.
_GLOBALS = frozenset(
    "AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array BigUint64Array Boolean "
    "DOMException DataView Date DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array "
    "Float64Array Function Infinity Int16Array Int32Array Int8Array InternalError Intl Iterator JSON Map Math NaN "
    "Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set SharedArrayBuffer String "
    "SuppressedError Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray "
    "WeakMap WeakRef WeakSet atob btoa clearTimeout console decodeURI decodeURIComponent encodeURI "
    "encodeURIComponent escape globalThis isFinite isNaN parseFloat parseInt performance queueMicrotask setTimeout "
    "tools undefined unescape".split()
)
_LONGEST_DOC = 2000
_LONGEST_SIGNATURE = 4000


class _TypeScript:
    """Says the types of one tree, objects by their names."""

    def __init__(self, tree: Tree, prefix: str, *, given: bool = False) -> None:
        self._tree = tree
        self._prefix = prefix
        self._given = given

    def type(self, node: Node) -> str:
        match node:
            case Unknown():
                return "unknown"
            case Plain(kind):
                return _PLAIN[kind]
            case Constant(_, value):
                return _constant(value)
            case OneOf():
                return " | ".join(dict.fromkeys(self.type(option) for option in options_of(node)))
            case ListOf(item):
                return self._many(item)
            case MapOf(value):
                return f"{{[key: string]: {self.type(value)}}}"
            case TupleOf(items, needed, rest):
                said = [f"{self._one(item)}{'' if n < needed else '?'}" for n, item in enumerate(items)]
                return f"[{', '.join([*said, *([f'...{self._many(rest)}'] if rest is not None else [])])}]"
            case Named():
                return self.named(node)

    def named(self, node: Named) -> str:
        plain = self._tree.plain(node)
        return f"{self._prefix}{self._tree.types[node.at].name}" if plain is None else self.type(plain)

    def _one(self, node: Node) -> str:
        said = self.type(node)
        return f"({said})" if isinstance(node, OneOf) else said

    def _many(self, item: Node) -> str:
        return f"{self._one(item)}[]"

    def fields(self, fields: Iterable[Field], rest: Node | None, between: str = "; ") -> str:
        rows = [f"{_key(field.name)}{'' if field.required else '?'}: {self.type(field.type)}" for field in fields]
        # Of any kind, or a field of another kind than the rest would be an error.
        rows += ["[key: string]: unknown"] if rest is not None else []
        return f"{{{between.join(rows)}}}"

    def definitions(self, start: Iterable[Node]) -> list[str]:
        return [self._definition(self._tree.types[at]) for at in self._tree.reach(start)]

    def _definition(self, made: ObjectType | AliasType) -> str:
        name, doc = f"{self._prefix}{made.name}", jsdoc(made.description)
        if isinstance(made, AliasType):
            return f"{doc}type {name} = {self.type(made.type)};\n"
        rows = [
            f"{self._note(field)}  {_key(field.name)}{'' if field.required else '?'}: {self.type(field.type)};\n"
            for field in made.fields
        ]
        rows += ["  [key: string]: unknown;\n"] if made.rest is not None else []
        return f"{doc}interface {name} {{\n{''.join(rows)}}}\n"

    def _note(self, field: Field) -> str:
        return jsdoc(line(_noted(field) if self._given else field.description), "  ")

    def parameters(self, found: Arguments | TupleOf | None, between: str = "; ", name: str = "args") -> str:
        match found:
            case None:
                return "...args: unknown[]"
            case TupleOf(items, _, rest):
                return f"...args: {self.type(found) if items or rest is None else self._many(rest)}"
            case Arguments((), None):
                return ""
            case Arguments(fields, rest):
                written = self.fields(fields, rest, between) if fields else self.type(MapOf(rest or Unknown()))
                optional = "" if any(field.required for field in fields) else "?"
                return f"{name}{optional}: {written}" if name else written


class _Inline(_TypeScript):
    """The same with objects written out, a few levels of them: a hint is one line."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, "")
        self._inside: list[int] = []
        self._left = 40

    def named(self, node: Named) -> str:
        made = self._tree.types[node.at]
        self._left -= 1
        if len(self._inside) >= 3 or node.at in self._inside or self._left < 0:
            return "object" if isinstance(made, ObjectType) else "unknown"
        self._inside.append(node.at)
        said = self.type(made.type) if isinstance(made, AliasType) else self.fields(made.fields, made.rest, ", ")
        self._inside.pop()
        return said


def _constant(value: Scalar) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case _:
            return repr(value)


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else quoted(name)


def _noted(field: Field) -> str:
    default = f"Default: {_shown(field.default[0])}." if field.default is not None and not field.required else ""
    return f"{field.description} {default}".strip()


def _shown(value: Json) -> str:
    match value:
        case list():
            return f"[{', '.join(_shown(one) for one in value)}]"
        case dict():
            return f"{{{', '.join(f'{_key(key)}: {_shown(one)}' for key, one in value.items())}}}"
        case _:
            return _constant(value)


# --- declarations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Declared:
    """One tool: the types that it needs, its comment, and `name(args: …): Promise<…>`."""

    namespace: str | None
    name: str
    types: str
    doc: str
    head: str
    # Reached through `tools` only.
    hidden: bool


def _declare(capability: Capability) -> _Declared:
    space, name = capability.namespace, capability.name
    hidden = _taken(space) or name in _WORDS if space else _taken(name)
    # No tool has a `$` in its name, so the types of a hidden one, which are outside its namespace, are still its own.
    prefix = f"{space}${name}_" if hidden and space else f"{name}_"
    made = read_schema(capability.output_schema)
    given = read_schema(capability.input_schema, "Args", arguments=True, taken={found.name for found in made.types})
    result, arguments = _TypeScript(made, prefix), _TypeScript(given, prefix, given=True)
    found = given.arguments()
    types = [*arguments.definitions(found.nodes() if found else []), *result.definitions([made.root])]
    return _Declared(
        space,
        name,
        "".join(types),
        _documentation(capability.description, found),
        f"{name}({arguments.parameters(found)}): Promise<{result.type(made.root)}>",
        hidden,
    )


def _taken(name: str) -> bool:
    return name in _WORDS or name in _GLOBALS


def _documentation(description: str, found: Arguments | TupleOf | None) -> str:
    said = description[:_LONGEST_DOC].strip()
    fields = found.fields if isinstance(found, Arguments) else ()
    rows = [
        f"@param args.{line(field.name)} {line(_noted(field))}"
        for field in fields
        if _noted(field) and not (field.description and field.description in said)
    ]
    return "\n".join([*([said] if said else []), *rows])


def _indented(text: str) -> str:
    return "\n".join(f"  {row}" if row else row for row in text.split("\n"))


def typescript_stub(capability: Capability) -> str:
    """The declaration of one tool, with the interfaces that it needs."""
    made = _declare(capability)
    if made.hidden:
        return made.types + _tools([made], ())
    return _block([made], made.namespace)


def typescript_stubs(capabilities: Iterable[Capability], own: Sequence[str] = ()) -> str:
    """The declarations of all these tools, and of `tools`, which has `own` functions too."""
    every = [_declare(capability) for capability in capabilities]
    spaces = {made.namespace: [m for m in every if m.namespace == made.namespace] for made in every if not made.hidden}
    blocks = [_block([m for m in members if not m.hidden], space) for space, members in spaces.items()]
    hidden = "".join(made.types for made in every if made.hidden)
    return "".join([*blocks, hidden, _tools(every, own)])


def _block(members: Sequence[_Declared], space: str | None) -> str:
    declare = "" if space else "declare "
    text = "".join(f"{made.types}{jsdoc(made.doc)}{declare}function {made.head};\n" for made in members)
    return f"declare namespace {space} {{\n{_indented(text)}}}\n" if space else text


def _tools(members: Sequence[_Declared], own: Sequence[str]) -> str:
    rows = [f"  {name}: typeof {name};\n" for name in own]
    spaces: dict[str, list[_Declared]] = {}
    for made in members:
        if made.namespace:
            spaces.setdefault(made.namespace, []).append(made)
        else:
            rows.append(_member(made, "  ") if made.hidden else f"  {made.name}: typeof {made.name};\n")
    for space, inside in spaces.items():
        written = [f"typeof {space}"] if any(not made.hidden for made in inside) else []
        hidden = "".join(_member(made, "    ") for made in inside if made.hidden)
        written += [f"{{\n{hidden}  }}"] if hidden else []
        rows.append(f"  {space}: {' & '.join(written)};\n")
    return f"declare const tools: {{\n{''.join(rows)}}};\n"


def _member(made: _Declared, indent: str) -> str:
    # `new(…)` would be a constructor.
    head = made.head if made.name != "new" else f'"new"{made.head.removeprefix("new")}'
    return f"{jsdoc(made.doc, indent)}{indent}{head};\n"


def typescript_signature(capability: Capability) -> str:
    """`get_order({order_id: string, limit?: number}): Promise<{id: string}>`, as shown in hints."""
    given = read_schema(capability.input_schema, "Args", arguments=True)
    made = read_schema(capability.output_schema)
    head = capability.full_name
    if _taken(head.partition(".")[0]):
        head = f"tools.{head}"
    arguments = _Inline(given).parameters(given.arguments(), ", ", "")
    said = f"({arguments}): Promise<{_Inline(made).type(made.root)}>"
    return f"{head}{said if len(said) <= _LONGEST_SIGNATURE else '(args?: object): Promise<unknown>'}"


__all__ = ["typescript_signature", "typescript_stub", "typescript_stubs"]
