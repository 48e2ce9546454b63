"""How a fault is told: where it is, what was expected, what kind of thing came, and never the value itself."""

from typing import Any

import pytest

from cloister.tools.contract import Contract, Violation


def _told(schema: Any, value: Any) -> Violation:
    violation = Contract.compile(schema, what="it").check(value)
    assert violation is not None
    return violation


_ORDER = {
    "type": "object",
    "properties": {"sku": {"type": "string", "minLength": 2}, "n": {"type": "integer", "minimum": 1}},
    "required": ["sku"],
    "additionalProperties": False,
}
_CARDS = {
    "anyOf": [
        {"type": "object", "properties": {"kind": {"const": "visa"}, "n": {"type": "integer"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "cash"}, "n": {"type": "string"}}, "required": ["kind"]},
        {"type": "null"},
    ]
}

FAULTS: list[tuple[Any, Any, str, str]] = [
    ({"type": "string"}, 5, "expected string, got integer", "$"),
    ({"type": ["string", "null"]}, 5.5, "expected string or null, got number", "$"),
    ({"type": "integer"}, True, "expected integer, got boolean", "$"),
    ({"type": "integer"}, None, "expected integer, got null", "$"),
    ({"type": "object"}, [], "expected object, got array", "$"),
    ({"type": "array"}, {}, "expected array, got object", "$"),
    ({"items": _ORDER}, [{"sku": "ab"}, {"sku": 5}], "expected string, got integer", "$[1].sku"),
    ({"properties": {"items": {"items": _ORDER}}}, {"items": [{}]}, "is missing", "$.items[0].sku"),
    (_ORDER, {"sku": "a"}, "has a length of 1, less than 2", "$.sku"),
    (_ORDER, {"sku": "ab", "n": 0}, "is less than 1", "$.n"),
    (_ORDER, {"sku": "ab", "x y": 0}, "is not known; there are 'sku', 'n'", "$['x y']"),
    ({"const": "a"}, "b", "expected 'a', got another string", "$"),
    ({"enum": ["a", "b"]}, "c", "expected one of 'a', 'b', got another string", "$"),
    ({"enum": list(range(20))}, "c", "expected one of 0, 1, 2, 3, 4, 5, 6, 7 and 12 more, got another string", "$"),
    ({"exclusiveMinimum": 1}, 1, "is not greater than 1", "$"),
    ({"maximum": 1}, 2, "is greater than 1", "$"),
    ({"exclusiveMaximum": 1}, 1, "is not less than 1", "$"),
    ({"multipleOf": 2}, 3, "is not a multiple of 2", "$"),
    ({"maxLength": 1}, "ab", "has a length of 2, more than 1", "$"),
    ({"pattern": "^a"}, "b", "does not match the pattern '^a'", "$"),
    ({"pattern": "^(?!b)"}, "b", "does not match the pattern '^(?!b)'", "$"),
    ({"minItems": 1}, [], "has a length of 0, less than 1", "$"),
    ({"maxItems": 1}, [1, 2], "has a length of 2, more than 1", "$"),
    ({"uniqueItems": True}, [1, 1], "has an item twice", "$"),
    ({"minProperties": 1}, {}, "has 0 properties, less than 1", "$"),
    ({"maxProperties": 0}, {"a": 1}, "has 1 properties, more than 0", "$"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "has a property without those that go with it", "$"),
    ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], "is one too many: there are at most 1", "$[1]"),
    ({"prefixItems": [{"type": "string"}]}, [1], "expected string, got integer", "$[0]"),
    ({"patternProperties": {"^a": {"type": "string"}}}, {"ab": 1}, "expected string, got integer", "$.ab"),
    ({"additionalProperties": {"type": "string"}}, {"ab": 1}, "expected string, got integer", "$.ab"),
    ({"additionalProperties": False}, {"a": 1}, "is not known; there are no names to give", "$.a"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "has a name that has a length of 2, more than 1", "$.ab"),
    ({"properties": {"a": False}}, {"a": 1}, "is not allowed here", "$.a"),
    ({"not": {"type": "string"}}, "a", "has a form that is not allowed", "$"),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, "a", "has a length of 1, less than 2", "$"),
    ({"if": {"type": "string"}, "else": {"type": "null"}}, 1, "expected null, got integer", "$"),
    ({"allOf": [{}, {"type": "string"}]}, 1, "expected string, got integer", "$"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "expected string or null, got integer", "$"),
    ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "a", "expected number or null, got string", "$"),
    ({"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]}, "a", "has a length of 1, less than 2", "$"),
    ({"anyOf": [{"type": "number", "minimum": 2}, {"type": "null"}]}, 1, "is less than 2", "$"),
    ({"anyOf": [{"minLength": 3}, {"pattern": "b"}]}, "a", "fits none of the 2 forms that are allowed", "$"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 2, "fits 2 of the 2 forms of which it must fit one", "$"),
    (_CARDS, {"kind": "cash", "n": 5}, "expected string, got integer", "$.n"),
    (_CARDS, {"kind": "coin"}, "expected one of 'visa', 'cash', got another string", "$.kind"),
    (_CARDS, {"n": 5}, "is missing", "$.kind"),
    (_CARDS, 5, "expected object or null, got integer", "$"),
    ({"contains": {"type": "string"}}, [1], "does not fit its schema", "$"),
    ({"properties": {"a": {"unevaluatedProperties": False}}}, {"a": {"b": 1}}, "does not fit its schema", "$.a"),
]


@pytest.mark.parametrize(("schema", "value", "message", "path"), FAULTS)
def test_fault_is_told_with_what_was_expected_and_its_place(schema: Any, value: Any, message: str, path: str) -> None:
    assert _told(schema, value) == Violation(message, path)


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/a"}, {"allOf": [{"$ref": "#/$defs/a"}]}])
def test_fault_behind_a_reference_is_told_like_any_other(schema: Any) -> None:
    schema = {"properties": {"x": schema}, "$defs": {"a": _ORDER}}
    assert _told(schema, {"x": {"sku": 1}}) == Violation("expected string, got integer", "$.x.sku")


def test_fault_in_one_of_two_recursive_alternatives_is_found_by_its_tag() -> None:
    def option(op: str) -> Any:
        return {"type": "object", "properties": {"op": {"const": op}, "of": {"$ref": "#"}}, "required": ["op", "of"]}

    schema = {"anyOf": [option("a"), option("b"), {"type": "integer"}]}
    value = {"op": "a", "of": {"op": "b", "of": {"op": "b", "of": "x"}}}
    assert _told(schema, value) == Violation("expected object or integer, got string", "$.of.of.of")


HUGE = "secret" * 50_000


LONG: list[tuple[Any, Any]] = [
    ({"type": "integer"}, HUGE),
    ({"const": 1}, HUGE),
    ({"const": HUGE}, 1),
    ({"enum": [HUGE, HUGE + "b"]}, HUGE + "c"),
    ({"enum": [1]}, {"a": HUGE}),
    ({"additionalProperties": False}, {HUGE: 1}),
    ({"properties": {HUGE: {"type": "string"}}}, {HUGE: 1}),
    ({"properties": {f"{HUGE[:500]}{n}": {} for n in range(9)}, "additionalProperties": False}, {"a": 1}),
    ({"required": [HUGE]}, {}),
    ({"pattern": "^a" * 1000}, HUGE),
    ({"minimum": 10**4000}, 1),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, HUGE),
    ({"maxLength": 5}, HUGE),
    ({"additionalProperties": {"additionalProperties": {"type": "null"}}}, {HUGE: {HUGE: HUGE}}),
]


@pytest.mark.parametrize(("schema", "value"), LONG)
def test_what_is_told_is_short_whatever_was_given(schema: Any, value: Any) -> None:
    violation = _told(schema, value)
    assert len(violation.message) <= 300
    assert len(violation.path) <= 300


@pytest.mark.parametrize(
    "schema", [{"type": "integer"}, {"const": 1}, {"enum": [1, 2]}, {"pattern": "^a"}, {"maxLength": 1}]
)
def test_value_is_never_repeated(schema: Any) -> None:
    violation = _told({"properties": {"a": schema}}, {"a": "hunter2"})
    assert "hunter2" not in violation.message
    assert violation.path == "$.a"
