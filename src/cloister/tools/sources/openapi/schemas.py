"""Schemas of an OpenAPI document as JSON Schemas that stand alone: their local references go along, in `$defs`.

Definitions are taken breadth first until there is no room for more; what is beyond allows anything, so that a document
whose types all mention each other still gives contracts of a bounded size. Circles stay references. What only OpenAPI
has is said in JSON Schema's words (`nullable`), or left out where it does not validate.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from cloister.core.errors import InvalidInput
from cloister.tools.contract import Contract
from cloister.tools.sources.openapi.document import Document, Unusable

Direction: TypeAlias = Literal["request", "response"]

_MOST_PARTS = 6000
_MOST_TEXT = 256 << 10
_DEEPEST = 24
_LONGEST_NOTE = 500
_TYPES = frozenset("array boolean integer null number object string".split())
_NUMBERS = frozenset(
    "multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength maxItems minItems maxContains "
    "minContains maxProperties minProperties".split()
)
_ONE = frozenset(
    "additionalProperties contains else if items not propertyNames then unevaluatedItems unevaluatedProperties".split()
)
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"dependentSchemas", "patternProperties", "properties"})
_TEXTS = frozenset({"description", "format", "pattern", "title"})


def standing_alone(document: Document, schema: Any, direction: Direction, what: str) -> dict[str, Any]:
    """A JSON Schema that compiles, and says as much of `schema` as that allows."""
    for patterns in (True, False):
        made = _Lowering(document, direction, patterns=patterns).run(schema)
        try:
            Contract.compile(made, what=what)
        except InvalidInput:
            continue
        return made
    return {}


class _Lowering:
    def __init__(self, document: Document, direction: Direction, *, patterns: bool) -> None:
        self._document = document
        self._hidden = "readOnly" if direction == "request" else "writeOnly"
        # Those that the validator cannot use are left out all together: rarely is it one alone.
        self._patterns = patterns
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []
        self._left = _MOST_PARTS
        self._text = _MOST_TEXT

    def run(self, schema: Any) -> dict[str, Any]:
        made = self._lower(schema, 0)
        root: dict[str, Any] = made if isinstance(made, dict) else {} if made else {"not": {}}
        store: dict[str, Any] = {}
        while self._waiting:
            reference = self._waiting.pop(0)
            try:
                store[self._names[reference]] = self._lower(self._document.target(reference), 0)
            except Unusable:
                store[self._names[reference]] = {}
        return {**root, "$defs": store} if store else root

    def _lower(self, schema: Any, depth: int) -> dict[str, Any] | bool:
        if isinstance(schema, bool):
            return schema
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0 or depth > _DEEPEST:
            return {}
        given = cast("dict[str, Any]", schema)
        reference = given.get("$ref")
        if isinstance(reference, str):
            made = {"$ref": f"#/$defs/{self._name(reference)}"}
            beside = {key: value for key, value in given.items() if key != "$ref"}
            # In 3.0 what stands beside a reference says nothing.
            return made if self._document.is_3_0 or not beside else {**self._members(beside, depth), **made}
        return self._members(given, depth)

    def _members(self, given: Mapping[str, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for word, said in given.items():
            self._left -= 1
            if word in _ONE:
                if isinstance(said, (dict, bool)):
                    made[word] = self._lower(said, depth + 1)
            elif word in _MANY:
                if isinstance(said, list) and said:
                    made[word] = [self._lower(one, depth + 1) for one in cast("list[Any]", said)]
            elif word in _NAMED:
                if isinstance(said, dict) and (self._patterns or word != "patternProperties"):
                    parts = cast("dict[str, Any]", said)
                    made[word] = {
                        name: self._lower(one, depth + 1) for name, one in parts.items() if not self._is_hidden(one)
                    }
            else:
                self._plain(word, said, made)
        self._required(given, made)
        if self._document.is_3_0:
            _in_words_of_2020(given, made)
        return made

    def _plain(self, word: str, said: Any, made: dict[str, Any]) -> None:
        match word:
            case "type":
                kinds = cast("list[Any]", said) if isinstance(said, list) else [said]
                known = [kind for kind in kinds if isinstance(kind, str) and kind in _TYPES]
                if known and len(known) == len(kinds):
                    made[word] = said
            case "enum":
                if isinstance(said, list) and said:
                    options = cast("list[Any]", said)
                    self._left -= len(options)
                    if self._left > 0:
                        made[word] = options
            case "const" | "default":
                made[word] = said
            case "uniqueItems" | "deprecated":
                if isinstance(said, bool):
                    made[word] = said
            case _ if word in _NUMBERS:
                if isinstance(said, (int, float)) and not isinstance(said, bool):
                    made[word] = said
            case _ if word in _TEXTS:
                if isinstance(said, str) and (self._patterns or word != "pattern"):
                    self._note(word, said, made)
            case _:
                pass

    def _note(self, word: str, said: str, made: dict[str, Any]) -> None:
        if word != "pattern" and len(said) > _LONGEST_NOTE:
            said = f"{said[:_LONGEST_NOTE]}…"
        self._text -= len(said)
        if self._text > 0:
            made[word] = said

    def _required(self, given: Mapping[str, Any], made: dict[str, Any]) -> None:
        required = given.get("required")
        if not isinstance(required, list):
            return
        properties: Any = given.get("properties")
        known = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
        names = [
            name
            for name in cast("list[Any]", required)
            if isinstance(name, str) and not self._is_hidden(known.get(name))
        ]
        if names:
            made["required"] = list(dict.fromkeys(names))

    def _is_hidden(self, schema: Any) -> bool:
        """Whether this property travels in the other direction only."""
        return isinstance(schema, dict) and cast("dict[str, Any]", schema).get(self._hidden) is True

    def _name(self, reference: str) -> str:
        name = self._names.get(reference)
        if name is None:
            last = re.sub(r"[^A-Za-z0-9_]+", "_", reference.rsplit("/", 1)[-1])[:80] or "part"
            taken = set(self._names.values())
            name, number = last, 2
            while name in taken:
                name, number = f"{last}_{number}", number + 1
            self._names[reference] = name
            self._waiting.append(reference)
        return name


def _in_words_of_2020(given: Mapping[str, Any], made: dict[str, Any]) -> None:
    """What 3.0 says in other words: `nullable`, and whether a bound is one that may be reached."""
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if given.get(word) is True and bound in made:
            made[word] = made.pop(bound)
    if given.get("nullable") is not True:
        return
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    composed = [word for word in ("allOf", "anyOf", "oneOf") if word in made]
    if composed and "type" not in made:
        inner = {word: made.pop(word) for word in composed}
        made["anyOf"] = [inner, {"type": "null"}]
