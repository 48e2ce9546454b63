"""JSON Schema to the tree of types that stubs are rendered from.

Takes a schema from anywhere: what is no schema, points outside, is too deep or too large becomes `Unknown`, never an
error, and the work and the size of what comes out are bounded. Objects are read breadth first, so that a schema
which is too large loses its depths and not its second half.
"""

import re
from collections import deque
from collections.abc import Mapping, Set
from itertools import islice
from typing import Any, cast, get_args

from cloister.tools.folding import (
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_OPTIONS,
    Folded,
    Folder,
    Purse,
    Schema,
    has_type,
    kinds,
    lone_reference,
    required,
    resolve,
)
from cloister.tools.tree import (
    NULL,
    UNKNOWN,
    AliasType,
    Constant,
    Field,
    Kind,
    ListOf,
    MapOf,
    Named,
    Node,
    ObjectType,
    Plain,
    Tree,
    TupleOf,
    kind_of,
    one_of,
    options_of,
    scalar,
    short_default,
)

_MAX_TYPES = 60
_MAX_TUPLE = 20
_LONGEST_KEY = 200
_LONGEST_NOTE = 400
_PLAIN = frozenset(get_args(Kind))
_MORE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "nullable"})
_WORD = re.compile(r"[A-Za-z0-9]+")


def read_schema(
    schema: object, name: str = "Result", *, arguments: bool = False, taken: Set[str] = frozenset[str]()
) -> Tree:
    """The tree of a schema, whose root is called `name` unless it has a title. The root of `arguments` may be an
    object without fields. No type gets a name that is `taken`."""
    if not isinstance(schema, Mapping):
        return Tree(UNKNOWN)
    return _Reader(cast(Schema, schema), arguments, taken).read(name)


