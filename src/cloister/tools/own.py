"""Cloister's own functions inside a cell, as programs are told of them. A tool of the same name comes first.

They are described by schemas like any tool, so the stubs of both languages come from one text.
"""

from collections.abc import Container
from typing import Any

from cloister.core.capability import Capability
from cloister.core.language import Language

# Asked like tools, so engines must know their names. `secret` is not: it answers within the program.
OWN = ("list_tools", "describe_tool", "current_policy")

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "integer"}
_ANY_OBJECT: dict[str, Any] = {"type": "object"}
_FIRST_LINE: dict[str, Any] = {"type": "string", "description": "The first line."}


def _object(title: str, /, **fields: Any) -> dict[str, Any]:
    needed = [name for name in fields if not name.endswith("_")]
    properties = {name.rstrip("_"): value for name, value in fields.items()}
    return {"type": "object", "title": title, "properties": properties, "required": needed}


def _many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_TERMS: dict[str, Any] = {"side_effect": _TEXT, "approval": {}}
_ENTRY = _object("ToolEntry", name=_TEXT, description=_FIRST_LINE, **_TERMS)
_DESCRIPTION = _object(
    "ToolDescription",
    name=_TEXT,
    description=_TEXT,
    signature=_TEXT,
    input_schema=_ANY_OBJECT,
    output_schema=_ANY_OBJECT,
    idempotent={"type": "boolean"},
    limits=_ANY_OBJECT,
    **_TERMS,
)
_POLICY = _object(
    "CurrentPolicy",
    tools=_many(_object("ToolTerms", name=_TEXT, limits=_ANY_OBJECT, **_TERMS)),
    deny=_many(_object("DenyTerms", rule=_TEXT, tools_=_many(_TEXT), message_={"type": ["string", "null"]})),
    calls=_object("CallsLeft", limit=_NUMBER, left=_NUMBER),
)

OWN_CAPABILITIES = (
    Capability(
        "list_tools",
        description="The tools that this program may call.",
        input_schema=_object(""),
        output_schema=_many(_ENTRY),
    ),
    Capability(
        "describe_tool",
        description="All that is known about one tool.",
        input_schema=_object("", name=_TEXT),
        output_schema=_DESCRIPTION,
    ),
    Capability(
        "current_policy",
        description="What may be called, what asks a person first, and how many calls are left.",
        input_schema=_object(""),
        output_schema=_POLICY,
    ),
)

_SECRET = "A handle for a secret. Give it to a tool that may have it; the value is put in on the way."  # noqa: S105
_SECRETS = {
    Language.PYTHON: f'def secret(name: str) -> str:\n    """{_SECRET}"""\n',
    Language.TYPESCRIPT: f"/** {_SECRET} */\ndeclare function secret(name: string): string;\n",
}


def own_capabilities(roots: Container[str]) -> list[Capability]:
    """Those that no tool and no namespace among `roots` stands in front of."""
    return [capability for capability in OWN_CAPABILITIES if capability.name not in roots]


def secret_stub(language: Language, roots: Container[str]) -> str:
    said = "" if "secret" in roots else _SECRETS[language]
    return said.replace("str", "_builtins.str") if "str" in roots and language is Language.PYTHON else said
