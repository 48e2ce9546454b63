"""Cloister's own functions inside a cell: what there is to call, and under which terms.

They answer from what the session holds already. Nothing leaves the cell, so they cost no call and leave no record.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from cloister.core.codes import Code
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.gate.budget import Budget
from cloister.gate.policy import Policy
from cloister.gate.refusal import refuse
from cloister.ports.engine import Call
from cloister.tools.catalog import signature_in
from cloister.tools.registry import ToolRegistry
from cloister.tools.tool import Tool

_ARGUMENTS = {"list_tools": (), "describe_tool": ("name",), "current_policy": ()}


class Discovery:
    def __init__(self, registry: ToolRegistry, policy: Policy, language: Language) -> None:
        self._registry = registry
        self._policy = policy
        self._language = language

    def knows(self, name: str) -> bool:
        """Whether the call is one of ours. A tool of that name comes first."""
        return name in _ARGUMENTS and name not in self._registry

    def answer(self, call: Call, budget: Budget) -> Json:
        """Raises `Refusal` for arguments that do not fit."""
        given = _given(call, _ARGUMENTS[call.name])
        match call.name:
            case "list_tools":
                return [self._entry(tool) for tool in self._tools()]
            case "describe_tool":
                return self._describe(given["name"])
            case _:
                return {
                    "tools": [self._terms(tool) for tool in self._tools()],
                    "deny": self._policy.denied(),
                    "calls": {"limit": budget.limit, "left": budget.left},
                }

    def _tools(self) -> list[Tool]:
        return sorted(self._registry, key=lambda tool: tool.full_name)

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

    def _describe(self, name: object) -> Json:
        tool = self._registry.get(name) if isinstance(name, str) else None
        if tool is None:
            close = difflib.get_close_matches(str(name)[:100], self._registry.names(), n=1)
            hint = f"did you mean `{close[0]}`?" if close else "`await list_tools()` shows what there is"
            raise refuse(Code.UNKNOWN_TOOL, f"there is no tool {str(name)[:100]!r}", hint)
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

    def _terms(self, tool: Tool) -> Json:
        return {
            "name": tool.full_name,
            "side_effect": str(tool.side_effect),
            "approval": self._approval(tool),
            "limits": _limits(tool.limits),
        }


def _given(call: Call, names: tuple[str, ...]) -> Mapping[str, Json]:
    given = dict(zip(names, call.args, strict=False)) | dict(call.kwargs)
    if len(call.args) > len(names) or set(given) != set(names):
        shown = ", ".join(names)
        raise refuse(Code.INVALID_ARGUMENTS, f"`{call.name}` takes {shown or 'nothing'}", f"{call.name}({shown})")
    return given


def _limits(limits: CapabilityLimits) -> Json:
    return to_json(limits)


def _json(schema: Mapping[str, Any]) -> Json:
    return to_json(schema)
