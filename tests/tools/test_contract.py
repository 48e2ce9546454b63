"""A compiled schema: what is refused when it is declared, what fits, and that nothing can make it hang or fetch."""

import http.server
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any, Protocol, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cloister.core.errors import InvalidInput
from cloister.tools.contract import Contract, Violation
from tests.core.json_values import json_values, nested

WHAT = "the input schema of tool 'it'"


class _Checker(Protocol):
    schema: dict[str, Any]

    def check(self, value: Any) -> Violation | None: ...


def _compile(schema: object) -> _Checker:
    return Contract.compile(schema, what=WHAT)


def _refusal(schema: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as refusal:
        _compile(schema)
    assert refusal.value.message.startswith(WHAT)
    assert refusal.value.hint
    return refusal.value


# -- what is no schema --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [None, 5, "object", [], [{}], object()])
def test_what_is_no_schema_is_refused_by_its_type(schema: object) -> None:
    assert type(schema).__name__ in _refusal(schema).message


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strnig"}, "$.type"),
        ({"type": ["string", "nil"]}, "$.type"),
        ({"properties": []}, "$.properties"),
        ({"properties": {"a": 5}}, "$.properties.a"),
        ({"required": "a"}, "$.required"),
        ({"minLength": -1}, "$.minLength"),
        ({"items": {"enum": 5}}, "$.items.enum"),
        ({"anyOf": []}, "$.anyOf"),
        ({"$ref": 5}, "$['$ref']"),
    ],
)
def test_schema_with_a_mistake_is_refused_with_its_place(schema: object, path: str) -> None:
    assert path in _refusal(schema).message


def test_misspelt_type_is_told_the_types_there_are() -> None:
    assert "integer" in str(_refusal({"type": "int"}).hint)


@pytest.mark.parametrize("schema", [{"const": float("nan")}, {"const": object()}, {"const": "\ud800"}])
def test_schema_that_is_no_json_is_refused(schema: object) -> None:
    _refusal(schema)


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "\\", "(?P<n"])
def test_pattern_that_is_none_is_refused_by_name(pattern: str) -> None:
    assert repr(pattern) in _refusal({"pattern": pattern}).message
    assert repr(pattern) in _refusal({"patternProperties": {pattern: {}}}).message


@pytest.mark.parametrize("pattern", ["a{1000000}", "((a{100}){100}){100}", "(?=(a{1000}){1000})a"])
def test_pattern_whose_automaton_is_huge_is_refused(pattern: str) -> None:
    assert "too large" in _refusal({"pattern": pattern}).message


def test_names_of_properties_cannot_be_matched_by_a_pattern_that_looks_around() -> None:
    assert "'^(?!a)'" in _refusal({"patternProperties": {"^(?!a)": {}}}).message


def test_schema_with_too_many_patterns_is_refused() -> None:
    fine = {"properties": {f"p{n}": {"pattern": "^same$"} for n in range(500)}}
    _compile(fine)
    assert "patterns" in _refusal({"properties": {f"p{n}": {"pattern": f"^{n}$"} for n in range(500)}}).message


# -- size and depth -----------------------------------------------------------------------------------------------


OUT_OF_BOUNDS: list[tuple[Any, str]] = [
    ({"properties": {f"p{n}": {} for n in range(30_000)}}, "parts"),
    ({"description": "a" * (2 << 20)}, "bytes"),
    (nested(100, lambda inner: {"not": inner or {}}), "deeper"),
    (nested(10_000, lambda inner: {"items": inner or {}}), "deeper"),
    ({"minItems": 10**5000}, "bits"),
]


@pytest.mark.parametrize(("schema", "reason"), OUT_OF_BOUNDS, ids=["parts", "bytes", "deep", "very deep", "number"])
def test_schema_out_of_bounds_is_refused(schema: object, reason: str) -> None:
    assert reason in _refusal(schema).message


def test_shared_structure_counts_written_out() -> None:
    bomb: Any = {"type": "string"}
    for _ in range(30):
        bomb = {"anyOf": [bomb, bomb]}
    assert "parts" in _refusal(bomb).message


@pytest.mark.parametrize("word", ["items", "not", "additionalProperties"])
def test_schema_as_deep_as_allowed_compiles_and_checks(word: str) -> None:
    schema: Any = {"$ref": "#"} if word == "items" else {"type": "string"}
    for _ in range(60):
        schema = {word: schema}
    _compile(schema).check(nested(100, lambda inner: [inner]))


