"""A function's hints as JSON Schema, a program's arguments in the types of the hints, and its result as JSON.

Refuses what a program could not call: `*args`, `**kwargs`, positional-only parameters, hints that have no schema.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, cast

from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.tools.parameters import Parameters
from cloister.tools.recursion import branches, is_endless
from cloister.tools.unwrap import unwrap
from cloister.tools.wording import json_path, kind_of, unknown


class BadArguments(ValueError):
    """A program's arguments that do not fit. `path` is where, as a JSON path."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True)
class Bound:
    """What a handler is called with, but for its context."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])


class Signature:
    """The descriptions of parameters that `notes` has are used where the hints have none."""

    def __init__(self, read: Parameters, notes: Mapping[str, str] | None = None) -> None:
        self._read = read
        self._notes = notes or {}
        self.parameters = read.listed
        for parameter in self.parameters:
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise self._read.refuse(
                    f"parameter {parameter.name!r} is {parameter.kind.description}; "
                    "a tool has only parameters that can be given by name",
                    "name its parameters, or declare it with Tool.from_schema",
                )
            if parameter.name.startswith("_"):
                raise self._read.refuse(f"parameter {parameter.name!r} must not start with an underscore", "rename it")
        self.positions = tuple(p.name for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
        # Fields have neutral names: a parameter may be called `copy` or `model_config`.
        self._fields = [(p.name, f"p{n}") for n, p in enumerate(self.parameters)]

    # -- schemas ---------------------------------------------------------------------------------------------------

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        from pydantic import PydanticUserError

        try:
            schema: dict[str, Any] = self._model.model_json_schema(by_alias=True, schema_generator=_generator())
        except PydanticUserError as error:
            raise self._no_json("a parameter", error) from error
        schema.pop("title", None)
        for name, part in schema.get("properties", {}).items():
            # A title that is made of the name says nothing.
            if part.get("title") == name.title().replace("_", " ").strip():
                del part["title"]
        return schema

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        from pydantic import PydanticUserError

        try:
            return self._result.json_schema(mode="serialization", by_alias=True, schema_generator=_generator())
        except PydanticUserError as error:
            raise self._no_json("its result", error) from error

    @cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, create_model

        fields: dict[str, Any] = {}
        for parameter, (name, neutral) in zip(self.parameters, self._fields, strict=True):
            fields[neutral] = _field(parameter.default, self._read.hint(parameter), name, self._notes.get(name))
        try:
            return create_model(self._read.tool, __config__=ConfigDict(extra="forbid"), **fields)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise self._no_json("a parameter", error) from error

    @cached_property
    def _result(self) -> Any:
        from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

        try:
            return TypeAdapter(self._read.result)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise self._no_json("its result", error) from error

    def _no_json(self, what: str, error: Exception) -> InvalidInput:
        reason = str(error).splitlines()[0]
        return self._read.refuse(
            f"{what} has no JSON form: {reason}", "use plain types, models, dataclasses or typing_extensions.TypedDict"
        )

    # -- arguments -------------------------------------------------------------------------------------------------

    def bind(self, arguments: Json) -> Bound:
        """Strictly, as JSON: what the schema says is what is taken. Raises `BadArguments`."""
        if is_endless(arguments, self._branches):
            raise BadArguments("takes too long to be told apart from its alternatives: nest it less")
        write, validate, refusals = self._native
        try:
            model = validate(write(arguments), strict=True)
        except refusals as refusal:
            raise _bad(cast("Any", refusal), arguments, [name for name, _ in self._fields]) from None
        values = model.__dict__
        return Bound((), {name: values[neutral] for name, neutral in self._fields})

    @cached_property
    def _native(self) -> tuple[Callable[[Any], bytes], Callable[..., Any], tuple[type[ValueError], ...]]:
        # Asked for once: pydantic finds its names anew at every import statement.
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError, to_json

        return to_json, self._model.__pydantic_validator__.validate_json, (ValidationError, PydanticSerializationError)

    @cached_property
    def _branches(self) -> int:
        return branches(self.input_schema)

    # -- results ---------------------------------------------------------------------------------------------------

    def unwrap(self, value: Any) -> Any:
        """A handler's result that is not plain data, with models and dataclasses in it taken apart."""
        if self._read.result is not Any:
            return self._result.dump_python(value, mode="json", by_alias=True, warnings=False)
        return unwrap(value)