class _Reader:
    def __init__(self, root: Schema, arguments: bool, taken: Set[str]) -> None:
        self._root = root
        self._arguments = arguments
        self._purse = Purse()
        self._folder = Folder(root, self._purse)
        self._types: list[ObjectType | AliasType] = []
        self._names: set[str] = set(taken)
        # Objects whose fields are still to be read.
        self._waiting: deque[tuple[int, Folded]] = deque()
        # References that have a type of their own, and those that are being read just now.
        self._named: dict[str, Named] = {}
        self._under_way: set[str] = set()

    def read(self, name: str) -> Tree:
        root = self._reference("#", name, 0)
        while self._waiting:
            at, folded = self._waiting.popleft()
            self._types[at] = self._fields(self._types[at], folded)
        return Tree(root, tuple(self._types))

    # --- a part -------------------------------------------------------------------------------------------------------

    def _node(self, schema: Any, hint: str, depth: int, ref: str | None = None) -> Node:
        if not self._purse.pay() or not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return UNKNOWN
        part = cast(Schema, schema)
        kind = part.get("type")
        if isinstance(kind, str) and kind in _PLAIN and part.keys().isdisjoint(_MORE):
            # Most parts of most schemas; what follows would come to the same.
            return Plain(cast(Kind, kind))
        found = lone_reference(part)
        if found is not None:
            made = self._reference(found, found.rsplit("/", 1)[-1], depth + 1)
            return one_of((made, NULL)) if part.get("nullable") is True else made
        folded = self._folder.fold(part)
        # A definition is called what it is referred to by.
        name = folded.text("title") if ref in (None, "#") else ""
        return self._folded(folded, name or hint, depth, ref)

    def _reference(self, ref: str, hint: str, depth: int) -> Node:
        if ref in self._named:
            return self._named[ref]
        if ref in self._under_way:
            # It mentions itself before it is known what it is: it needs a name.
            return self._alias(ref, hint)
        self._under_way.add(ref)
        made = self._node(resolve(ref, self._root), hint, depth, ref)
        self._under_way.discard(ref)
        own = self._named.get(ref)
        if own is None:
            if isinstance(made, Named):
                self._named[ref] = made
            return made
        alias = self._types[own.at]
        if isinstance(alias, AliasType):
            self._types[own.at] = AliasType(alias.name, self._guarded(made, own))
        return own

    def _alias(self, ref: str, hint: str) -> Node:
        if len(self._types) >= _MAX_TYPES:
            return UNKNOWN
        made = self._named[ref] = Named(len(self._types))
        self._types.append(AliasType(self._name(hint), UNKNOWN))
        return made

    def _guarded(self, node: Node, own: Named) -> Node:
        """An alias may mention itself inside a list or an object, but it may not be itself."""
        parts: list[Node] = []
        for part in options_of(node):
            known = self._types[part.at] if isinstance(part, Named) else None
            parts += options_of(known.type) if isinstance(known, AliasType) else [part]
        return one_of([part for part in parts if part != own])

    # --- keywords -----------------------------------------------------------------------------------------------------

    def _folded(self, folded: Folded, hint: str, depth: int, ref: str | None = None) -> Node:
        if depth > MAX_DEPTH or self._purse.nodes < 0:
            return UNKNOWN
        words = folded.words
        if folded.choices:
            made = self._choice(folded, hint, depth)
        elif "const" in words or isinstance(words.get("enum"), list):
            made = self._constants(words)
        else:
            named = kinds(words.get("type")) or _implied(words)
            alone = len(named) == 1 and words.get("nullable") is not True
            made = one_of([self._kind(kind, folded, hint, depth, ref if alone else None) for kind in named])
        return one_of((made, NULL)) if words.get("nullable") is True else made

    def _choice(self, folded: Folded, hint: str, depth: int) -> Node:
        """One of the first group of options, each together with what stands beside the group."""
        group, *others = folded.choices
        words = {word: value for word, value in folded.words.items() if word != "nullable"}
        parts = [cast(Schema, one) for one in group[: MAX_OPTIONS + 1] if isinstance(one, Mapping)]
        if not any(has_type(one) for one in parts) and has_type(words):
            # They only say which of the fields must be there, or how a text is written.
            return self._folded(Folded(words, others, folded.vague), hint, depth + 1)
        # Each option is described by itself.
        plain = {word: value for word, value in words.items() if word not in ("title", "description")}
        beside = Folded(plain, others, folded.vague)
        if len(parts) < len(group):
            return UNKNOWN
        made: list[Node] = []
        for number, option in enumerate(parts, 1):
            if folded.shaped or not has_type(option):
                ref, title = lone_reference(option), option.get("title")
                name = ref.rsplit("/", 1)[-1] if ref else title if isinstance(title, str) else f"{hint} {number}"
                made.append(self._folded(self._folder.fold(option, beside), name, depth + 1))
            else:
                made.append(self._node(option, f"{hint} {number}", depth + 1))
        return one_of(made)

    def _constants(self, words: Schema) -> Node:
        values = [words["const"]] if "const" in words else cast("list[Any]", words["enum"])
        named = kinds(words.get("type"))
        if len(values) > MAX_OPTIONS:
            return one_of([Plain(cast(Kind, kind)) if kind in _PLAIN else UNKNOWN for kind in named])
        parts: list[Node] = []
        for value in values:
            if isinstance(value, Mapping):
                parts.append(MapOf(UNKNOWN))
            elif isinstance(value, list):
                parts.append(ListOf(UNKNOWN))
            elif value is None or isinstance(value, (bool, str, int, float)):
                kind = kind_of(value)
                if named and kind not in named and not (kind == "integer" and "number" in named):
                    continue
                fits = scalar(value) and self._purse.text > 0
                self._purse.text -= len(value) if fits and isinstance(value, str) else 0
                parts.append(Constant(kind, value) if fits else Plain(kind))
            else:
                parts.append(UNKNOWN)
        return one_of(parts)

    def _kind(self, kind: str, folded: Folded, hint: str, depth: int, ref: str | None) -> Node:
        if kind in _PLAIN:
            return Plain(cast(Kind, kind))
        if kind == "array":
            return self._array(folded.words, hint, depth)
        return self._object(folded, hint, depth, ref) if kind == "object" else UNKNOWN

    def _array(self, words: Schema, hint: str, depth: int) -> Node:
        items, prefix = words.get("items"), words.get("prefixItems")
        if isinstance(items, list):
            # As it was written before 2020.
            items, prefix = words.get("additionalItems"), cast("list[Any]", items)
        if not isinstance(prefix, list) or not prefix:
            return ListOf(self._node(items, f"{hint} item", depth + 1))
        first = cast("list[Any]", prefix)
        if len(first) > _MAX_TUPLE:
            return ListOf(UNKNOWN)
        made = tuple(self._node(item, f"{hint} {number}", depth + 1) for number, item in enumerate(first, 1))
        least, most = words.get("minItems"), words.get("maxItems")
        closed = items is False or (isinstance(most, int) and most <= len(made))
        needed = min(least, len(made)) if isinstance(least, int) and least > 0 else 0
        return TupleOf(made, needed, None if closed else self._node(items, f"{hint} item", depth + 1))

    # --- objects ------------------------------------------------------------------------------------------------------

    def _object(self, folded: Folded, hint: str, depth: int, ref: str | None) -> Node:
        properties = folded.words.get("properties")
        bare = self._arguments and ref == "#" and isinstance(properties, Mapping)
        if not bare and not (isinstance(properties, Mapping) and properties):
            return MapOf(self._rest(folded, hint, depth) or UNKNOWN)
        if len(self._types) >= _MAX_TYPES:
            return MapOf(UNKNOWN)
        made = Named(len(self._types))
        if ref is not None:
            self._named.setdefault(ref, made)
        self._types.append(ObjectType(self._name(hint), (), UNKNOWN))
        self._waiting.append((made.at, folded))
        return made

    def _rest(self, folded: Folded, hint: str, depth: int) -> Node | None:
        """What the keys hold that are not among the properties; None when there should be none."""
        extra, patterns = folded.words.get("additionalProperties"), folded.words.get("patternProperties")
        parts = [*islice(cast(Schema, patterns).values(), _MAX_TUPLE)] if isinstance(patterns, Mapping) else []
        if folded.vague or extra is True or len(parts) >= _MAX_TUPLE:
            return UNKNOWN
        if isinstance(extra, Mapping):
            parts.append(extra)
        return one_of([self._node(part, f"{hint} value", depth + 1) for part in parts]) if parts else None

    def _fields(self, made: ObjectType | AliasType, folded: Folded) -> ObjectType:
        rest = self._rest(folded, made.name, 0)
        needed = set(required(folded.words.get("required")))
        fields: list[Field] = []
        for key, value in cast(Schema, folded.words.get("properties")).items():
            given = cast(object, key)
            if not isinstance(given, str) or not 0 < len(given) <= _LONGEST_KEY:
                rest = UNKNOWN
                continue
            # A member of an enum is a text too, but not written like one.
            name = str.__str__(given)
            self._purse.text -= len(name)
            if len(fields) >= MAX_FIELDS or self._purse.text <= 0 or self._purse.nodes <= 0:
                rest = UNKNOWN
                break
            node = self._node(value, name, 0)
            part: Schema = cast(Schema, value) if isinstance(value, Mapping) else {}
            note = self._purse.note(part.get("description"), _LONGEST_NOTE)
            default = short_default(part["default"]) if "default" in part else None
            fields.append(Field(name, node, name in needed, note, default))
        return ObjectType(made.name, tuple(fields), rest, self._purse.note(folded.text("description"), _LONGEST_NOTE))

    def _name(self, hint: str) -> str:
        """A name that no other type of this tree has: letters and digits, the first a capital."""
        plain = "".join(word[:1].upper() + word[1:] for word in _WORD.findall(hint[:40])) or "Type"
        stem = plain if plain[0].isalpha() else f"T{plain}"
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}{number}"
        self._names.add(name)
        return name


def _implied(words: Schema) -> list[str]:
    """The kind that a schema without a `type` speaks of."""
    if any(word in words for word in ("properties", "patternProperties", "additionalProperties")):
        return ["object"]
    return ["array"] if any(word in words for word in ("items", "prefixItems")) else ["any"]
