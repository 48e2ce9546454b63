"""What a model is offered to call: function tools, whose arguments are JSON, and freeform tools, whose input is text.

An offer is words for a model and no more; what a call then does is decided by whoever made the offer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, assert_never

from cloister.core.doc import Doc
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.value import Json

# What every provider accepts, but for the colons of a namespace: where they are refused, they are put differently.
_NAME = re.compile(r"(?=.{1,64}\Z)[a-zA-Z0-9_-]+(?:::[a-zA-Z0-9_-]+)?")
GrammarSyntax: TypeAlias = Literal["lark", "regex"]


def _empty() -> dict[str, Json]:
    return {}


def _object() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise InvalidToolName(
            f"{name[:100]!r} cannot be offered to a model",
            hint="use 1 to 64 letters, digits, underscores and hyphens; NAMESPACE::NAME is one name",
        )


@dataclass(frozen=True, slots=True)
class FunctionTool:
    name: str
    description: str = ""
    # Of an object; draft 2020-12.
    input_schema: Mapping[str, Any] = field(default_factory=_object)
    # Whether the provider is to hold the model to the schema, where it can.
    strict: bool = False
    extra: Mapping[str, Json] = field(default_factory=_empty)

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.input_schema.get("type") != "object":
            raise InvalidInput(f"the input schema of {self.name!r} is that of an object: give it a type 'object'")


@dataclass(frozen=True, slots=True)
class Grammar:
    syntax: GrammarSyntax
    definition: str


@dataclass(frozen=True, slots=True)
class FreeformTool:
    """Only for models whose `capabilities.freeform_tools` says so; others refuse it by name."""

    name: str
    description: str = ""
    grammar: Grammar | None = None
    extra: Mapping[str, Json] = field(default_factory=_empty)

    def __post_init__(self) -> None:
        _check_name(self.name)


OfferedTool: TypeAlias = FunctionTool | FreeformTool


def offer_to_doc(tool: OfferedTool) -> dict[str, Any]:
    doc: dict[str, Any] = dict(tool.extra)
    match tool:
        case FunctionTool():
            doc |= {"type": "function", "name": tool.name, "description": tool.description}
            doc["input_schema"] = dict(tool.input_schema)
            if tool.strict:
                doc["strict"] = True
        case FreeformTool():
            doc |= {"type": "freeform", "name": tool.name, "description": tool.description}
            if tool.grammar is not None:
                doc["grammar"] = {"syntax": tool.grammar.syntax, "definition": tool.grammar.definition}
        case _:
            assert_never(tool)
    return doc


def offer_from_doc(data: object, where: str = "tool") -> OfferedTool:
    doc = Doc(data, where)
    tag, name, description = doc.text("type"), doc.text("name"), doc.text("description", "")
    match tag:
        case "function":
            schema, strict = doc.mapping("input_schema"), doc.flag("strict")
            return FunctionTool(name, description, schema, strict, doc.rest())
        case "freeform":
            return FreeformTool(name, description, doc.part_or_none("grammar", _grammar), doc.rest())
        case _:
            raise doc.unknown("type", tag, ("function", "freeform"))


def _grammar(data: object, where: str) -> Grammar:
    doc = Doc(data, where)
    syntax = doc.text("syntax")
    if syntax not in ("lark", "regex"):
        raise doc.unknown("syntax", syntax, ("lark", "regex"))
    return Grammar(syntax, doc.text("definition"))
