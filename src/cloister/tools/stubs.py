"""Python stubs: what ty and a reader are told about a tool.

Written for a `.pyi`, where a type may be mentioned before it is defined. Some of it is so that the checker does not
refuse a program that is right:
- arguments take `Sequence` and `Mapping`, because a `list[int]` is no `list[float]`; a list that may hold text stays
  a list, because a text is a sequence of texts;
- an object is a TypedDict, and a key that the schema does not name is reported, unless it says that there are more;
- what one tool returned can be given to another that asks for less, or for something wider: fields of arguments are
  `ReadOnly`, and results are `closed`, which also lets `"key" in result` tell one object from another.
"""

import keyword
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence, Set

from cloister.core.capability import Capability
from cloister.tools.prose import docstring, line
from cloister.tools.schema import read_schema
from cloister.tools.tree import (
    UNKNOWN,
    AliasType,
    Arguments,
    Constant,
    Field,
    ListOf,
    MapOf,
    Named,
    Node,
    OneOf,
    Plain,
    Tree,
    TupleOf,
    Unknown,
    fits,
    one_of,
    options_of,
)

_HOMES = {
    "builtins": "bool dict float int list str tuple",
    "collections.abc": "Mapping Sequence",
    "typing": "Any Literal NotRequired",
    "typing_extensions": "ReadOnly TypeAliasType TypedDict",
}
WORDS = {word: word for words in _HOMES.values() for word in words.split()}
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_LONGEST_DOC = 2000
_LONGEST_SIGNATURE = 4000


def header(names: Container[str] = ()) -> str:
    """The imports of a stub file that declares these names.

    A tool may be called `list`: then that word means the tool in the whole file, and the type is reached another way.
    """
    out: list[str] = []
    for home, words in _HOMES.items():
        free = [word for word in words.split() if word not in names]
        if len(free) < len(words.split()):
            out.append(f"import {home} as _{home.replace('.', '_')}\n")
        if home != "builtins" and free:
            out.append(f"from {home} import {', '.join(free)}\n")
    return "".join(out)


HEADER = header()


def _vocabulary(names: Set[str]) -> Mapping[str, str]:
    if WORDS.keys().isdisjoint(names):
        return WORDS
    said = dict(WORDS)
    for home, words in _HOMES.items():
        said |= {word: f"_{home.replace('.', '_')}.{word}" for word in words.split() if word in names}
    return said


class _Python:
    """Says the types of one tree. `given`: they are arguments, as against what a tool returns."""

    def __init__(
        self, tree: Tree, prefix: str = "", *, given: bool = False, names: Set[str] = frozenset[str]()
    ) -> None:
        self._tree = tree
        self._given = given
        self._say = _vocabulary(names)
        self._names = [f"{prefix}{made.name}" for made in tree.types]
        for at, name in enumerate(self._names):
            while name in names:
                name += "_"
            self._names[at] = name

    def type(self, node: Node) -> str:
        say = self._say
        match node:
            case Unknown():
                return say["Any"]
            case Plain(kind):
                return "None" if kind == "null" else say[_PLAIN[kind]]
            case Constant() | OneOf():
                return self._union(options_of(node))
            case ListOf(item):
                return self._list(item)
            case MapOf(value):
                return f"{say['Mapping' if self._given else 'dict']}[{say['str']}, {self.type(value)}]"
            case TupleOf():
                return self._tuple(node)
            case Named(at):
                plain = self._tree.plain(node)
                return self._names[at] if plain is None else self.type(plain)

    def _union(self, options: Sequence[Node]) -> str:
        parts: list[str] = []
        literals = [repr(o.value) for o in options if isinstance(o, Constant) and o.kind not in ("null", "number")]
        for option in options:
            match option:
                case Constant("null" | "number" as kind):
                    parts.append(self.type(Plain(kind)))
                case Constant():
                    parts.append(f"{self._say['Literal']}[{', '.join(literals)}]")
                case _:
                    parts.append(self.type(option))
        return " | ".join(dict.fromkeys(parts))

    def _list(self, item: Node) -> str:
        word = "Sequence" if self._wide(item) else "list"
        return f"{self._say[word]}[{self.type(item)}]"

    def _wide(self, item: Node) -> bool:
        return self._given and not self._tree.may_be_text(item)

    def _tuple(self, node: TupleOf) -> str:
        every = one_of(node.nodes())
        if node.rest is not None or node.needed < len(node.items):
            # Which item is which cannot be said, so a mixture that is returned is not checked.
            return self._list(UNKNOWN if isinstance(every, OneOf) and not self._given else every)
        if self._wide(every):
            return self._list(every)
        said = f"{self._say['tuple']}[{', '.join(self.type(item) for item in node.items)}]"
        return f"{said} | {self._list(every)}" if self._given else said

    # --- definitions --------------------------------------------------------------------------------------------------

    def definitions(self, start: Iterable[Node]) -> list[str]:
        """The types that these nodes need, defined."""
        # Aliases first: pyright cannot read one that is mentioned before.
        reached = sorted(self._tree.reach(start), key=lambda at: not isinstance(self._tree.types[at], AliasType))
        return [self._definition(at) for at in reached]

    def _definition(self, at: int) -> str:
        name, made, say = self._names[at], self._tree.types[at], self._say
        if isinstance(made, AliasType):
            return f"{name} = {say['TypeAliasType']}({name!r}, {self.type(made.type)})\n"
        more = "" if self._given else ", closed=True"
        if made.rest is not None:
            more = f", extra_items={self._held(made.rest)}"
        doc = f"    {docstring(made.description)}\n" if made.description else ""
        if all(_can_be_attribute(field.name) for field in made.fields):
            rows = [f"    {field.name}: {self._field(field)}{_note(field)}\n" for field in made.fields]
            return f"class {name}({say['TypedDict']}{more}):\n{doc}{''.join(rows)}"
        # The other form takes any text as a key.
        rows = [f"    {field.name!r}: {self._field(field)},{_note(field)}\n" for field in made.fields]
        note = f"# {line(made.description)}\n" if made.description else ""
        return f"{note}{name} = {say['TypedDict']}({name!r}, {{\n{''.join(rows)}}}{more})\n"

    def _field(self, field: Field) -> str:
        said = self._held(field.type)
        return said if field.required else f"{self._say['NotRequired']}[{said}]"

    def _held(self, node: Node) -> str:
        said = self.type(node)
        return f"{self._say['ReadOnly']}[{said}]" if self._given else said

    # --- parameters ---------------------------------------------------------------------------------------------------

    def parameters(self, found: Arguments | TupleOf | None) -> str:
        match found:
            case None:
                return f"*args: {self._say['Any']}, **kwargs: {self._say['Any']}"
            case TupleOf(items, needed, rest):
                said = [
                    f"arg{number}: {self.type(item)}{'' if number <= needed else ' = ...'}"
                    for number, item in enumerate(items, 1)
                ]
                return ", ".join(
                    [*said, *(["/"] if said else []), *([f"*args: {self.type(rest)}"] if rest is not None else [])]
                )
            case Arguments():
                return self._named(found)

    def _named(self, found: Arguments) -> str:
        written = [field for field in found.fields if _can_be_parameter(field.name)]
        rest = found.rest if len(written) == len(found.fields) else UNKNOWN
        out: list[str] = []
        optional = next((n for n, field in enumerate(written) if not field.required), len(written))
        # A required one after an optional one: from there on all are given by name, in their own order.
        star = optional if any(field.required for field in written[optional:]) else -1
        for number, field in enumerate(written):
            out += ["*"] if number == star else []
            out.append(f"{field.name}: {self.type(field.type)}{'' if field.required else f' = {_default(field)}'}")
        if rest is not None:
            name = "kwargs"
            while any(field.name == name for field in written):
                name += "_"
            out.append(f"**{name}: {self.type(rest)}")
        return ", ".join(out)


