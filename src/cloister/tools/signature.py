"""A function's signature as JSON Schema, and the binding of a program's arguments to it.

Refuses what a program could not call: `*args`, `**kwargs`, positional-only parameters, hints that have no schema.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from cloister.core.errors import InvalidInput
from cloister.core.value import Json


class BadArguments(ValueError):
    """A program's arguments that do not fit. `path` is where, as a JSON path."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(message)
        self.path = path


class Signature:
    def __init__(self, handler: Callable[..., Any], name: str) -> None:
        self._handler = handler
        self._name = name
        self.parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(handler).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InvalidInput(
                    f"tool {name!r}: parameter {parameter.name!r} is {parameter.kind.description}; "
                    "a tool has only parameters that can be given by name"
                )
            if parameter.name.startswith("_"):
                raise InvalidInput(f"tool {name!r}: parameter {parameter.name!r} must not start with an underscore")
            self.parameters.append(parameter)
        self._positions = [p.name for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._handler, include_extras=True)
        except (NameError, TypeError) as error:
            raise InvalidInput(f"tool {self._name!r}: its type hints cannot be read: {error}") from error

    @cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, create_model

        fields: dict[str, Any] = {}
        for parameter in self.parameters:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (self._hints.get(parameter.name, Any), default)
        try:
            return create_model(
                self._name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
            )
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            first = str(error).splitlines()[0]
            raise InvalidInput(f"tool {self._name!r}: a parameter has no JSON form: {first}") from error

    @cached_property
    def _result(self) -> Any:
        from pydantic import PydanticSchemaGenerationError, TypeAdapter

        try:
            return TypeAdapter(self._hints.get("return", Any))
        except PydanticSchemaGenerationError as error:
            first = str(error).splitlines()[0]
            raise InvalidInput(f"tool {self._name!r}: its result has no JSON form: {first}") from error

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._model.model_json_schema()
        schema.pop("title", None)
        return schema

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return self._result.json_schema(mode="serialization")

    def bind(self, args: Sequence[Json], kwargs: Mapping[str, Json]) -> dict[str, Any]:
        """The handler's keyword arguments, validated and in the types of its hints; raises `BadArguments`."""
        from pydantic import ValidationError

        if len(args) > len(self._positions):
            raise BadArguments(f"takes {len(self._positions)} positional arguments, got {len(args)}")
        given = dict(zip(self._positions, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise BadArguments(f"got {name!r} twice", f"$.{name}")
            given[name] = value
        try:
            model = self._model.model_validate(given)
        except ValidationError as refusal:
            first = refusal.errors(include_url=False, include_input=False)[0]
            path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
            raise BadArguments(str(first["msg"]), path) from None
        return {p.name: getattr(model, p.name) for p in self.parameters}

    def unwrap(self, value: Any) -> Any:
        """A handler's result without pydantic models and dataclasses; what is plain already is left alone."""
        if isinstance(value, (str, int, float, list, dict, tuple)):
            return cast(Any, value)
        if dataclasses.is_dataclass(value) or hasattr(value, "model_dump"):
            return self._result.dump_python(value, mode="json", fallback=_refuse)
        return value


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON")
