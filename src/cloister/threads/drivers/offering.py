"""The tools of a session as functions that a model calls by itself.

A namespaced one is shown as `namespace::name`. Names that no provider takes, and those that two tools would share once
colons are put differently, get one of their own; the way back is kept beside. At most so many are offered: those that a
search has found first, then the others in their order. What does not fit is found by `search_tools`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cloister.core.capability import Capability
from cloister.core.digest import digest_bytes
from cloister.core.offer import FunctionTool
from cloister.threads.drivers.tools import search_tool
from cloister.tools.registry import ToolRegistry
from cloister.tools.tool import Tool

# Most providers take 128; one of them is the search.
MOST_TOOLS = 127
SEARCH = "search_tools"
_SEARCH = "Find tools that are not listed, by a few words. You can call those that are found."
_TAKEN = re.compile(r"[a-zA-Z0-9_-]+(?:::[a-zA-Z0-9_-]+)?")
_LONGEST = 64
# Where what a tool takes is no object, it stands under this name.
ARGUMENTS = "arguments"


@dataclass(frozen=True, slots=True)
class Offered:
    tools: tuple[FunctionTool, ...]
    # What the model calls them, to their full names.
    names: Mapping[str, str]

    def shown(self, full_name: str) -> str:
        return next((name for name, full in self.names.items() if full == full_name), full_name)


def offer(registry: ToolRegistry, found: Sequence[str], most: int = MOST_TOOLS) -> Offered:
    """`found` are those that searches have found, the last one last."""
    names = names_of(registry.names())
    wanted = dict.fromkeys(name for name in reversed(found) if _is_known(registry.get(name)))
    shown = [tool.full_name for tool in registry.shown()]
    for name in shown:
        wanted.setdefault(name)
    chosen = set(list(wanted)[:most])
    # In an order that does not change with what is searched for: providers keep what begins alike.
    in_order = dict.fromkeys([*shown, *sorted(wanted)])
    tools = [_function(names[name], registry.get(name)) for name in in_order if name in chosen]
    offered = tuple(tool for tool in tools if tool is not None)
    if len(offered) < len(registry) and SEARCH not in registry:
        offered = (*offered, search_tool(_SEARCH))
    return Offered(offered, {shown: full for full, shown in names.items()})


def names_of(full_names: Iterable[str]) -> dict[str, str]:
    """What a model is to call each of them."""
    made: dict[str, str] = {}
    # As providers see them, who take no colons.
    taken: set[str] = {SEARCH}
    for full_name in sorted(full_names):
        name = full_name.replace(".", "::")
        if full_name != SEARCH and (
            len(name) > _LONGEST or _TAKEN.fullmatch(name) is None or name.replace("::", "__") in taken
        ):
            name = _own_name(name)
        taken.add(name.replace("::", "__"))
        made[full_name] = name
    return made


def arguments_of(capability: Capability, given: Mapping[str, Any]) -> Any:
    """What goes to the gate."""
    return given if _is_object(capability.input_schema) else given.get(ARGUMENTS, [])


def _own_name(name: str) -> str:
    """One that is free, and the same each time."""
    mark = digest_bytes(name.encode())[:8]
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")
    return f"{plain[: _LONGEST - len(mark) - 1]}_{mark}"


def _function(name: str, tool: Tool | None) -> FunctionTool | None:
    if tool is None or not tool.is_known:
        return None
    capability = tool.capability
    schema = cast("dict[str, Any]", json.loads(json.dumps(capability.input_schema)))
    if not _is_object(schema):
        definitions = {key: schema.pop(key) for key in ("$defs", "definitions") if key in schema}
        schema = {"type": "object", "properties": {ARGUMENTS: schema}, "required": [ARGUMENTS], **definitions}
    return FunctionTool(name, capability.description, schema)


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def _is_known(tool: Tool | None) -> bool:
    return tool is not None and tool.is_known
