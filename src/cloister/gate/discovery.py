"""Cloister's own functions inside a cell: what there is to call, and under which terms.

They answer from what the session holds already; only the contract of a tool that is described for the first time may
have to be asked of its source. They cost no call and leave no record.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from cloister.core.codes import Code
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.gate.passage import Caller
from cloister.gate.policy import Policy
from cloister.gate.refusal import Refusal, refuse
from cloister.gate.resolve import find, make_ready
from cloister.ports.engine import Call
from cloister.tools.catalog import signature_in
from cloister.tools.offered import Offered
from cloister.tools.registry import ToolRegistry
from cloister.tools.search import IndexCache
from cloister.tools.tool import Tool

# With the defaults of those that need not be given.
_ARGUMENTS: dict[str, dict[str, Json]] = {
    "list_tools": {},
    "search_tools": {"query": None, "limit": 10},
    "describe_tool": {"name": None},
    "current_policy": {},
}
MOST_FOUND = 50
LONGEST_QUERY = 1000


class Discovery:
    def __init__(self, registry: ToolRegistry, policy: Policy, language: Language, indexes: IndexCache) -> None:
        self._registry = registry
        self._policy = policy
        self._language = language
        self._indexes = indexes

    def knows(self, name: str) -> bool:
        """Whether the call is one of ours. A tool of that name comes first."""
        return name in _ARGUMENTS and name not in self._registry

    async def answer(self, call: Call, caller: Caller) -> Json:
        """Raises `Refusal` for arguments that do not fit."""
        given = _given(call, _ARGUMENTS[call.name])
        match call.name:
            case "list_tools":
                return [self._entry(tool) for tool in self._tools()]
            case "search_tools":
                return await self.search(given["query"], given["limit"])
            case "describe_tool":
                return await self.describe(given["name"], caller.offered)
            case _:
                budget = caller.budget
                return {
                    "tools": [self._terms(tool) for tool in self._tools()],
                    "deny": self._policy.denied(),
                    "calls": {"limit": budget.limit, "left": budget.left},
                }

    async def search(self, query: object, limit: object) -> list[Json]:
        """What `search_tools` answers."""
        if not isinstance(query, str) or len(query) > LONGEST_QUERY:
            raise _bad("search_tools", f"query is a text of at most {LONGEST_QUERY} characters")
        if type(limit) is not int or not 1 <= limit <= MOST_FOUND:
            raise _bad("search_tools", f"limit is a whole number from 1 to {MOST_FOUND}")
        index = await self._indexes.ready(self._registry)
        return [self._found(tool) for tool in index.search(query, limit)]

    async def describe(self, name: object, began_with: Offered | None = None) -> dict[str, Json]:
        """What `describe_tool` answers. From here on the tool is no longer hidden."""
        tool = find(self._registry, name, began_with) if isinstance(name, str) else None
        if tool is None:
            close = difflib.get_close_matches(str(name)[:100], self._registry.names(), n=1)
            hint = f"did you mean `{close[0]}`?" if close else "`await list_tools()` shows what there is"
            raise refuse(Code.UNKNOWN_TOOL, f"there is no tool {str(name)[:100]!r}", hint)
        if not tool.is_ready:
            await make_ready(tool)
        self._registry.show(tool)
        capability = tool.capability
        return {
            "name": tool.full_name,
            "description": tool.description,
            "signature": signature_in(self._language, capability),
            "input_schema": _json(capability.input_schema),
            "output_schema": _json(capability.output_schema),
            "side_effect": str(tool.side_effect),
            "idempotent": tool.idempotent,
            "approval": self._approval(tool),
            "limits": _limits(tool.limits),
        }

    def _tools(self) -> list[Tool]:
        return sorted(self._registry.shown(), key=lambda tool: tool.full_name)

    def _approval(self, tool: Tool) -> Json:
        terms = self._policy.terms(tool.capability)
        return terms["approval"] if isinstance(terms, dict) else None

    def _entry(self, tool: Tool) -> dict[str, Json]:
        lines = tool.description.splitlines()
        return {
            "name": tool.full_name,
            "description": lines[0] if lines else "",
            "side_effect": str(tool.side_effect),
            "approval": self._approval(tool),
        }

    def _found(self, tool: Tool) -> Json:
        lines = tool.description.splitlines()
        return {
            "name": tool.full_name,
            "description": lines[0] if lines else "",
            "signature": signature_in(self._language, tool.capability) if tool.is_known else None,
        }

    def _terms(self, tool: Tool) -> Json:
        return {
            "name": tool.full_name,
            "side_effect": str(tool.side_effect),
            "approval": self._approval(tool),
            "limits": _limits(tool.limits),
        }


def _given(call: Call, takes: Mapping[str, Json]) -> Mapping[str, Json]:
    given = dict(zip(takes, call.args, strict=False)) | dict(call.kwargs)
    missing = [name for name, default in takes.items() if name not in given and default is None]
    if len(call.args) > len(takes) or missing or not given.keys() <= takes.keys():
        raise _bad(call.name, f"`{call.name}` takes {', '.join(takes) or 'nothing'}")
    return {**takes, **given}


def _bad(name: str, said: str) -> Refusal:
    return refuse(Code.INVALID_ARGUMENTS, said, f"{name}({', '.join(_ARGUMENTS[name])})")


def _limits(limits: CapabilityLimits) -> Json:
    return to_json(limits)


def _json(schema: Mapping[str, Any]) -> Json:
    return to_json(schema)
