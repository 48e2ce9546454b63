"""The parameters of a handler, with the one that receives the call's context apart from the others.

Hints are evaluated one at a time and only when asked for: a name that is defined further down in the module may stand
in a hint, and an unreadable hint is named.
"""

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from functools import cached_property
from typing import Any

from cloister.core.errors import InvalidInput
from cloister.tools.context import CallContext

# What stands in a hint that cannot be evaluated because its import is for type checkers only.
_NAME = r"(?:\w+\.)*CallContext"
_CONTEXT = re.compile(rf"{_NAME}(?:\s*\|\s*None)?|None\s*\|\s*{_NAME}|(?:\w+\.)*Optional\[\s*{_NAME}\s*\]")
_UNREADABLE = (NameError, TypeError, AttributeError, SyntaxError, ValueError)


class Parameters:
    def __init__(self, handler: Callable[..., Any], tool: str) -> None:
        self.tool = tool
        if not callable(handler):
            raise InvalidInput(f"tool {tool!r}: its handler is {handler!r}, which cannot be called: give a function")
        self._handler = handler
        try:
            signature = inspect.signature(handler)
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"tool {tool!r}: the parameters of its handler cannot be read: {error}",
                hint="wrap it in a function of your own",
            ) from None
        self._returns: Any = signature.return_annotation
        self.listed: list[inspect.Parameter] = []
        # The name of the parameter that is no argument but receives the context.
        self.context: str | None = None
        self.context_is_last = False
        for parameter in signature.parameters.values():
            if self._is_context(parameter):
                self._take_context(parameter)
            else:
                self.listed.append(parameter)

    def refuse(self, reason: str, hint: str | None = None) -> InvalidInput:
        return InvalidInput(f"tool {self.tool!r}: {reason}", hint=hint)

    @cached_property
    def names(self) -> set[str]:
        """All of them, the context too."""
        return {p.name for p in self.listed} | ({self.context} if self.context else set())

    @cached_property
    def by_name(self) -> dict[str, inspect.Parameter]:
        """Those that an argument can be given for by its name."""
        return {p.name: p for p in self.listed if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}

    @cached_property
    def by_position(self) -> list[inspect.Parameter]:
        return [p for p in self.listed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    @cached_property
    def takes_any_name(self) -> bool:
        return any(p.kind is p.VAR_KEYWORD for p in self.listed)

    @cached_property
    def takes_any_number(self) -> bool:
        return any(p.kind is p.VAR_POSITIONAL for p in self.listed)

    def hint(self, parameter: inspect.Parameter) -> Any:
        return self._hint(parameter.annotation, f"the hint of parameter {parameter.name!r}")

    @cached_property
    def result(self) -> Any:
        """The hint of what a caller gets: of what is awaited, where the handler is a plain function around that."""
        hint = self._hint(self._returns, "the hint of its result")
        if typing.get_origin(hint) in _AWAITED:
            return typing.get_args(hint)[-1]
        # A function that always raises says so; there is nothing to hold against it.
        return Any if hint in (typing.Never, typing.NoReturn) else hint

    def _hint(self, annotation: Any, what: str) -> Any:
        try:
            return self._evaluate(annotation)
        except _UNREADABLE as error:
            raise self.refuse(
                f"{what} cannot be read: {error}", "import what it names where the function is defined"
            ) from error

    def _evaluate(self, annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return Any
        scope, variables = self._scope
        holder = types.SimpleNamespace(__annotations__={"it": annotation}, __type_params__=variables)
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)["it"]

    @cached_property
    def _scope(self) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Where the names in the hints are looked up: where the function at the bottom was defined."""
        found: Any = self._handler
        while isinstance(found, functools.partial):
            found = found.func
        if isinstance(found, type):
            found = found.__init__
        elif not inspect.isroutine(found):
            found = type(found).__call__
        found = inspect.unwrap(found)
        return getattr(found, "__globals__", {}), getattr(found, "__type_params__", ())

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return False
        annotation = parameter.annotation
        try:
            hint = annotation if isinstance(annotation, type) else self._evaluate(annotation)
        except _UNREADABLE:
            return isinstance(annotation, str) and _CONTEXT.fullmatch(annotation.strip()) is not None
        if typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            return set(typing.get_args(hint)) == {CallContext, type(None)}
        return hint is CallContext

    def _take_context(self, parameter: inspect.Parameter) -> None:
        if self.context is not None:
            raise self.refuse(
                f"{self.context!r} and {parameter.name!r} are both annotated CallContext", "keep one of them"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise self.refuse(
                f"parameter {parameter.name!r} is positional-only; the context is given by name", "move it behind the /"
            )
        self.context = parameter.name
        self.context_is_last = parameter.kind is parameter.KEYWORD_ONLY


_AWAITED = (typing.get_origin(typing.Awaitable[Any]), typing.get_origin(typing.Coroutine[Any, Any, Any]))
