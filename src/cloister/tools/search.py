"""Search among tools by words: BM25 over names, descriptions and parameter names, in an index built once.

A name counts most, by its parts: `listPullRequests` and `list_pull_requests` are the same three words. Words are
compared by a stem that only takes plurals and the commonest endings off. The order is stable: tools of equal weight
come in the order of their names.

Each word keeps its tools with the weight already worked out, so a search adds up a few short lists and sorts nothing
but the best.
"""

import asyncio
import heapq
import math
import re
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

from cloister.tools.registry import ToolRegistry
from cloister.tools.tool import Tool

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
# What is said in every query and every description, and tells nothing.
_NOISE = frozenset(
    "a an and any are as at be by can do does for from get gets given has have how i if in into is it its let me my "
    "new of on one or please some that the their them then there these this to up use used using want was what when "
    "which will with you your".split()
)
# "get" and "new" are noise in a sentence and words in a name.
_NAME_NOISE = frozenset("a an and for in of on or the to with by from".split())
# How much a word counts for where it stands.
_IN_NAME, _IN_SPACE, _IN_PARAMETER, _IN_DESCRIPTION, _IN_NOTE = 4.0, 2.5, 1.0, 1.0, 0.3
# The constants of BM25: how fast repeating a word stops to count, and how much a long text is held against it.
_K, _B = 1.2, 0.5
_LONGEST_DESCRIPTION = 2000
_MOST_WORDS = 32
# An index of more tools is built in a thread.
_MOST_AT_ONCE = 300


def words(text: str) -> list[str]:
    """The words of a name or a sentence, in lower case and without their commonest endings."""
    return [_stem(word.lower()) for word in _WORD.findall(text)]


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 5 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if len(word) > 5 and word.endswith("ing"):
        return _undouble(word[:-3])
    if len(word) > 5 and word.endswith("ed"):
        return _undouble(word[:-2])
    if len(word) > 4 and word.endswith("e"):
        return word[:-1]
    return word


def _undouble(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls" else word


class Index:
    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = sorted(tools, key=lambda tool: tool.full_name)
        texts = [_weights(tool) for tool in self._tools]
        lengths = [sum(weights.values()) for weights in texts]
        typical = sum(lengths) / len(lengths) if lengths else 1.0
        counts = Counter(word for weights in texts for word in weights)
        rarity = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in counts.items()}
        self._places: dict[str, array[int]] = {word: array("I") for word in counts}
        self._scores: dict[str, array[float]] = {word: array("f") for word in counts}
        for place, weights in enumerate(texts):
            held = _K * (1 - _B + _B * lengths[place] / (typical or 1.0))
            for word, weight in weights.items():
                self._places[word].append(place)
                self._scores[word].append(rarity[word] * weight * (_K + 1) / (weight + held))

    def search(self, query: str, limit: int) -> list[Tool]:
        """The best `limit`, the best first; none for a query without a word that any tool has."""
        asked = _asked(query)
        sums: dict[int, float] = {}
        for word in asked:
            for place, score in zip(self._places.get(word, ()), self._scores.get(word, ()), strict=True):
                sums[place] = sums.get(place, 0.0) + score
        best = heapq.nsmallest(limit, sums.items(), key=lambda found: (-round(found[1], 6), found[0]))
        return [self._tools[place] for place, _ in best]


def _asked(query: str) -> list[str]:
    said = list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
    telling = [word for word in said if word not in _NOISE] or said
    return list(dict.fromkeys(_stem(word) for word in telling))[:_MOST_WORDS]


def _weights(tool: Tool) -> dict[str, float]:
    """Each word of a tool, with how much it counts."""
    found: dict[str, float] = {}

    def add(text: str, weight: float, noise: frozenset[str]) -> None:
        for word in _WORD.findall(text):
            if word.lower() not in noise:
                stem = _stem(word.lower())
                found[stem] = found.get(stem, 0.0) + weight

    add(tool.name, _IN_NAME, _NAME_NOISE)
    if tool.namespace:
        add(tool.namespace, _IN_SPACE, _NAME_NOISE)
    add(tool.description[:_LONGEST_DESCRIPTION], _IN_DESCRIPTION, _NOISE)
    for name, note in parameters_of(tool):
        add(name, _IN_PARAMETER, _NOISE)
        add(note, _IN_NOTE, _NOISE)
    return found


def parameters_of(tool: Tool) -> list[tuple[str, str]]:
    """The names of its parameters, with what is said about them."""
    told = tool.parameters
    properties: Any = tool.capability.input_schema.get("properties", {})
    if not isinstance(properties, dict) or not properties:
        return [(name, "") for name in told]
    named = cast("dict[str, Any]", properties)
    return [(name, _note(part)) for name, part in named.items()]


def _note(part: Any) -> str:
    note = cast("dict[str, Any]", part).get("description") if isinstance(part, dict) else None
    return note[:_LONGEST_DESCRIPTION] if isinstance(note, str) else ""


class IndexCache:
    """The indexes that were built lately, by what there is to find. Sessions with the same tools share one."""

    def __init__(self, keep: int = 8) -> None:
        self._keep = keep
        self._made: OrderedDict[str, Index] = OrderedDict()

    async def ready(self, registry: ToolRegistry) -> Index:
        """The same as `get`, with a large index built in a thread: others go on meanwhile."""
        if len(registry) > _MOST_AT_ONCE and registry.content not in self._made:
            key, tools = registry.content, list(registry)
            return self._keep_made(key, await asyncio.to_thread(Index, tools))
        return self.get(registry)

    def get(self, registry: ToolRegistry) -> Index:
        key = registry.content
        found = self._made.get(key)
        if found is None:
            found = self._keep_made(key, Index(registry))
        self._made.move_to_end(key)
        return found

    def _keep_made(self, key: str, index: Index) -> Index:
        self._made[key] = index
        while len(self._made) > self._keep:
            self._made.popitem(last=False)
        return index
