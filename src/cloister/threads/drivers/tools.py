"""What the code driver offers: `exec`, `wait` and `search_tools`, in words that are paid for with every request.

Three ways, by what a model can do: function tools, a freeform `exec` that takes the program as it is, and no tools at
all, where programs stand in fenced blocks of what it says.
"""

from collections.abc import Mapping
from typing import Any

from cloister.core.language import Language
from cloister.core.offer import FreeformTool, FunctionTool, OfferedTool
from cloister.ports.model import ModelCapabilities
from cloister.threads.drivers.journal import Transport

EXEC = "Run a program. You get its output and the value of its last expression."
WAIT = "Look again at a cell that goes on: what is new of it, or its end. With terminate it is stopped."
SEARCH = "Find what programs can call: the best matches for a few words."
_NAMES = {Language.PYTHON: "Python", Language.TYPESCRIPT: "TypeScript"}


def transport_of(capabilities: ModelCapabilities) -> Transport:
    if not capabilities.tools:
        return Transport.FENCED
    return Transport.FREEFORM if capabilities.freeform_tools else Transport.FUNCTIONS


def offered(transport: Transport, language: Language) -> tuple[OfferedTool, ...]:
    if transport is Transport.FENCED:
        return ()
    said = f"{EXEC} It is {_NAMES[language]}"
    beside = (_function("wait", WAIT, _WAIT, "cell_id"), _function("search_tools", SEARCH, _SEARCH, "query"))
    if transport is Transport.FREEFORM:
        return (FreeformTool("exec", f"{said}, as it is: no JSON, no markdown fences."), *beside)
    code = {"code": {"type": "string"}, "language": {"type": "string", "enum": [str(language)]}}
    return (_function("exec", f"{said}.", code, "code"), *beside)


def fenced_rules(language: Language) -> str:
    """How a model without tools says that something is to be done."""
    return (
        f"To run a program, write it in a block that begins with ```{language} and ends with ```; then stop. What came "
        "of it is told to you next. Several blocks run one after the other. To look again at a cell that goes on, "
        "write its id in a block that begins with ```wait. An answer without such a block is your last."
    )


_WAIT: Mapping[str, Any] = {
    "cell_id": {"type": "string"},
    "yield_ms": {"type": "integer", "minimum": 0, "description": "How long to look, in ms; 10000 unless given."},
    "terminate": {"type": "boolean"},
}
_SEARCH: Mapping[str, Any] = {
    "query": {"type": "string"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "10 unless given."},
}


def search_tool(said: str = SEARCH) -> FunctionTool:
    return _function("search_tools", said, _SEARCH, "query")


def _function(name: str, said: str, properties: Mapping[str, Any], required: str) -> FunctionTool:
    schema = {"type": "object", "properties": dict(properties), "required": [required], "additionalProperties": False}
    return FunctionTool(name, said, schema)
