"""The preamble: what a model must know to write programs for a session, within a budget of tokens.

A token is taken for four bytes of UTF-8. Texts come first, and of them those of Cloister itself; then tools, in the
order in which they came: with their full declaration while they fit, then in one line each, then none, and the search
is what finds the rest. Whatever does not fit is left out whole, and named in what comes back.

How a tool is told depends only on those before it, so one more tool changes nothing before its own place. The one
exception is the tool with which not all declarations fit any more: from then on these keep to a share of the room.
The same tools and texts give the same bytes.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.sessions.prompt.parts import SLOTS, PromptPart
from cloister.sessions.prompt.texts import own_parts
from cloister.tools.prose import line
from cloister.tools.registry import ToolRegistry
from cloister.tools.search import parameters_of
from cloister.tools.stubs import python_stub
from cloister.tools.tool import Tool
from cloister.tools.typescript import typescript_stub

BYTES_PER_TOKEN = 4
LEAST_BUDGET = 128
DEFAULT_BUDGET = 4000
# When not all declarations fit, they have this much of the room for tools, and lines the rest.
_SHARE = 0.7
# What the last line may take.
_MORE = "\n{count} more tools are not listed: search for them.\n"
_MOST_MORE = len(_MORE.format(count=10**7))
_HEADINGS = {"rules": "## Rules\n", "discovery": "## Finding tools\n", "notes": "## Notes\n", "tools": "## Tools\n"}
_LONGEST_LINE = 160
_MOST_NAMES = 8


def tokens_of(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Preamble:
    """`full` and `brief` count the tools told with their declarations and in one line; `unlisted` those that only a
    search finds, deferred ones among them. `left_out` names the slots of texts that did not fit."""

    text: str
    tokens: int
    full: int = 0
    brief: int = 0
    unlisted: int = 0
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


class PreambleWriter:
    """Writes those of one session. `contributed` gives the texts of its plugins, in their order."""

    def __init__(
        self,
        registry: ToolRegistry,
        language: Language,
        limits: SessionLimits,
        contributed: Callable[[], Sequence[PromptPart]],
    ) -> None:
        self._registry = registry
        self._language = language
        self._own = own_parts(language, limits)
        self._contributed = contributed
        self._made: OrderedDict[tuple[object, ...], Preamble] = OrderedDict()

    def write(self, token_budget: int = DEFAULT_BUDGET) -> Preamble:
        if type(token_budget) is not int or token_budget < LEAST_BUDGET:
            raise InvalidInput(f"token_budget is a whole number of at least {LEAST_BUDGET}, not {token_budget!r}")
        parts = tuple(self._contributed())
        key = (self._registry.generation, parts, token_budget)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._render(parts, token_budget * BYTES_PER_TOKEN)
            while len(self._made) > 4:
                self._made.popitem(last=False)
        return found

    def _render(self, contributed: Sequence[PromptPart], room: int) -> Preamble:
        tools = self._registry.shown()
        told, left_out = self._texts(contributed, room)
        head = _written(told, with_tools=bool(tools))
        left = room - _size(head)
        entries, full, brief = self._entries(tools, left)
        unlisted = len(self._registry) - full - brief
        more = _MORE.format(count=unlisted) if unlisted and left - sum(map(_size, entries)) >= _MOST_MORE else ""
        text = "".join([head, *entries, more])
        return Preamble(text, tokens_of(text), full, brief, unlisted, left_out)

    def _texts(self, contributed: Sequence[PromptPart], room: int) -> tuple[list[PromptPart], tuple[str, ...]]:
        """Those that fit: our own first, because without them no program can be written."""
        intro, rules, discovery = self._own
        told: list[PromptPart] = []
        left_out: list[str] = []
        for part in (intro, discovery, rules, *sorted(contributed, key=lambda part: part.order)):
            if not part.text.strip():
                continue
            if _size(_written([*told, part], with_tools=True)) + _MOST_MORE <= room:
                told.append(part)
            else:
                left_out.append(part.slot)
        return told, tuple(left_out)

    def _entries(self, tools: Sequence[Tool], room: int) -> tuple[list[str], int, int]:
        """The tools as they are told, how many in full, and how many in a line."""
        room -= _MOST_MORE
        entries, used = self._while_they_fit(tools, self._declared, room)
        if len(entries) < len(tools):
            entries, used = self._while_they_fit(tools, self._declared, int(room * _SHARE))
        lines, _ = self._while_they_fit(tools[len(entries) :], self._in_a_line, room - used)
        return [*entries, *lines], len(entries), len(lines)

    def _while_they_fit(self, tools: Sequence[Tool], told: Callable[[Tool], str], room: int) -> tuple[list[str], int]:
        entries: list[str] = []
        used = 0
        for tool in tools:
            entry = told(tool)
            if used + (size := _size(entry)) > room:
                break
            entries.append(entry)
            used += size
        return entries, used

    def _declared(self, tool: Tool) -> str:
        found = _declarations[self._language].get(tool)
        if found is None:
            found = _declarations[self._language][tool] = _declaration(tool, self._language)
        return found

    def _in_a_line(self, tool: Tool) -> str:
        found = _lines.get(tool)
        if found is None:
            found = _lines[tool] = _line(tool)
        return found


# Rendered once for all sessions, as long as the tool lives.
_declarations: dict[Language, WeakKeyDictionary[Tool, str]] = {language: WeakKeyDictionary() for language in Language}
_lines: WeakKeyDictionary[Tool, str] = WeakKeyDictionary()


def _declaration(tool: Tool, language: Language) -> str:
    if language is Language.TYPESCRIPT:
        return typescript_stub(tool.capability)
    # A tool of a namespace is imported from there.
    origin = f"# from {tool.namespace} import {tool.name}\n" if tool.namespace else ""
    return origin + python_stub(tool.capability)


def _line(tool: Tool) -> str:
    names = [line(name) for name, _ in parameters_of(tool)]
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    said = line(tool.description.strip().split("\n")[0])
    text = f"- {tool.full_name}({shown})" + (f": {said}" if said else "")
    return f"{text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + '...'}\n"


def _written(parts: Sequence[PromptPart], *, with_tools: bool) -> str:
    """The texts under their headings."""
    blocks: list[str] = []
    for slot in SLOTS:
        texts = [part.text.strip() for part in sorted(parts, key=lambda part: part.order) if part.slot == slot]
        if texts or (slot == "tools" and with_tools):
            blocks.append(_HEADINGS.get(slot, "") + "".join(f"{text}\n" for text in texts))
    return "\n".join(blocks)


def _size(text: str) -> int:
    return len(text.encode())
