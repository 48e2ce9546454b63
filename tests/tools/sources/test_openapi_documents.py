"""Documents that are large, odd or hostile: what cannot be used is named, the rest is there."""

import json
from typing import Any

import pytest

from cloister.core.errors import InvalidInput
from cloister.tools.contract import BOUNDS, Contract
from cloister.tools.sources.openapi import OpenApi, OpenApiSource
from cloister.tools.sources.openapi.document import Unusable, read_document

pytestmark = pytest.mark.anyio


def get(**more: Any) -> dict[str, Any]:
    return {"get": {"operationId": "it", "responses": {}, **more}}


def document(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    head = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://api.example.com"}]}
    return {**head, "paths": paths, **more}


def opened(paths: dict[str, Any], **more: Any) -> OpenApiSource:
    fine = {"/fine": {"get": {"operationId": "fine"}}}
    return OpenApiSource(OpenApi(name="api", document=document({**fine, **paths}, **more)))


def parameter(**more: Any) -> dict[str, Any]:
    return get(parameters=[{"name": "p", "in": "query", "schema": {"type": "string"}, **more}])


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ({"/x/{p}": parameter(**{"in": "path", "style": "matrix"})}, "the style 'matrix', which is not supported"),
        ({"/x": parameter(style="pipeDelimited")}, "the style 'pipeDelimited', which is not supported"),
        ({"/x": parameter(allowReserved=True)}, "`allowReserved`, which is not supported"),
        ({"/x": parameter(**{"in": "body"})}, "a parameter 'p' in 'body'"),
        ({"/x": parameter(**{"in": "header", "name": "Host"})}, "the header 'Host' as a parameter"),
        ({"/x": parameter(content={"application/xml": {}})}, "written as application/xml, and only JSON can be"),
        ({"/x": get(parameters=[{"$ref": "https://e.com/p.json"}])}, "'https://e.com/p.json', outside of the document"),
        ({"/x": get(parameters=[{"$ref": "#/components/none"}])}, "'#/components/none', where there is nothing"),
        ({"/x": parameter(schema={"$ref": "other.yaml#/A"})}, "'other.yaml#/A', which is not in the document"),
        ({"/x": parameter(schema={"$ref": "#/components/schemas/Far"})}, "'https://e.com/far.json'"),
        ({"/x/{id}": get()}, "do not agree on 'id'"),
        ({"x": get()}, "its path 'x' is not one"),
        ({"/x": get(requestBody={"content": {"application/json": {}}})}, "a GET with a body"),
        ({"/x": {"post": get(requestBody={"content": {"multipart/form-data": {}}})["get"]}}, "multipart/form-data"),
        ({"/x": {"$ref": "https://e.com/paths.json"}}, "outside of the document"),
        ({"/x": {"servers": [{"url": "https://{r}.e.com"}], **get()}}, "the variable 'r' without a default"),
        ({"/x": get(security=[{"none": []}])}, "it needs credentials for 'none'"),
        ({"/x": get(parameters="p")}, "its parameters are not a list"),
        ({"/x": {"get": "what"}}, "it is not an object"),
    ],
)
async def test_what_is_not_supported_is_refused_for_that_operation_alone(paths: dict[str, Any], reason: str) -> None:
    components = {"schemas": {"Far": {"properties": {"a": {"$ref": "https://e.com/far.json"}}}}}
    async with opened(paths, components=components) as source:
        assert [one.name for one in await source.manifests()] == ["fine"]
        assert [reason in said for said in source.refused.values()] == [True]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("{nope", "is not JSON: .* at line 1, column 2"),
        ("a:\n  - b\n c: d", "is not YAML: .* at line 3"),
        ("just words", "is not an object"),
        ('{"swagger": "2.0"}', "is Swagger 2.0"),
        ('{"openapi": "4.0.0"}', "`openapi` is '4.0.0'"),
        ('{"openapi": "3.1.0", "paths": []}', "`paths` is not an object"),
        ('{"openapi": "3.1.0", "paths": {}}', "has no operation that can be called"),
        ("[" * 100_000, "nested too deep"),
        ("- " * 2000 + "a", "YAML|nested"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        ('{"a": NaN}', "NaN is not a JSON number"),
    ],
)
async def test_a_document_that_is_none_is_refused_with_the_reason(given: str, reason: str, tmp_path: Any) -> None:
    place = tmp_path / "api"
    place.write_text(given)
    with pytest.raises(InvalidInput, match=reason):
        await OpenApiSource(OpenApi(name="api", document=place)).__aenter__()


@pytest.mark.parametrize("merging", [False, True])
def test_aliases_that_multiply_are_refused(merging: bool) -> None:
    lines = ["openapi: 3.1.0", "a0: &a0 {" + ", ".join(f"k{n}: {n}" for n in range(10)) + "}"]
    for level in range(1, 10):
        parts = ", ".join([f"*a{level - 1}"] * 10)
        # A merge drops what has one name, but only once it was copied.
        lines.append(f"a{level}: &a{level} {{<<: [{parts}]}}" if merging else f"a{level}: &a{level} [{parts}]")
    with pytest.raises(InvalidInput, match=r"add up to too much|takes more than|more than"):
        read_document("\n".join(lines), "the bomb")


def test_a_merge_within_reason_is_fine() -> None:
    found = read_document("openapi: 3.1.0\nx: &x {a: 1}\ny: {<<: *x, b: 2}\n200: {}", "it")
    assert found.root["y"] == {"a": 1, "b": 2}
    assert found.root["200"] == {}


