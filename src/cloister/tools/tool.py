"""A tool: a function of the host that programs may call, with what must be known about it.

`@tool` reads the function's type hints and docstring; `Tool.from_schema` is told the schema. Schemas given by hand are
compiled when the tool is declared. Those of hints are made on first use, because making them imports pydantic and
most imports of a module with tools never run one.

Arguments take three steps, so that others can stand in between: `arrange` lays them out as JSON, `validate` holds them
against a schema given by hand, `bind` makes of them what the function is called with. All three together are the
check: hints are enforced in `bind`.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, overload

from cloister.core.capability import (
    ApprovalPolicy,
    Capability,
    SideEffect,
    capability_digest,
    check_namespace,
    check_plain_name,
    check_tool_name,
    parse_side_effect,
)
from cloister.core.digest import digest_json
from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.core.value import Json
from cloister.tools.contract import Contract, Violation
from cloister.tools.docstring import read_docstring
from cloister.tools.given import Given, Shape, shape_of
from cloister.tools.parameters import Parameters
from cloister.tools.signature import BadArguments, Bound, Signature
from cloister.tools.wording import json_path

__all__ = ["BadArguments", "Bound", "Tool", "ToolError", "as_tool", "tool"]

Handler = Callable[..., Any]
_POLICIES = """use "none", "manual" or {"auto": {"rule": "<CEL>"}}"""


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
        side_effect: str | SideEffect | None = None,
        limits: CapabilityLimits | None = None,
        approval_policy: str | Mapping[str, Any] | ApprovalPolicy = "none",
        idempotent: bool = True,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        defer_loading: bool = False,
    ) -> None:
        self._declare(handler, name if name is not None else getattr(handler, "__name__", None), namespace)
        read = Parameters(handler, self.name)
        doc = read_docstring(_doc(handler), read.names)
        self._describe(doc.description if description is None else description)
        self._govern(side_effect, limits, approval_policy, idempotent)
        self.defer_loading = self._check_flag("defer_loading", defer_loading)
        self._signature: Signature | None = Signature(read, doc.parameters)
        self._binder: Signature | Given = self._signature
        self._input = self._compile("input", input_schema)
        self._given_output = self._compile("output", output_schema)
        if self._input is None:
            self._shape = Shape(is_array=False, positions=self._signature.positions)
        else:
            self._shape = shape_of(self._input.schema, read)
        self.takes_context = read.context

    @classmethod
    def from_schema(
        cls,
        *,
        name: str,
        description: str,
        handler: Handler,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        side_effect: str | SideEffect | None = None,
        limits: CapabilityLimits | None = None,
        approval_policy: str | Mapping[str, Any] | ApprovalPolicy = "none",
        idempotent: bool = True,
        namespace: str | None = None,
        defer_loading: bool = False,
    ) -> "Tool":
        """A tool whose schema is not read from its function. The handler gets the arguments as they came: by name if
        the schema is an object, by position if it is an array, which is the default; `ctx: CallContext` besides."""
        made = cls.__new__(cls)
        made._declare(handler, name, namespace)
        made._describe(description)
        made._govern(side_effect, limits, approval_policy, idempotent)
        made.defer_loading = made._check_flag("defer_loading", defer_loading)
        made._signature = None
        contract = made._compile("input", {"type": "array"} if input_schema is None else input_schema)
        assert contract is not None
        read = Parameters(handler, made.name)
        made._input = contract
        made._given_output = made._compile("output", output_schema if output_schema is not None else {})
        made._shape = shape_of(contract.schema, read)
        made._binder = Given(read, made._shape)
        made.takes_context = read.context
        return made

    # -- declaring -------------------------------------------------------------------------------------------------

    def _declare(self, handler: Handler, name: object, namespace: str | None) -> None:
        self.name = check_tool_name(name)
        self.namespace = check_namespace(namespace) if namespace is not None else None
        if namespace is None:
            check_plain_name(self.name)
        self.full_name = f"{namespace}.{self.name}" if namespace else self.name
        self.__name__ = self.name
        self.handler = handler
        called = handler if inspect.isroutine(handler) else getattr(handler, "__call__", None)  # noqa: B004
        self.is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)

    def _describe(self, description: object) -> None:
        if not isinstance(description, str):
            raise self._refuse(f"its description is of type {type(description).__name__}", "give it as text")
        self.description = self.__doc__ = inspect.cleandoc(description)

    def _govern(self, side_effect: object, limits: object, approval_policy: object, idempotent: object) -> None:
        # Of one that says nothing the defaults hold, and no more is made of them than must be.
        self.is_declared = side_effect is not None
        try:
            self.side_effect = parse_side_effect(side_effect) if side_effect is not None else SideEffect.NONE
        except InvalidInput as error:
            raise self._refuse(error.message, error.hint) from None
        try:
            self.approval_policy = ApprovalPolicy.parse(approval_policy)
        except InvalidInput as error:
            raise self._refuse(error.message, _POLICIES) from None
        if self.approval_policy.kind == "auto":
            from cloister.tools.rule import Rule

            Rule.compile(self.approval_policy.rule, what=f"the approval rule of tool {self.name!r}")
        if limits is not None and not isinstance(limits, CapabilityLimits):
            raise self._refuse(f"its limits are of type {type(limits).__name__}", "give CapabilityLimits(...)")
        self.limits = limits or CapabilityLimits()
        self.idempotent = self._check_flag("idempotent", idempotent)

    def _check_flag(self, name: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self._refuse(f"{name}={value!r} is neither True nor False", "say which of them")
        return value

    def _compile(self, side: Literal["input", "output"], schema: object) -> Contract | None:
        if schema is None:
            return None
        what = f"the {side} schema of tool {self.name!r}"
        if not isinstance(schema, Mapping):
            raise InvalidInput(
                f"{what} is not a JSON Schema: it is of type {type(schema).__name__}",
                hint='give an object such as {"type": "object", "properties": {...}}',
            )
        return Contract.compile(schema, what=what)  # pyright: ignore[reportUnknownArgumentType]

    def _refuse(self, reason: str, hint: str | None) -> InvalidInput:
        return InvalidInput(f"tool {self.name!r}: {reason}", hint=hint)

    # -- what it is ------------------------------------------------------------------------------------------------

    # Whether its capability says all; and whether the gate may use it now: see `make_ready`.
    is_known: bool = True
    # Their names, where they are told before the capability is.
    parameters: tuple[str, ...] = ()
    is_ready: bool = True

    async def make_ready(self) -> None:
        """Find out what is not known yet. Nothing, for a function of this process."""

    @cached_property
    def capability(self) -> Capability:
        return self.make_capability()

    def make_capability(self) -> Capability:
        hints = self._signature
        given_input, given_output = self._input, self._given_output
        return Capability(
            name=self.name,
            namespace=self.namespace,
            description=self.description,
            input_schema=given_input.schema if given_input else hints.input_schema if hints else {},
            output_schema=given_output.schema if given_output else hints.output_schema if hints else {},
            side_effect=self.side_effect,
            limits=self.limits,
            approval_policy=self.approval_policy,
            idempotent=self.idempotent,
            defer_loading=self.defer_loading,
        )

    @cached_property
    def capability_digest(self) -> str:
        return capability_digest(self.capability)

    @cached_property
    def digest(self) -> str:
        """Changes with anything that a reader of the catalog would see."""
        return digest_json([self.capability_digest, self.description])

    # -- a call ----------------------------------------------------------------------------------------------------

    def arrange(
        self, args: Sequence[Json], kwargs: Mapping[str, Json], language: Language = Language.PYTHON
    ) -> dict[str, Json] | list[Json]:
        """A program's arguments as its schema has them: an object by name, or an array. Raises `BadArguments`."""
        if self._shape.is_array:
            if not kwargs:
                return list(args)
            if language is Language.TYPESCRIPT and not args:
                # One plain object is an argument like any other; its engine has read it as names.
                return [dict(kwargs)]
            raise BadArguments("takes its arguments by position, not by name", json_path(list(kwargs)[:1]))
        if not args:
            return dict(kwargs)
        positions = self._shape.positions
        if len(args) > len(positions):
            raise BadArguments(f"takes {len(positions)} positional arguments, got {len(args)}")
        given = dict(zip(positions, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise BadArguments(f"got {name!r} twice", json_path((name,)))
            given[name] = value
        return given

    def validate(self, arguments: Json) -> None:
        """Hold the arguments against a schema that was given by hand. Raises `BadArguments`."""
        if self._input is not None:
            violation = self._input.check(arguments)
            if violation is not None:
                raise BadArguments(violation.message, violation.path)

    def bind(self, arguments: Json) -> Bound:
        """What the handler is called with, in the types of its hints where it has them. Raises `BadArguments`."""
        if self._signature is not None and self._input is not None:
            arguments = self._shape.named(arguments)
        return self._binder.bind(arguments)

    def unwrap(self, value: Any) -> Any:
        """A result that is not plain data, with models and dataclasses in it taken apart."""
        return self._binder.unwrap(value)

    def check_output(self, value: Json) -> Violation | None:
        """Where a result does not fit the output schema."""
        return self._output.check(value) if self._output is not None else None

    @cached_property
    def _output(self) -> Contract | None:
        schema = self.capability.output_schema
        # The default, which allows everything.
        return None if not schema else self._given_output or self._compile("output", schema)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.full_name})"


def _doc(handler: Any) -> str:
    while isinstance(handler, functools.partial):
        handler = handler.func
    found = handler.__doc__
    return found if isinstance(found, str) else ""


@overload
def tool(handler: Handler, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    namespace: str | None = None,
    description: str | None = None,
    side_effect: str | SideEffect | None = None,
    limits: CapabilityLimits | None = None,
    approval_policy: str | Mapping[str, Any] | ApprovalPolicy = "none",
    idempotent: bool = True,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    defer_loading: bool = False,
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
