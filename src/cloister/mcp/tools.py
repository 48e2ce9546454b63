"""The tools as clients list them: names, descriptions, schemas.

Descriptions are read by models, at every request, so they are short; what can be called from a program follows in that
of `exec`, within its budget.
"""

from collections.abc import Mapping
from typing import Any

from mcp.types import Tool, ToolAnnotations

from cloister.core.language import Language
from cloister.mcp.arguments import Approve, Cells, Exec, Request, Search, Wait
from cloister.mcp.options import McpOptions

_YIELD = {
    "type": "integer",
    "minimum": 0,
    "description": "How long to look, in ms (default 10000). The program goes on after that.",
}
_EXEC = (
    "Run a program in a sealed session and get its output and the value of its last expression. Variables last from "
    "one program to the next. If it takes longer than yield_ms you get a cell_id: call `wait` with it."
)
_WAIT = "Go on looking at a program that has not ended: what is new of it, or its end. With terminate it is stopped."
_SEARCH = "Find what programs can call: the best matches for a few words, with their signatures. Call them in `exec`."
_CELLS = "List the programs that have not ended, and those whose end nobody has read."
_APPROVE = (
    "Answer for the user a question that a program waits for. Only pass on what the user has decided; never decide "
    "yourself. Then call `wait` with the cell_id."
)

NAMES: dict[str, type[Request]] = {
    "exec": Exec,
    "wait": Wait,
    "search_tools": Search,
    "cells": Cells,
    "approve": Approve,
}


def offered(options: McpOptions) -> list[str]:
    names = ["exec", "wait", "search_tools"]
    if options.show_cells:
        names.append("cells")
    if options.allow_approve:
        names.append("approve")
    return names


def declare(options: McpOptions, preamble: str) -> list[Tool]:
    made = {tool.name: tool for tool in _all(options.language, preamble)}
    return [made[name] for name in offered(options)]


def _all(language: Language, preamble: str) -> list[Tool]:
    told = f"{_EXEC}\n\n{preamble}" if preamble else _EXEC
    return [
        _tool(
            "exec",
            told,
            {
                "code": {"type": "string", "description": "The program."},
                "language": {
                    "type": "string",
                    "enum": [str(one) for one in Language],
                    "description": f"Default {language}. Each language has variables of its own.",
                },
                "yield_ms": _YIELD,
                "max_output_tokens": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "How much output to show; the middle of more is cut and saved to a file.",
                },
            },
            ["code"],
            # What programs call may change the world, so clients should treat this as such.
            ToolAnnotations(destructive_hint=True, open_world_hint=True),
        ),
        _tool(
            "wait",
            _WAIT,
            {
                "cell_id": {"type": "string", "description": "As `exec` gave it."},
                "yield_ms": _YIELD,
                "terminate": {"type": "boolean", "description": "Stop the program."},
            },
            ["cell_id"],
            ToolAnnotations(destructive_hint=False, open_world_hint=True),
        ),
        _tool(
            "search_tools",
            _SEARCH,
            {
                "query": {"type": "string", "description": "A few words."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many at most (default 10)."},
            },
            ["query"],
            ToolAnnotations(read_only_hint=True),
        ),
        _tool("cells", _CELLS, {}, [], ToolAnnotations(read_only_hint=True)),
        _tool(
            "approve",
            _APPROVE,
            {
                "approval_id": {"type": "string", "description": "As the waiting program's answer gave it."},
                "decision": {
                    "type": "string",
                    "enum": ["allow", "allow_always", "deny"],
                    "description": "This call once, this call from now on, or no.",
                },
                "message": {"type": "string", "description": "What the user wants the program to know."},
            },
            ["approval_id", "decision"],
            ToolAnnotations(destructive_hint=True, open_world_hint=True),
        ),
    ]


def _tool(
    name: str, description: str, properties: Mapping[str, Any], required: list[str], annotations: ToolAnnotations
) -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    if required:
        schema["required"] = required
    return Tool(name=name, description=description, input_schema=schema, annotations=annotations)
