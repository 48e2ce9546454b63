"""Stage 1: from the name that a program wrote to the tool."""

import difflib

from cloister.core.codes import Code
from cloister.gate.refusal import refuse
from cloister.tools.registry import ToolRegistry
from cloister.tools.tool import Tool

# Comparing texts is quadratic, and no tool has a name this long.
_LONGEST = 100


def resolve(registry: ToolRegistry, name: str) -> Tool:
    tool = registry.get(name)
    if tool is not None:
        return tool
    close = difflib.get_close_matches(name, registry.names(), n=1) if len(name) <= _LONGEST else []
    shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    raise refuse(Code.UNKNOWN_TOOL, f"there is no tool `{shown}`", f"did you mean `{close[0]}`?" if close else None)