def _default(field: Field) -> str:
    return repr(field.default[0]) if field.default is not None and fits(field.default[0], field.type) else "..."


def _can_be_parameter(name: str) -> bool:
    plain = name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__"
    return plain and (name.isascii() or unicodedata.normalize("NFKC", name) == name)


def _can_be_attribute(name: str) -> bool:
    """Whether it can be written as an attribute of a class without meaning something else there."""
    return name.isascii() and _can_be_parameter(name) and not name.startswith("__") and name not in WORDS


def _note(field: Field) -> str:
    return f"  # {line(field.description)}" if field.description else ""


def _documentation(description: str, found: Arguments | TupleOf | None) -> str:
    said = description[:_LONGEST_DOC].strip()
    fields = found.fields if isinstance(found, Arguments) else ()
    rows = [f"    {f.name}: {line(f.description)}" for f in fields if f.description and f.description not in said]
    return "\n".join(
        [*([said] if said else []), *(["", "Args:"] if said and rows else ["Args:"] if rows else []), *rows]
    )


def python_stub(capability: Capability, names: Set[str] | None = None) -> str:
    """`async def` with the types that it needs. `names` are all that the same file declares."""
    taken = names if names is not None else frozenset({capability.name})
    made = read_schema(capability.output_schema)
    given = read_schema(capability.input_schema, "Args", arguments=True, taken={found.name for found in made.types})
    # A type's name has no underscore in it, so no two tools come to the same one.
    prefix = f"_{capability.name}_"
    result, arguments = _Python(made, prefix, names=taken), _Python(given, prefix, given=True, names=taken)
    found = given.arguments()
    lines = [*arguments.definitions(found.nodes() if found else []), *result.definitions([made.root])]
    doc = _documentation(capability.description, found)
    lines.append(f"async def {capability.name}({arguments.parameters(found)}) -> {result.type(made.root)}:")
    lines.append(f"\n    {docstring(doc)}\n" if doc else " ...\n")
    return "".join(lines)


def signature_text(capability: Capability) -> str:
    """`def name(param: type = default) -> result`, as shown in hints."""
    given = read_schema(capability.input_schema, "Args", arguments=True)
    made = read_schema(capability.output_schema)
    said = f"({_Python(given).parameters(given.arguments())}) -> {_Python(made).type(made.root)}"
    return f"def {capability.name}{said if len(said) <= _LONGEST_SIGNATURE else '(*args: Any, **kwargs: Any) -> Any'}"


__all__ = ["HEADER", "WORDS", "header", "python_stub", "signature_text"]
