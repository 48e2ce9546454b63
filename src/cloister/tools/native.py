"""The native JSON Schema validator with every door shut: nothing is fetched, patterns are bounded, work is paid for."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from cloister.core.errors import InvalidInput
from cloister.tools import fuel
from cloister.tools.wording import shown

_DRAFTS = {
    "json-schema.org/draft-04/schema": "Draft4Validator",
    "json-schema.org/draft-06/schema": "Draft6Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
    "json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
}
# How often a pattern may try another way, and how large its automaton may be.
_BACKTRACKS = 10_000
_PATTERN_BYTES = 1 << 20


class Validator(Protocol):
    def is_valid(self, instance: Any) -> bool:
        """May raise `ValueError` for what is no JSON."""
        ...


def draft_of(schema: Mapping[str, Any] | bool, what: str) -> str:
    """The name of the validator for the draft that the schema says it is written in; 2020-12 if it says nothing."""
    if isinstance(schema, bool) or "$schema" not in schema:
        return "Draft202012Validator"
    said = schema["$schema"]
    known = _DRAFTS.get(said.removesuffix("#").partition("://")[2]) if isinstance(said, str) else None
    if known is None:
        raise InvalidInput(
            f"{what}: there is no draft {shown(said)} of JSON Schema",
            hint='leave "$schema" out, or say "https://json-schema.org/draft/2020-12/schema"',
        )
    return known


def compile_schema(draft: str, schema: dict[str, Any]) -> Validator:
    """Raises `ValueError` for a schema that cannot be compiled."""
    import jsonschema_rs

    options = jsonschema_rs.FancyRegexOptions(_BACKTRACKS, _PATTERN_BYTES, _PATTERN_BYTES)
    return _make(draft, schema, options)


def pattern_kind(pattern: str) -> Literal["linear", "fancy"] | None:
    """Whether a pattern takes time in proportion to its text, or looks around or back; None if it is no pattern."""
    import jsonschema_rs

    draft, schema = "Draft202012Validator", {"pattern": pattern}
    try:
        _make(draft, schema, jsonschema_rs.RegexOptions(_PATTERN_BYTES, _PATTERN_BYTES))
        return "linear"
    except ValueError:
        pass
    try:
        compile_schema(draft, schema)
        return "fancy"
    except ValueError:
        return None


def _never(uri: str) -> Any:
    raise LookupError(f"nothing is fetched: {uri}")


def _make(draft: str, schema: dict[str, Any], pattern_options: Any) -> Validator:
    import jsonschema_rs

    # Two locks on one door: no reference that leads out gets here, and one that did would find nobody to fetch it.
    return getattr(jsonschema_rs, draft)(
        schema,
        validate_formats=False,
        retriever=_never,
        keywords=fuel.KEYWORDS,
        pattern_options=pattern_options,
    )
