"""What a schema says together with its local references and `allOf` parts, as one set of keywords.

Merging may say less than the schema does, never more: where two parts disagree the wider reading wins, and what was
left out is noted as `vague`. Every part that is looked at is paid for, so a schema cannot ask for endless work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any]

MAX_DEPTH = 16
MAX_NODES = 2000
# Characters of keys and constants, and of descriptions.
MAX_TEXT = 40_000
MAX_NOTES = 20_000
# More properties of one object, or more options of one union, are not written out.
MAX_FIELDS = 400
MAX_OPTIONS = 100

_MERGED = ("type", "enum", "properties", "patternProperties", "required", "additionalProperties", "items")
_FIRST = ("prefixItems", "minItems", "maxItems", "description", "title", "nullable", "const", "additionalItems")
# These may add properties on conditions that no type can say.
_CONDITIONS = frozenset({"if", "then", "else", "dependentSchemas", "$dynamicRef", "$recursiveRef"})
_COMPOSED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
# What stands beside a reference without changing its type.
_NOTES = frozenset(
    "description title default examples example deprecated readOnly writeOnly nullable format "
    "$comment $defs definitions $schema $id $anchor".split()
)
# Without one of these a part of a union has no type of its own.
_TYPED = _COMPOSED | {"type", "enum", "const", "properties", "items", "prefixItems"}
_SHAPED = ("properties", "patternProperties", "additionalProperties", "items", "prefixItems", "enum", "const")


@dataclass(slots=True)
class Purse:
    """What reading one schema may still cost."""

    nodes: int = MAX_NODES
    text: int = MAX_TEXT
    notes: int = MAX_NOTES

    def pay(self) -> bool:
        self.nodes -= 1
        return self.nodes >= 0

    def note(self, value: object, most: int) -> str:
        """A description, cut; nothing when too much was said already."""
        if not isinstance(value, str) or self.notes <= 0:
            return ""
        kept = value.strip() if len(value) <= most else f"{value[:most].strip()} …"
        self.notes -= len(kept)
        return kept


@dataclass(slots=True)
class Folded:
    words: Schema
    # Groups of options, one of each group holding: anyOf, oneOf.
    choices: list[Sequence[Any]] = field(default_factory=list[Sequence[Any]])
    # Something was left out, so there may be more keys than are known.
    vague: bool = False

    def text(self, word: str) -> str:
        value = self.words.get(word)
        return value if isinstance(value, str) else ""

    @property
    def shaped(self) -> bool:
        """Whether it says more than a kind, so that an option of a union must be read together with it."""
        return len(self.choices) > 1 or any(self.words.get(word) not in (None, False) for word in _SHAPED)


def lone_reference(schema: Schema) -> str | None:
    """The reference that this schema is, give or take notes: by itself, or as the one part of an `allOf`."""
    ref = schema.get("$ref")
    if isinstance(ref, str):
        return ref if len(schema) == 1 or _only_notes(schema, "$ref") else None
    parts: Any = schema.get("allOf")
    if isinstance(parts, list) and len(cast("list[Any]", parts)) == 1 and _only_notes(schema, "allOf"):
        inner = cast("list[Any]", parts)[0]
        if isinstance(inner, Mapping) and len(cast(Schema, inner)) == 1:
            found = cast(Schema, inner).get("$ref")
            return found if isinstance(found, str) else None
    return None


def _only_notes(schema: Schema, but: str) -> bool:
    return len(schema) <= len(_NOTES) and all(word == but or word in _NOTES for word in schema)


def has_type(option: Schema) -> bool:
    return not option.keys().isdisjoint(_TYPED)


def resolve(ref: str, root: Schema) -> Any:
    """What a local reference points at; None when it points nowhere, or elsewhere."""
    if ref == "#":
        return root
    if not ref.startswith("#/") or len(ref) > 1000:
        return None
    target: Any = root
    for word in unquote(ref[2:]).split("/"):
        word = word.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = cast(Schema, target).get(word)
        elif isinstance(target, list) and word.isascii() and word.isdigit() and len(word) < 6:
            many = cast("list[Any]", target)
            target = many[int(word)] if int(word) < len(many) else None
        else:
            return None
    return target


class Folder:
    def __init__(self, root: Schema, purse: Purse) -> None:
        self._root = root
        self._purse = purse

    def fold(self, schema: Schema, base: Folded | None = None) -> Folded:
        """`schema` with its references and `allOf` parts, on top of `base` when there is one."""
        if base is None and schema.keys().isdisjoint(_COMPOSED):
            return Folded(schema, vague=not schema.keys().isdisjoint(_CONDITIONS))
        made = Folded(dict(base.words), list(base.choices), base.vague) if base else Folded({})
        self._add(made, schema, frozenset(), 0)
        return made

    def _add(self, made: Folded, schema: Any, trail: frozenset[str], depth: int) -> None:
        if schema is True:
            return
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH or not self._purse.pay():
            made.vague = True
            return
        part = cast(Schema, schema)
        made.vague = made.vague or not part.keys().isdisjoint(_CONDITIONS)
        made.words = _merged(made.words, part)
        for word in ("anyOf", "oneOf"):
            if isinstance(part.get(word), list) and part[word]:
                made.choices.append(part[word])
        if "$ref" in part:
            ref: Any = part["$ref"]
            known = isinstance(ref, str) and ref not in trail
            self._add(made, resolve(ref, self._root) if known else None, trail | {ref} if known else trail, depth + 1)
        inner: Any = part.get("allOf")
        if isinstance(inner, list):
            for one in cast("list[Any]", inner)[:MAX_OPTIONS]:
                self._add(made, one, trail, depth + 1)
            made.vague = made.vague or len(cast("list[Any]", inner)) > MAX_OPTIONS


def _merged(old: Schema, new: Schema) -> dict[str, Any]:
    out = dict(old)
    for word in _FIRST:
        if word in new:
            out.setdefault(word, new[word])
    for word in _MERGED:
        if word in new:
            out[word] = _merge(word, old[word], new[word]) if word in old else new[word]
    return out


def _merge(word: str, old: Any, new: Any) -> Any:
    match word:
        case "type":
            mine, theirs = kinds(old), kinds(new)
            both = [kind for kind in mine if kind in theirs or (kind == "integer" and "number" in theirs)]
            both += [kind for kind in theirs if kind == "integer" and "number" in mine and kind not in both]
            return both or mine or theirs
        case "enum":
            return _shared(old, new)
        case "required":
            return [*required(old), *required(new)]
        case "properties" | "patternProperties":
            out = _first(old)
            for key, value in _first(new).items():
                out[key] = {"allOf": [out[key], value]} if key in out and out[key] is not value else value
            return out
        case "additionalProperties":
            # One part forbids what another part declares, read to the letter; nobody means that.
            return new if isinstance(old, bool) and not isinstance(new, bool) else old
        case _:
            return {"allOf": [old, new]}


def _shared(old: Any, new: Any) -> Any:
    """The values of both lists. Only what is quickly compared is left out: a value may be nested without end."""
    if not isinstance(old, list) or not isinstance(new, list):
        return cast(Any, new if isinstance(new, list) else old)
    mine, theirs = cast("list[Any]", old)[: MAX_OPTIONS + 1], cast("list[Any]", new)[: MAX_OPTIONS + 1]
    same = {(type(value), value) for value in theirs if isinstance(value, (str, int, float))}
    return [v for v in mine if not isinstance(v, (str, int, float)) or (type(v), v) in same] or mine


def _first(properties: Any) -> dict[str, Any]:
    """The first of them: one more than can be written out shows that there were more."""
    return dict(islice(cast(Schema, properties).items(), MAX_FIELDS + 1)) if isinstance(properties, Mapping) else {}


def kinds(value: Any) -> list[str]:
    """The words of a `type`, which is one or a list of them."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    return list(dict.fromkeys(one for one in cast("list[Any]", value)[:20] if isinstance(one, str)))


def required(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [one for one in cast("list[Any]", value)[: 2 * MAX_FIELDS] if isinstance(one, str)]