def _field(default: Any, hint: Any, name: str, note: str | None) -> tuple[Any, Any]:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    said: dict[str, Any] = {"alias": name}
    if isinstance(default, FieldInfo):
        # `x: int = Field(5, ge=0)`: its rules count like those of an annotation.
        hint = typing.Annotated[hint, default]
        said |= (
            {"default_factory": default.default_factory} if default.default_factory else {"default": default.default}
        )
    else:
        said["default"] = ... if default is inspect.Parameter.empty else default
    description = _description(hint, note)
    if description is not None:
        said["description"] = description
    return hint, Field(**said)


def _description(hint: Any, note: str | None) -> str | None:
    """None also where a `Field` says it already."""
    notes: list[Any] = list(typing.get_args(hint)[1:]) if typing.get_origin(hint) is typing.Annotated else []
    if any(getattr(one, "description", None) for one in notes):
        return None
    for one in notes:
        # `Annotated[str, "text"]`, or `typing_extensions.Doc`.
        text = one if isinstance(one, str) else getattr(one, "documentation", None)
        if isinstance(text, str):
            return text
    return note


@cache
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        # A default that JSON cannot say is left out of the schema, and still reaches the function.
        ignored_warning_kinds: ClassVar[Any] = {*GenerateJsonSchema.ignored_warning_kinds, "non-serializable-default"}

        def ser_schema(self, schema: Any) -> Any:
            """A serializer that does not say what it gives may give anything."""
            if schema["type"] in ("function-plain", "function-wrap") and schema.get("return_schema") is None:
                return {}
            return super().ser_schema(schema)

    return Generator


_SAID = {"missing": "is missing", "extra_forbidden": "is not known", "model_type": "expected object"}


def _bad(refusal: Any, arguments: Json, names: list[str]) -> BadArguments:
    if not hasattr(refusal, "errors"):
        return BadArguments("a text in it is not Unicode")
    faults: list[Any] = refusal.errors(include_url=False, include_input=False, include_context=False)[:8]
    told = [(_way(fault, arguments), _SAID.get(fault["type"]) or str(fault["msg"])) for fault in faults]
    way, message = told[0]
    if message == _SAID["extra_forbidden"] and len(way) == 1:
        return BadArguments(unknown(names), json_path(way))
    found, value = _at(arguments, way)
    # The alternatives of a union each have a say; they are one fault.
    said = dict.fromkeys(message for other, message in told if other == way)
    got = (
        f", got {kind_of(value)}"
        if found and any(message.startswith(("Input should be", "expected")) for message in said)
        else ""
    )
    return BadArguments(f"{'; or: '.join(said)}{got}", json_path(way))


def _way(fault: Any, arguments: Json) -> tuple[str | int, ...]:
    """Where the fault is in the arguments. pydantic's own way also names the alternative that it tried."""
    way: tuple[str | int, ...] = ()
    location = fault["loc"]
    for part in location:
        if _at(arguments, (*way, part))[0]:
            way = (*way, part)
    if fault["type"] == "missing" and location:
        way = (*way, location[-1])
    return way


def _at(value: Any, way: tuple[str | int, ...]) -> tuple[bool, Any]:
    for part in way:
        if not isinstance(value, (dict, list)) or isinstance(part, int) is isinstance(value, dict):
            return False, None
        try:
            value = cast("Any", value)[part]
        except LookupError:
            return False, None
    return True, value