def test_schema_is_kept_as_it_was_given() -> None:
    schema = {"type": "object", "properties": {"b": {}, "a": {"title": "A", "x-mine": [1]}}}
    contract = _compile(schema)
    assert contract.schema == schema
    schema["type"] = "array"
    assert contract.schema["type"] == "object"
    assert list(contract.schema["properties"]) == ["b", "a"]


# -- drafts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draft", ["http://example.com/meta", "nonsense", "https://json-schema.org/draft/2030/schema", 5]
)
def test_unknown_draft_is_refused_with_the_known_one(draft: object) -> None:
    assert "2020-12" in str(_refusal({"$schema": draft}).hint)


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"])
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("end", ["", "#"])
def test_known_draft_is_taken(draft: str, scheme: str, end: str) -> None:
    contract = _compile({"$schema": f"{scheme}://json-schema.org/{draft}/schema{end}", "type": "string"})
    assert contract.check("a") is None
    assert contract.check(1) == Violation("expected string, got integer")


def test_draft_decides_what_a_keyword_means() -> None:
    schema = {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}
    seven = _compile({"$schema": "http://json-schema.org/draft-07/schema#", **schema})
    assert seven.check([1]) is None
    assert seven.check(["a"]) == Violation("expected integer, got string", "$[0]")
    assert seven.check([1, 2]) == Violation("is one too many: there are at most 1", "$[1]")
    _refusal(schema)


def test_old_draft_is_blind_beside_a_reference() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/definitions/t", "maxLength": 1}},
        "definitions": {"t": {"type": "string"}},
    }
    assert _compile({"$schema": "http://json-schema.org/draft-07/schema#", **schema}).check({"a": "long"}) is None
    assert _compile(schema).check({"a": "long"}) is not None


def test_draft_4_has_exclusive_bounds_that_are_true_or_false() -> None:
    contract = _compile({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True})
    assert contract.check(2) is None
    assert contract.check(1) is not None


# -- references ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/properties/a", "properties": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b~0c", "$defs": {"a/b~c": {"type": "string"}}},
        {"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "string"}}},
        {"$ref": "#/anyOf/0", "anyOf": [{"type": "string"}]},
        {"$ref": "#/x-shared/a", "x-shared": {"a": {"type": "string"}}},
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "string"}}},
        {"$dynamicRef": "#here", "$defs": {"a": {"$dynamicAnchor": "here", "type": "string"}}},
        {
            "$id": "https://example.com/it",
            "$ref": "https://example.com/it#/$defs/a",
            "$defs": {"a": {"type": "string"}},
        },
        {"$id": "https://example.com/it#", "$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "allOf": [{"$ref": "#here"}],
            "definitions": {"a": {"$id": "#here", "type": "string"}},
        },
    ],
)
def test_reference_within_the_schema_is_followed(schema: dict[str, Any]) -> None:
    contract = _compile(schema)
    assert contract.check("a") is None
    assert contract.check(5) == Violation("expected string, got integer")


@pytest.mark.parametrize("draft", ["draft/2019-09", "draft/2020-12"])
def test_recursive_types_are_checked_to_their_depth(draft: str) -> None:
    words = {"draft/2019-09": {"$recursiveRef": "#"}, "draft/2020-12": {"$ref": "#"}}
    schema = {
        "$schema": f"https://json-schema.org/{draft}/schema",
        "type": "object",
        "properties": {"kids": {"type": "array", "items": words[draft]}, "n": {"type": "integer"}},
    }
    contract = _compile(schema)
    assert contract.check({"kids": [{"kids": [{"n": 1}]}]}) is None
    assert contract.check({"kids": [{}, {"kids": [{"n": "x"}]}]}) == Violation(
        "expected integer, got string", "$.kids[1].kids[0].n"
    )


@pytest.mark.parametrize(
    "reference",
    ["#/nope", "#nope", "#/properties/a/0", "#/enum/9", "#/enum/99999999999", "#/enum/0", "#/required", "#/enum/x"],
)
def test_dangling_reference_is_refused_by_name(reference: str) -> None:
    schema: dict[str, Any] = {"$ref": reference, "properties": {"a": {}}, "enum": [1], "required": []}
    assert repr(reference) in _refusal(schema).message


def test_part_with_an_id_of_its_own_is_refused() -> None:
    assert "'urn:x'" in _refusal({"$ref": "#/$defs/a", "$defs": {"a": {"$id": "urn:x"}}}).message


def test_property_may_be_called_like_a_keyword() -> None:
    contract = _compile(
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}, "const": {"$ref": "http://x/y"}}
    )
    assert contract.check({"$ref": "http://x/y"}) is None


