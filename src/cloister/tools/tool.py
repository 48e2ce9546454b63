"""A tool: a function of the host that programs may call, with what must be known about it.

`@tool` reads the function's type hints and docstring. The schema is made on first use, because making it
imports pydantic and most imports of a module with tools never run one.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, overload

from cloister.core.capability import ApprovalPolicy, Capability, SideEffect, check_tool_name, parse_side_effect
from cloister.core.errors import InvalidInput
from cloister.core.limits import CapabilityLimits
from cloister.tools.signature import Signature

Handler = Callable[..., Any]


class ToolError(Exception):
    """Raised by a tool to speak to the program: code, message and hint reach it; nothing else of an exception does."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Tool:
    """A function and its capability. Calling the tool calls the function, so it stays usable in plain Python."""

    def __init__(
        self,
        handler: Handler,
        *,
        name: str | None = None,
        namespace: str | None = None,
        description: str | None = None,
        side_effect: str | SideEffect = SideEffect.NONE,
        limits: CapabilityLimits | None = None,
        approval_policy: str | Mapping[str, Any] | ApprovalPolicy = "none",
        idempotent: bool = True,
    ) -> None:
        self.handler = handler
        self.name = check_tool_name(name or getattr(handler, "__name__", None))
        self.namespace = check_tool_name(namespace) if namespace is not None else None
        self.description = inspect.cleandoc(description or handler.__doc__ or "")
        self.side_effect = parse_side_effect(side_effect)
        self.limits = limits or CapabilityLimits()
        self.approval_policy = ApprovalPolicy.parse(approval_policy)
        if self.approval_policy.kind != "none":
            # A policy that nobody enforces is worse than none: the caller would count on it.
            raise InvalidInput(
                f"tool {self.name!r}: approval_policy={self.approval_policy.kind!r} cannot be enforced yet",
                hint="leave it out, and do not grant the tool where a person must be asked",
            )
        self.idempotent = idempotent
        called = handler if inspect.isroutine(handler) else handler.__call__
        self.is_async = inspect.iscoroutinefunction(called)
        self.signature = Signature(handler, self.name)
        self.full_name = f"{namespace}.{self.name}" if namespace else self.name
        self.__doc__ = self.description
        self.__name__ = self.name

    @cached_property
    def capability(self) -> Capability:
        return Capability(
            name=self.name,
            namespace=self.namespace,
            description=self.description,
            input_schema=self.signature.input_schema,
            output_schema=self.signature.output_schema,
            side_effect=self.side_effect,
            limits=self.limits,
            approval_policy=self.approval_policy,
            idempotent=self.idempotent,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.full_name})"


@overload
def tool(handler: Handler, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    namespace: str | None = None,
    description: str | None = None,
    side_effect: str | SideEffect = SideEffect.NONE,
    limits: CapabilityLimits | None = None,
    approval_policy: str | Mapping[str, Any] | ApprovalPolicy = "none",
    idempotent: bool = True,
) -> Callable[[Handler], Tool]: ...
def tool(handler: Handler | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: `@tool` or `@tool(side_effect="read")`."""
    if handler is not None:
        return Tool(handler)

    def decorate(function: Handler) -> Tool:
        return Tool(function, **options)

    return decorate


def as_tool(candidate: object) -> Tool:
    """`candidate` itself if it is a tool, otherwise a tool with defaults around a plain function."""
    if isinstance(candidate, Tool):
        return candidate
    if callable(candidate):
        return Tool(candidate)
    raise TypeError(f"{candidate!r} is not a tool: give a function, or one decorated with @tool")
