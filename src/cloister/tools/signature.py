"""A function's signature as JSON Schema, and the binding of a program's arguments to it.

Refuses what a program could not call: `*args`, `**kwargs`, positional-only parameters, hints that have no schema.
"""

import dataclasses
import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cloister.core.errors import InvalidInput
from cloister.core.value import Json

if TYPE_CHECKING:
    from pydantic import ValidationError


class BadArguments(ValueError):
    """A program's arguments that do not fit. `path` is where, as a JSON path."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(message)
        self.path = path


class Signature:
    def __init__(self, handler: Callable[..., Any], name: str) -> None:
        # An object that is called has its hints on its method.
        self._handler = handler if inspect.isroutine(handler) else handler.__call__
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
        self._order = {parameter.name: n for n, parameter in enumerate(self.parameters)}
        self._positions = [p.name for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._handler, include_extras=True)
        except (NameError, TypeError) as error:
            raise InvalidInput(f"tool {self._name!r}: its type hints cannot be read: {error}") from error

    @cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, Field, PydanticSchemaGenerationError, PydanticUserError, create_model

        fields: dict[str, Any] = {}
        for position, parameter in enumerate(self.parameters):
            default = ... if parameter.default is parameter.empty else parameter.default
            # Fields have neutral names: a parameter may be called `copy` or `model_config`.
            field = Field(default, alias=parameter.name)
            fields[f"p{position}"] = (self._hints.get(parameter.name, Any), field)
        try:
            return create_model(self._name, __config__=ConfigDict(extra="forbid"), **fields)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise self._no_json("a parameter", error) from error

    @cached_property
    def _validate(self) -> Any:
        return self._model.__pydantic_validator__.validate_json

    @cached_property
    def _refusal(self) -> "type[ValidationError]":
        # Asked for once: pydantic finds its names anew at every import statement.
        from pydantic import ValidationError

        return ValidationError

    @cached_property
    def _result(self) -> Any:
        from pydantic import PydanticSchemaGenerationError, TypeAdapter

        try:
            return TypeAdapter(self._hints.get("return", Any))
        except PydanticSchemaGenerationError as error:
            raise self._no_json("its result", error) from error

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        from pydantic import PydanticUserError

        try:
            schema: dict[str, Any] = self._model.model_json_schema(by_alias=True)
        except PydanticUserError as error:
            raise self._no_json("a parameter", error) from error
        schema.pop("title", None)
        for name, part in schema.get("properties", {}).items():
            # Titles made of our neutral names say nothing.
            if part.get("title", "").lower() == f"p{self._order.get(name)}":
                del part["title"]
        return schema

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        from pydantic import PydanticUserError

        try:
            return self._result.json_schema(mode="serialization")
        except PydanticUserError as error:
            raise self._no_json("its result", error) from error

    def _no_json(self, what: str, error: Exception) -> InvalidInput:
        return InvalidInput(f"tool {self._name!r}: {what} has no JSON form: {str(error).splitlines()[0]}")

    def bind(self, args: Sequence[Json], kwargs: Mapping[str, Json]) -> dict[str, Any]:
        """The handler's keyword arguments, validated and in the types of its hints; raises `BadArguments`."""
        if len(args) > len(self._positions):
            raise BadArguments(f"takes {len(self._positions)} positional arguments, got {len(args)}")
        given = dict(zip(self._positions, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise BadArguments(f"got {name!r} twice", f"$.{name}")
            given[name] = value
        try:
            # As JSON, strictly: what the schema says is what is taken.
            model = self._validate(json.dumps(given), strict=True)
        except self._refusal as refusal:
            first = refusal.errors(include_url=False, include_input=False)[0]
            path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
            raise BadArguments(str(first["msg"]), path) from None
        return {parameter.name: getattr(model, f"p{n}") for n, parameter in enumerate(self.parameters)}

    def unwrap(self, value: Any) -> Any:
        """A handler's result that is not plain data, with models and dataclasses in it taken apart."""
        if self._hints.get("return", Any) is not Any:
            return self._result.dump_python(value, mode="json", warnings=False)
        # Without a hint only what says how it is written is taken apart; nothing is guessed.
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        return value