class _Server(http.server.BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = json.dumps({"type": "string"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    listening = http.server.HTTPServer(("127.0.0.1", 0), type("Server", (_Server,), {"asked": asked}))
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}", asked
    listening.shutdown()
    thread.join()
    listening.server_close()


REMOTE: list[Any] = [
    {"$ref": "URL/a.json"},
    {"$ref": "URL/a.json#/x"},
    {"$dynamicRef": "URL/a.json#x"},
    {"$id": "URL/root.json", "$ref": "a.json"},
    {"$id": "URL/", "$ref": "/a.json"},
    {"properties": {"a": {"items": {"$ref": "URL/a.json"}}}},
    {"$schema": "URL/meta.json"},
    {"$defs": {"a": {"$id": "URL/b", "$ref": "c"}}, "$ref": "#/$defs/a"},
    {"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"$ref": "URL/a.json"}]},
    {"$ref": "file:///etc/hostname"},
    {"$ref": "other.json"},
    {"$ref": "//127.0.0.1/a"},
    {"$ref": "urn:a"},
    {"$ref": ""},
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
]


@pytest.mark.parametrize("schema", REMOTE)
def test_remote_reference_is_refused_and_nobody_is_asked(schema: Any, server: tuple[str, list[str]]) -> None:
    url, asked = server
    refusal = _refusal(json.loads(json.dumps(schema).replace("URL", url)))
    assert asked == []
    assert any(word in refusal.message for word in ("nothing is ever fetched", "no draft", "$id"))


def test_native_validator_itself_has_nobody_to_fetch_anything(server: tuple[str, list[str]]) -> None:
    from cloister.tools.native import compile_schema

    url, asked = server
    for draft in ("Draft7Validator", "Draft202012Validator"):
        for reference in (f"{url}/a.json", "file:///etc/hostname"):
            with pytest.raises(ValueError, match="nothing is fetched"):
                compile_schema(draft, {"properties": {"a": {"$ref": reference}}})
    assert asked == []


def test_mistake_in_a_part_that_nobody_refers_to_is_refused_too(server: tuple[str, list[str]]) -> None:
    url, asked = server
    assert url in _refusal({"$defs": {"a": {"items": {"$ref": f"{url}/a.json"}}}}).message
    assert "'('" in _refusal({"definitions": {"a": {"pattern": "("}}}).message
    assert asked == []


def test_what_is_no_keyword_is_not_read(server: tuple[str, list[str]]) -> None:
    url, asked = server
    assert _compile({"x-note": {"$ref": url, "pattern": "("}, "default": {"$ref": url}}).check(1) is None
    assert asked == []


# -- what is checked ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [{}, True, {"description": "anything", "default": 5, "x-mine": True}])
def test_schema_that_says_nothing_takes_everything(schema: object) -> None:
    assert _compile(schema).check({"a": [1, None]}) is None


def test_false_takes_nothing() -> None:
    assert _compile(False).check(None) is not None


def test_formats_are_notes_in_every_draft() -> None:
    for draft in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"):
        for form in ("date-time", "email", "uri", "uuid", "ipv4", "unheard-of"):
            assert _compile({"$schema": draft, "type": "string", "format": form}).check("neither") is None


def test_huge_numbers_are_compared_exactly() -> None:
    contract = _compile({"type": "integer", "maximum": 2**70})
    assert contract.check(2**70) is None
    assert contract.check(2**70 + 1) is not None
    assert _compile({"minItems": 10**30}).check([1]) is not None


def test_schema_that_mentions_itself_in_place_still_tells_its_own_fault() -> None:
    contract = _compile({"$ref": "#", "anyOf": [{"type": "string"}, {"type": "null"}]})
    assert contract.check(5) == Violation("expected string or null, got integer")


def test_fault_at_the_bottom_of_a_deep_value_is_told_somewhere_above_it() -> None:
    contract = _compile({"items": {"$ref": "#"}, "type": "array"})
    violation = contract.check(nested(120))
    assert violation is not None
    assert violation.path.startswith("$[0][0][0]")


def test_text_that_is_no_unicode_is_a_violation() -> None:
    assert _compile({"type": "string"}).check("\ud800") is not None
    assert _compile({"additionalProperties": False}).check({"\ud800": 1}) is not None


def test_contract_can_be_used_from_many_threads_at_once() -> None:
    contract = _compile(
        {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}}
    )
    seen: list[Violation | None] = []

    def look() -> None:
        seen.extend(contract.check([[[n]] for n in range(200)]) for _ in range(50))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [None] * 200


# -- nothing hangs ------------------------------------------------------------------------------------------------
# In a process of their own: what hangs here hangs in native code, holds the interpreter and cannot be stopped.

HANGS = {
    "exponential pattern": """
        contract = compile({"pattern": "^(a+)+$"})
        assert "pattern" in contract.check("a" * 30 + "!").message
        assert contract.check("a" * 1_000_000 + "!") is not None
        """,
    "pattern that looks ahead": """
        contract = compile({"pattern": "(?=a)(a+)+$"})
        assert contract.check("aaa") is None
        assert "pattern" in contract.check("a" * 30 + "!").message
        assert "longer than" in contract.check("a" * 300_000 + "!").message
        """,
    "pattern that looks ahead, many times": """
        contract = compile({"items": {"pattern": "(?=a)(a+)+$"}})
        assert "too long to be held" in contract.check(["a" * 1000] * 1000).message
        """,
    "pattern that looks back": """
        contract = compile({"pattern": "^(a*)*\\\\1b$"})
        assert contract.check("a" * 900) is not None
        """,
    "reference to itself": """
        for schema in ({"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}):
            compile(schema).check(1)
        compile({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}).check(1)
        compile({"not": {"$ref": "#"}}).check(1)
        compile({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]}).check(1)
        """,
    "references that double": """
        parts = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(60)}
        contract = compile({"$ref": "#/$defs/a0", "$defs": {**parts, "a60": {"type": "integer"}}})
        assert "too long" in contract.check(1).message
        assert contract.check("x") is not None
        """,
    "types that mention each other in place": """
        every = [{"$ref": f"#/$defs/a{n}"} for n in range(12)]
        contract = compile({"$ref": "#/$defs/a0", "$defs": {f"a{n}": {"allOf": every} for n in range(12)}})
        contract.check(1)
        """,
    "alternatives that mention each other": """
        every = [{"$ref": f"#/$defs/a{n}"} for n in range(20)]

        def option(n):
            return {"type": "object", "properties": {"x": {"anyOf": every}, "k": {"const": n}}, "required": ["x", "k"]}

        contract = compile({"$ref": "#/$defs/a0", "$defs": {f"a{n}": option(n) for n in range(20)}})
        value = {"x": "bad", "k": 0}
        for _ in range(60):
            value = {"x": value, "k": 0}
        assert contract.check(value) is not None
        """,
    "explaining two recursive alternatives": """
        def option(op):
            return {"type": "object", "properties": {"l": {"$ref": "#"}, "op": {"const": op}}, "required": ["l", "op"]}

        contract = compile({"anyOf": [option("a"), option("b"), {"type": "integer"}]})
        value = "bad"
        for _ in range(50):
            value = {"l": value, "op": "a"}
        assert contract.check(value) is not None
        """,
    "many alternatives for many items": """
        contract = compile({"items": {"anyOf": [{"const": [n]} for n in range(4000)]}})
        assert contract.check([[3999]] * 100_000) is not None
        """,
    "long list of choices for many items": """
        contract = compile({"items": {"enum": [[n] for n in range(4000)]}})
        assert "too long" in contract.check([[3999]] * 100_000).message
        """,
    "unique huge integers": """
        contract = compile({"uniqueItems": True})
        assert "too long" in contract.check([2**64 + n for n in range(20_000)]).message
        assert "too long" in contract.check([{"a": [-(2**64) - n]} for n in range(20_000)]).message
        assert contract.check(list(range(100_000))) is None
        """,
    "long way round": """
        parts = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}]} for n in range(4000)}
        compile({"$ref": "#/$defs/a0", "$defs": {**parts, "a4000": {"$ref": "#/$defs/a0"}}}).check(1)
        """,
    "as large as allowed": """
        part = {"anyOf": [{"type": "string"}, {"$ref": "#"}], "type": ["string", "object"]}
        contract = compile({"properties": {f"p{n}": part for n in range(2000)}})
        assert contract.check({f"p{n}": 5 for n in range(2000)}) is not None
        """,
}


@pytest.fixture(scope="module")
def ended() -> str:
    """The names of those that ended, each after its own checks."""
    lines = ["from cloister.tools.contract import Contract", "def compile(schema):"]
    lines.append("    return Contract.compile(schema, what='it')")
    for name, script in HANGS.items():
        lines += [f"def run():\n{textwrap.indent(textwrap.dedent(script), '    ')}", "run()"]
        lines.append(f"print({name!r}, flush=True)")
    try:
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, timeout=60, check=False)
        return (done.stdout + done.stderr).decode()
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode()


@pytest.mark.parametrize("name", HANGS)
def test_check_ends_soon_whatever_the_schema_and_the_value(name: str, ended: str) -> None:
    assert f"{name}\n" in ended


def test_what_is_large_and_honest_has_fuel_enough() -> None:
    tree = _compile({"type": "object", "properties": {"kids": {"items": {"$ref": "#"}}}, "additionalProperties": False})
    assert tree.check({"kids": [{"kids": [{"kids": []} for _ in range(100)]} for _ in range(300)]}) is None
    choices = _compile({"items": {"enum": list(range(100))}})
    assert choices.check([99] * 2000) is None
    mails = _compile({"items": {"pattern": "^(?!\\.)[a-z.]+@[a-z.]+$"}})
    assert mails.check(["someone@example.com"] * 5000) is None


# -- properties ---------------------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "c"])
_numbers = st.integers(-2, 4) | st.sampled_from([0.5, 2**70])
_counts = st.integers(0, 3)
_types = st.sampled_from("string integer number boolean null array object".split())
_references = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/nope", "http://127.0.0.1:1/x"])
_leaves = st.booleans() | st.fixed_dictionaries(
    {},
    optional={
        "type": _types | st.lists(_types, unique=True, min_size=1, max_size=2),
        "const": json_values,
        "enum": st.lists(json_values, min_size=1, max_size=3),
        "minLength": _counts,
        "pattern": st.sampled_from(["^a", "(?=a)", "b$", "("]),
        "minimum": _numbers,
        "exclusiveMaximum": _numbers,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "uniqueItems": st.booleans(),
        "maxItems": _counts,
        "maxProperties": _counts,
        "required": st.lists(_names, unique=True, max_size=2),
        "dependentRequired": st.dictionaries(_names, st.lists(_names, unique=True, max_size=2), max_size=2),
        "format": st.just("date"),
        "$ref": _references,
    },
)


def _grow(children: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    many, named = st.lists(children, min_size=1, max_size=3), st.dictionaries(_names, children, max_size=3)
    ones = "items additionalProperties not if then else contains propertyNames unevaluatedProperties unevaluatedItems"
    words: dict[str, Any] = dict.fromkeys(ones.split(), children)
    words |= dict.fromkeys(["anyOf", "oneOf", "allOf", "prefixItems"], many)
    words |= dict.fromkeys(["properties", "patternProperties", "dependentSchemas", "$defs"], named)
    return st.fixed_dictionaries({}, optional={**words, "$ref": _references, "type": _types})


def _in_draft(draft: str, schema: Any) -> Any:
    return {"$schema": draft, **cast("dict[str, Any]", schema)} if isinstance(schema, dict) else schema


_drafts = st.sampled_from(["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"])
schemas = st.builds(_in_draft, _drafts, st.recursive(_leaves, _grow, max_leaves=8))
_small = st.none() | st.booleans() | _numbers | st.sampled_from(["a", "ab", "b", ""])


def _larger(children: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    return st.lists(children, max_size=3) | st.dictionaries(_names, children, max_size=3)


values = st.recursive(_small, _larger, max_leaves=8)


@given(schemas | json_values, values | json_values)
@example({"$ref": "#/$defs/a", "$defs": {"a": {"properties": 5}}}, 1)
@example({"$ref": "#/x", "x": {"items": [5], "enum": 3, "allOf": {}, "pattern": 1}}, 1)
@example({"$schema": ["a"]}, 1)
def test_any_json_is_compiled_or_refused_and_then_checks_any_json(schema: Any, value: Any) -> None:
    try:
        contract = _compile(schema)
    except InvalidInput:
        return
    violation = contract.check(value)
    assert violation is None or (len(violation.message) <= 300 and len(violation.path) <= 300)


@given(schemas, values)
def test_verdict_is_that_of_the_native_validator(schema: Any, value: Any) -> None:
    import jsonschema_rs

    try:
        contract = _compile(schema)
    except InvalidInput:
        return
    try:
        native = jsonschema_rs.validator_for(schema, offline=True, validate_formats=False)
    except jsonschema_rs.ValidationError as error:
        # It also looks beside the references of old drafts, where nothing counts.
        assert "draft-07" in schema["$schema"], error  # noqa: PT017
        return
    assert (contract.check(value) is None) is native.is_valid(value)
