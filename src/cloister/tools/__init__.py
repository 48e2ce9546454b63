"""What may be called: tools, the registry that holds them, and their stubs. Knows no gate and no session."""

from cloister.tools.context import CallContext
from cloister.tools.registry import ToolRegistry
from cloister.tools.tool import Tool, ToolError, tool

__all__ = ["CallContext", "Tool", "ToolError", "ToolRegistry", "tool"]
