"""A JSON Schema as the native validator is given it: closed, bounded, and with a price on everything costly.

Every reference is resolved here, within the schema itself, so there is nothing left to fetch. What does not validate
is left out: titles, formats, defaults, unknown keywords. `format` is a note, as 2020-12 has it: an honest value must
not fail for a dialect of e-mail addresses.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from cloister.core.errors import InvalidInput
from cloister.tools.fuel import CHARGE, COUNTABLE, SHORT
from cloister.tools.native import pattern_kind
from cloister.tools.wording import shown

# Where a reference makes the validator blind for everything beside it.
_LONELY = ("Draft4Validator", "Draft6Validator", "Draft7Validator")

_PLAIN = frozenset(
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength maxItems "
    "minItems maxContains minContains maxProperties minProperties required dependentRequired".split()
)
_ONE = frozenset(
    "additionalItems additionalProperties contains else if items not propertyNames then unevaluatedItems "
    "unevaluatedProperties".split()
)
_MANY = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_STORES = frozenset({"$defs", "definitions"})
_NAMED = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
# What is looked at once for each part of a value.
_REPEATED = frozenset(
    "additionalItems additionalProperties contains items patternProperties propertyNames unevaluatedItems "
    "unevaluatedProperties".split()
)
_MAX_PATTERNS = 200
_FEW = 16
# A schema that asks for more looks at one value than this has its price tags on.
_LIGHT = 300


@dataclass(frozen=True, slots=True)
class Lowered:
    draft: str
    schema: dict[str, Any]
    # The keyword under which the referenced parts are.
    store: str


def lower(schema: Mapping[str, Any] | bool, draft: str, what: str) -> Lowered:
    """Raises `InvalidInput` for references that lead out or nowhere, and patterns that cannot be used."""
    plain = _Lowering(schema, draft, what, priced=False)
    made = plain.run()
    if plain.is_costly():
        made = _Lowering(schema, draft, what, priced=True).run()
    return Lowered(draft, made, plain.store)


@dataclass(slots=True)
class _Part:
    """A referenced part: what it weighs itself, and which others it mentions how often."""

    weight: int = 0
    mentions: Counter[str] = field(default_factory=Counter[str])


class _Lowering:
    def __init__(self, root: Any, draft: str, what: str, *, priced: bool) -> None:
        self._root = root
        self._lonely = draft in _LONELY
        self._draft = draft
        self._what = what
        self._priced = priced
        self._names: dict[str, str] = {}
        self._todo: list[tuple[str, Any]] = []
        # What may be referred to. It is looked at for its mistakes even if nobody does.
        self._unused: list[Any] = []
        self._parts: dict[str, _Part] = {}
        self._part = _Part()
        self._patterns: dict[str, str] = {}
        # Filled in when the part that they pay for is weighed.
        self._charges: list[tuple[dict[str, Any], str]] = []
        self.store = "definitions" if self._lonely else "$defs"
        own: Any = cast("dict[str, Any]", root).get("$id") if isinstance(root, dict) else None
        self._id = own.removesuffix("#") if isinstance(own, str) else ""

    def run(self) -> dict[str, Any]:
        self._part = self._parts[""] = _Part()
        made = self._lower(self._root)
        store: dict[str, Any] = {}
        while self._todo or self._unused:
            if self._unused:
                self._part = _Part()
                self._lower(self._unused.pop())
                continue
            name, schema = self._todo.pop()
            self._part = self._parts[name] = _Part()
            store[name] = self._lower(schema)
        for charge, name in self._charges:
            charge[CHARGE] = _price(self._parts[name].weight)
        document = cast("dict[str, Any]", made if isinstance(made, dict) else {} if made is True else {"not": {}})
        if store:
            document[self.store] = store
        return document

    def is_costly(self) -> bool:
        """Whether parts mention each other in a circle, or add up to much for one value."""
        mentioned = Counter(name for part in self._parts.values() for name in part.mentions)
        ready = [name for name in self._parts if not mentioned[name]]
        order: list[str] = []
        while ready:
            order.append(ready.pop())
            for name in self._parts[order[-1]].mentions:
                mentioned[name] -= 1
                if not mentioned[name]:
                    ready.append(name)
        if len(order) < len(self._parts):
            return True
        whole: dict[str, int] = {}
        for name in reversed(order):
            part = self._parts[name]
            whole[name] = part.weight + sum(whole[other] * times for other, times in part.mentions.items())
        return whole[""] > _LIGHT

    # -- one schema ------------------------------------------------------------------------------------------------

    def _lower(self, schema: Any) -> Any:
        self._part.weight += 1
        if not isinstance(schema, dict):
            return schema
        given = cast("dict[str, Any]", schema)
        if given is not self._root and isinstance(given.get("$id"), str) and not given["$id"].startswith("#"):
            raise self._refuse(f"a part of it has an $id of its own, {shown(given['$id'])}", "leave the inner $id out")
        references = list(self._references(given))
        if self._lonely and references:
            return references[0]
        made: dict[str, Any] = {}
        for word, said in given.items():
            if word in _PLAIN:
                made[word] = said
            elif word in _MANY and isinstance(said, list):
                made[word] = [self._lower(one) for one in cast("list[Any]", said)]
            elif word in _NAMED and isinstance(said, dict):
                parts = cast("dict[str, Any]", said)
                made[word] = {name: self._named_one(word, name, one) for name, one in parts.items()}
            elif word in _ONE:
                made[word] = self._priced_one(word, self._lower(said))
            elif word in _STORES and isinstance(said, dict) and not self._priced:
                self._unused.extend(cast("dict[str, Any]", said).values())
            elif word in _MANY or word in _NAMED:
                # No schema, from a place where nobody looked for one: the validator will say so.
                made[word] = said
        self._part.weight += _compared(made)
        both = [*made.get("allOf", []), *references, *self._pattern(given), *_unique(given), *_enum(made)]
        if both:
            made["allOf"] = both
        return made

    def _named_one(self, word: str, name: str, schema: Any) -> Any:
        if word == "patternProperties" and self._kind(name) != "linear":
            raise self._refuse(
                f"the pattern {shown(name)} for the names of properties looks around or back",
                "write it without (?=, (?!, (?< and \\1",
            )
        # `dependencies` may hold lists of names.
        return cast("Any", schema) if isinstance(schema, list) else self._priced_one(word, self._lower(schema))

    def _priced_one(self, word: str, made: Any) -> Any:
        if not self._priced or word not in _REPEATED or isinstance(made, bool):
            return made
        return {"allOf": [{CHARGE: _price(weigh(made))}, made]}

    def _pattern(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if isinstance(schema.get("pattern"), str):
            pattern = {"pattern": schema["pattern"]}
            yield pattern if self._kind(schema["pattern"]) == "linear" else {"allOf": [{SHORT: True}, pattern]}

    def _kind(self, pattern: str) -> str:
        known = self._patterns.get(pattern)
        if known is None:
            known = pattern_kind(pattern)
            if known is None:
                raise self._refuse(f"{shown(pattern)} is no regular expression, or too large a one", "correct it")
            self._patterns[pattern] = known
            if len(self._patterns) > _MAX_PATTERNS:
                raise self._refuse(f"it has more than {_MAX_PATTERNS} patterns", "use fewer")
        return known

    # -- references ------------------------------------------------------------------------------------------------

    def _references(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        words = ["$ref"]
        # Within one schema the dynamic ones can only mean what they say.
        if self._draft == "Draft202012Validator":
            words.append("$dynamicRef")
        if self._draft == "Draft201909Validator":
            words.append("$recursiveRef")
        for word in words:
            if isinstance(schema.get(word), str):
                yield self._reference(schema[word])

    def _reference(self, reference: str) -> dict[str, Any]:
        name = self._names.get(reference)
        if name is None:
            target = self._resolve(reference)
            name = self._names[reference] = str(len(self._names))
            self._todo.append((name, target))
        self._part.mentions[name] += 1
        made: dict[str, Any] = {"$ref": f"#/{self.store}/{name}"}
        if not self._priced:
            return made
        charge: dict[str, Any] = {CHARGE: 1}
        self._charges.append((charge, name))
        return {"allOf": [charge, made]}

    def _resolve(self, reference: str) -> Any:
        fragment = reference.removeprefix(self._id)
        if not fragment.startswith("#"):
            raise self._refuse(
                f"it refers to {shown(reference)}, which is not in it, and nothing is ever fetched",
                f'put that schema under "{self.store}" and refer to "#/{self.store}/<name>"',
            )
        fragment = unquote(fragment[1:])
        if fragment and not fragment.startswith("/"):
            target = self._anchors().get(fragment)
        else:
            target = _pointed(self._root, fragment)
        if not isinstance(target, (dict, bool)):
            raise self._refuse(
                f"it refers to {shown(reference)}, where there is no schema",
                "correct the reference, or add the schema",
            )
        return cast("dict[str, Any] | bool", target)

    def _anchors(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        todo: list[Any] = [self._root]
        while todo:
            part = todo.pop()
            if isinstance(part, dict):
                one = cast("dict[str, Any]", part)
                for word in ("$anchor", "$dynamicAnchor", "$id", "id"):
                    if isinstance(one.get(word), str):
                        found.setdefault(one[word].removeprefix("#"), one)
                todo.extend(one.values())
            elif isinstance(part, list):
                todo.extend(cast("list[Any]", part))
        return found

    def _refuse(self, reason: str, hint: str) -> InvalidInput:
        return InvalidInput(f"{self._what}: {reason}", hint=hint)


def _unique(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if schema.get("uniqueItems") is True:
        yield {"allOf": [{COUNTABLE: True}, {"uniqueItems": True}]}


def _enum(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Texts are looked up in a long list; anything else is compared one by one, and pays for it."""
    options: Any = made.get("enum")
    listed = cast("list[Any]", options) if isinstance(options, list) else []
    if len(listed) > _FEW and any(not isinstance(one, str) for one in listed):
        yield {"allOf": [{CHARGE: len(listed) // 2}, {"enum": made.pop("enum")}]}


def _price(weight: int) -> int:
    return 1 + weight // 20


def weigh(made: Any) -> int:
    """How many schemas there are in one that is lowered already."""
    if isinstance(made, dict):
        given = cast("dict[str, Any]", made)
        return 1 + _compared(given) + sum(weigh(one) for one in given.values())
    return sum(weigh(one) for one in cast("list[Any]", made)) if isinstance(made, list) else 0


def _compared(made: dict[str, Any]) -> int:
    """A constant that is no plain value takes about as long as so many schemas."""
    return 20 if isinstance(made.get("const"), (dict, list)) else 0


def _pointed(root: Any, pointer: str) -> Any:
    target = root
    for word in pointer.split("/")[1:]:
        word = word.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = cast("dict[str, Any]", target).get(word)
        elif isinstance(target, list) and re.fullmatch("[0-9]{1,6}", word):
            target = next(iter(cast("list[Any]", target)[int(word) :]), None)
        else:
            return None
    return target