def test_a_reference_that_leads_in_a_circle_is_named() -> None:
    found = read_document({"openapi": "3.1.0", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}, "it")
    with pytest.raises(Unusable, match="leads in a circle"):
        found.part({"$ref": "#/a"}, "it")


async def test_types_that_all_mention_each_other_give_a_contract_of_a_bounded_size() -> None:
    names = [f"T{n}" for n in range(150)]
    schemas = {
        name: {
            "type": "object",
            "description": "d" * 2000,
            "properties": {other: {"$ref": f"#/components/schemas/{other}"} for other in names},
        }
        for name in names
    }
    responses = {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/T0"}}}}}
    async with opened({"/x": get(responses=responses)}, components={"schemas": schemas}) as source:
        schema = (await source.contract("api.it")).output_schema
        assert len(json.dumps(schema)) < BOUNDS.size
        contract = Contract.compile(schema, what="it")
        assert contract.check({"T1": {"T2": {}}}) is None
        assert contract.check({"T1": 5}) is not None


async def test_words_of_3_0_are_said_as_json_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "above": {"type": "number", "minimum": 1, "exclusiveMinimum": True},
            "maybe": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/Text"}]},
            "beside": {"$ref": "#/components/schemas/Text", "maxLength": 1},
            "secret": {"type": "string", "writeOnly": True},
        },
        "required": ["secret"],
        "example": {"$ref": "nothing"},
        "discriminator": {"propertyName": "kind"},
    }
    given = document(
        {"/x": get(responses={"200": {"content": {"application/json": {"schema": schema}}}})},
        openapi="3.0.1",
        components={"schemas": {"Text": {"type": "string"}}},
    )
    async with OpenApiSource(OpenApi(name="api", document=given)) as source:
        contract = Contract.compile((await source.contract("api.it")).output_schema, what="it")
        assert contract.check({"above": 1.5, "maybe": None, "beside": "long"}) is None
        assert contract.check({"above": 1}) is not None
        assert contract.check({"maybe": 5}) is not None


async def test_a_pattern_that_cannot_be_used_costs_the_patterns_and_not_the_types() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<!x"}, "b": {"type": "integer"}}}
    async with opened({"/x": get(responses={"200": {"content": {"application/json": {"schema": schema}}}})}) as source:
        contract = Contract.compile((await source.contract("api.it")).output_schema, what="it")
        assert contract.check({"a": "anything", "b": 1}) is None
        assert contract.check({"b": "one"}) is not None


async def test_several_good_answers_are_any_of_them() -> None:
    one = {"content": {"application/json": {"schema": {"type": "integer"}}}}
    responses: dict[str, Any] = {
        "200": one,
        "202": {"description": "later"},
        "404": {"content": {"application/json": {}}},
    }
    async with opened({"/x": get(responses=responses)}) as source:
        assert (await source.contract("api.it")).output_schema == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


async def test_inputs_of_one_name_are_told_apart_by_their_place() -> None:
    post: dict[str, Any] = {
        "operationId": "it",
        "parameters": [
            {"name": "id", "in": place, "required": place == "path", "schema": {"type": "string"}}
            for place in ("header", "query", "path", "cookie")
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"type": "object", "properties": {"id": {}, "id_query": {}, "class": {}}}
                }
            },
        },
    }
    async with opened({"/x/{id}": {"post": post}}) as source:
        found = await source.contract("api.it")
        names = ["id", "id_query", "id_header", "id_cookie", "id_body", "id_query_body", "class_"]
        assert list(found.input_schema["properties"]) == names
        Contract.compile(found.input_schema, what="it")


async def test_operations_of_one_id_are_told_apart_by_method_and_path() -> None:
    async with opened({"/a": get(), "/b": get()}) as source:
        assert sorted(one.name for one in await source.manifests()) == ["fine", "get_b", "it"]


async def test_a_document_of_five_thousand_operations_is_read_and_its_contracts_are_made_when_asked_for() -> None:
    schemas = {
        f"T{n}": {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/T{n + 1}"}}}
        for n in range(999)
    }
    schemas["T999"] = {"type": "string", "description": "x" * 1000}
    answer = {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/T0"}}}}}
    paths = {
        f"/p{n}/{{id}}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": f"op{n}", "description": "what it does " * 40, "responses": answer},
        }
        for n in range(5000)
    }
    async with opened(paths, components={"schemas": schemas}) as source:
        assert len(await source.manifests()) == 5001
        found = await source.contract("api.op4711")
        assert Contract.compile(found.output_schema, what="it").check({"next": {"next": {}}}) is None


@pytest.mark.slow
async def test_a_document_of_ten_megabytes_in_yaml_is_read(tmp_path: Any) -> None:
    lines = ["openapi: 3.0.0", "servers: [{url: 'https://api.example.com'}]", "paths:"]
    for number in range(20_000):
        lines += [f"  /p{number}:", "    get:", f"      operationId: op{number}", f"      description: {'words ' * 60}"]
        lines += ["      responses:", "        200:", "          description: fine"]
    place = tmp_path / "large.yaml"
    place.write_text("\n".join(lines))
    assert place.stat().st_size > 9_000_000
    async with OpenApiSource(OpenApi(name="api", document=place)) as source:
        assert len(await source.manifests()) == 20_000
