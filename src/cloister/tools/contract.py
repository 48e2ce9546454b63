"""A JSON Schema as something to hold values against: compiled once, checked in microseconds, safe with any schema.

JSON Schema 2020-12, or the draft that `$schema` names. Nothing is ever fetched: a reference leads to a part of the
same schema or is refused. Neither a schema nor a value can make a check hang: costly schemas pay for their work
(`fuel`) and a check that runs out of it is a violation. `format` is a note and checks nothing.

Values must be plain JSON within the bounds of `core.value`; whoever is at the gate has bounded them already.
"""

from collections.abc import Mapping
from typing import Any, cast

from cloister.core.errors import InvalidInput
from cloister.core.value import Bounds, Json, ValueRefused, plain
from cloister.tools import fuel
from cloister.tools.dialect import Lowered, lower
from cloister.tools.native import compile_schema, draft_of
from cloister.tools.violation import Finder, Violation
from cloister.tools.wording import json_path

__all__ = ["Contract", "Violation"]

# The native code takes some two hundred levels; the price tags add theirs.
BOUNDS = Bounds(depth=64, nodes=20_000, size=1 << 20)
_TYPES = "use string, integer, number, boolean, null, array or object"


class Contract:
    """Made by `compile`. May be used from any thread."""

    def __init__(self, schema: dict[str, Any], lowered: Lowered) -> None:
        # As it was given, in plain JSON of its own.
        self.schema = schema
        self._valid = compile_schema(lowered.draft, lowered.schema).is_valid
        self._finder = Finder(lowered)

    @classmethod
    def compile(cls, schema: object, *, what: str) -> "Contract":
        """Raises `InvalidInput` that names `what`, the reason and the fix."""
        given = _plain(schema, what)
        draft = draft_of(given, what)
        _check_meta(given, what)
        lowered = lower(given, draft, what)
        try:
            return cls(given if isinstance(given, dict) else {}, lowered)
        # How the library says all that can be wrong with a schema by now: a number or a text that it cannot read.
        except ValueError as error:
            raise InvalidInput(f"{what} cannot be compiled: {_first_line(error)}", hint="simplify the schema") from None

    def check(self, value: Json) -> Violation | None:
        """The first place where the value does not fit, or None."""
        fuel.fill()
        try:
            if self._valid(value) and not fuel.spent():
                return None
        except ValueError:
            # The only plain JSON that the library cannot read.
            return Violation("holds a text that is not Unicode")
        if fuel.spent():
            return Violation("takes too long to be held against the schema: send less, or nest it less")
        return self._finder.find(value)


def _plain(schema: object, what: str) -> dict[str, Any] | bool:
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping):
        raise InvalidInput(
            f"{what} is not a JSON Schema: it is of type {type(schema).__name__}",
            hint='give an object such as {"type": "object", "properties": {...}}',
        )
    try:
        return cast("dict[str, Any]", plain(cast("Any", schema), BOUNDS))
    except ValueRefused as refusal:
        reason = refusal.message.replace("the value", "it", 1)
        raise InvalidInput(f"{what} cannot be taken: {reason}", hint="give a smaller schema of plain JSON") from None


def _check_meta(schema: dict[str, Any] | bool, what: str) -> None:
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        where = json_path(error.instance_path)
        hint = _TYPES if error.instance_path[-1:] == ["type"] else f"correct the schema at {where}"
        raise InvalidInput(f"{what} is not a JSON Schema: {_first_line(error)} at {where}", hint=hint) from None
    except ValueError as error:
        raise InvalidInput(f"{what} is not a JSON Schema: {_first_line(error)}", hint="correct the schema") from None


def _first_line(error: Exception) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return text if len(text) <= 200 else f"{text[:197]}..."
