"""A capability: a tool granted to a session, and everything the gate must know about it."""

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from cloister.core.digest import digest_json
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.language import PYTHON_BUILTINS, PYTHON_MODULES
from cloister.core.limits import CapabilityLimits


class SideEffect(StrEnum):
    NONE = "none"
    READ = "read"
    WRITE = "write"
    NETWORK = "network"
    DATABASE = "database"
    EXTERNAL_SYSTEM = "external_system"


# What changes nothing, and may as well have been done again.
HARMLESS = frozenset({SideEffect.NONE, SideEffect.READ})


def parse_side_effect(text: object) -> SideEffect:
    try:
        return SideEffect(text)
    except ValueError:
        choices = ", ".join(f"'{effect}'" for effect in SideEffect)
        raise InvalidInput(f"unknown side effect {text!r}: use one of {choices}") from None


_WAYS = 'write "none", "manual" or {"auto": {"rule": "<CEL>"}}, and nothing else in it'


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Whether a call asks a person first: never, always, or unless a CEL rule holds."""

    kind: str = "none"
    rule: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("none", "auto", "manual"):
            raise InvalidInput(f"unknown approval policy {self.kind!r}: use 'none', 'auto' with a rule, or 'manual'")
        if (self.kind == "auto") != bool(self.rule):
            raise InvalidInput("an approval policy has a rule when it is 'auto', and only then", hint=_WAYS)

    @classmethod
    def parse(cls, value: object) -> "ApprovalPolicy":
        """Read `"none"`, `"manual"` or `{"auto": {"rule": "<CEL>"}}`."""
        if isinstance(value, ApprovalPolicy):
            return value
        if isinstance(value, str):
            return cls(kind=value)
        if isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value).get("auto")
            rule = cast("Mapping[str, Any]", inner).get("rule") if isinstance(inner, Mapping) else None
            if isinstance(rule, str) and value == {"auto": {"rule": rule}}:
                return cls(kind="auto", rule=rule)
        raise InvalidInput(f"not an approval policy: {value!r}", hint=_WAYS)

    def to_json(self) -> "str | dict[str, Any]":
        return {"auto": {"rule": self.rule}} if self.kind == "auto" else self.kind


def check_tool_name(name: object) -> str:
    """`name` if a program can write it as an identifier in both languages; raises `InvalidToolName` otherwise."""
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise InvalidToolName(f"{name!r} cannot be the name of a tool: use letters, digits and underscores")
    if keyword.iskeyword(name):
        raise InvalidToolName(f"{name!r} cannot be the name of a tool: it is a word of the language")
    return name


def check_namespace(name: object) -> str:
    """`name` if programs can have tools behind it; raises `InvalidToolName` otherwise."""
    check_tool_name(name)
    if name in PYTHON_MODULES:
        raise InvalidToolName(
            f"{name!r} cannot be a namespace: Python has a module of that name", hint=f'for example "{name}_tools"'
        )
    return str(name)


def check_plain_name(name: str) -> str:
    """`name` if a tool can be called by it alone; raises `InvalidToolName` where a program would get something else."""
    if name in PYTHON_BUILTINS:
        raise InvalidToolName(
            f"{name!r} cannot be the name of a tool: Python has it built in, and programs would get that",
            hint=f'give it a namespace, or call it for example "{name.strip("_")}_tool"',
        )
    return name


def _positional() -> dict[str, Any]:
    return {"type": "array"}


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    namespace: str | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=_positional)
    output_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    side_effect: SideEffect = SideEffect.NONE
    limits: CapabilityLimits = field(default_factory=CapabilityLimits)
    approval_policy: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    idempotent: bool = True
    defer_loading: bool = False

    def __post_init__(self) -> None:
        check_tool_name(self.name)
        if self.namespace is not None:
            check_namespace(self.namespace)

    @property
    def full_name(self) -> str:
        """How a program writes it: `name`, or `namespace.name`."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


def capability_digest(capability: Capability) -> str:
    """What a suspended program relies on: the name, the schemas and the side effect, and nothing else."""
    return digest_json(
        [capability.full_name, capability.input_schema, capability.output_schema, str(capability.side_effect)]
    )
