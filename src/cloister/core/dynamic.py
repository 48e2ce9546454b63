"""Tools that a client brings along: what it says of them, what it is asked, and what it answers.

The client is outside. What it says of a tool is checked when it registers it, the arguments of a call before it sees
them, and its answers before a program does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cloister.core.capability import check_namespace, check_tool_name
from cloister.core.cell import Content
from cloister.core.content import parse_content
from cloister.core.errors import InvalidInput

MAX_DYNAMIC_TOOLS = 128
_NAMESPACE_SEPARATOR = "::"


@dataclass(frozen=True, slots=True)
class DynamicToolSpec:
    name: str
    namespace: str | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    defer_loading: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        check_tool_name(self.name)
        if self.namespace is not None:
            check_namespace(self.namespace)

    @property
    def full_name(self) -> str:
        """How a program writes it: `name`, or `namespace.name`."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def model_name(self) -> str:
        """How a model is shown it: `name`, or `namespace::name`."""
        return f"{self.namespace}{_NAMESPACE_SEPARATOR}{self.name}" if self.namespace else self.name


def check_specs(specs: tuple[DynamicToolSpec, ...], what: str = "dynamic_tools") -> tuple[DynamicToolSpec, ...]:
    if len(specs) > MAX_DYNAMIC_TOOLS:
        raise InvalidInput(f"{what} has {len(specs)} tools; there may be {MAX_DYNAMIC_TOOLS}")
    seen: set[str] = set()
    for spec in specs:
        if spec.full_name in seen:
            raise InvalidInput(f"{what} has two tools with the name {spec.full_name!r}", hint="give one a namespace")
        seen.add(spec.full_name)
    return specs


@dataclass(frozen=True, slots=True)
class DynamicToolCallParams:
    """What the client is asked. `arguments` fit the tool's schema."""

    thread_id: str
    turn_id: str
    call_id: str
    tool: str
    namespace: str | None = None
    arguments: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class DynamicToolCallResult:
    """What the client answers. Without `success` the program gets an error, with the texts of `content` as its
    message."""

    success: bool
    content: Content = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", parse_content(self.content, "content", may_be_empty=True))
