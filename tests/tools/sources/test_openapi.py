"""An OpenAPI document as tools: what is listed, what is sent, and what comes back."""

import asyncio
import base64
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.gate.secrets import MemorySecrets
from cloister.ports.source import SourceFailed
from cloister.tools.contract import Contract
from cloister.tools.sources.openapi import OpenApi, OpenApiSource
from tests.tools.sources.told import about, failure_of
from tests.tools.sources.web_server import Asked, Reply, Web, as_json, web

pytestmark = pytest.mark.anyio

ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "status"],
    "properties": {
        "id": {"type": "string", "readOnly": True},
        "status": {"type": "string", "enum": ["open", "paid"]},
        "note": {"type": "string", "nullable": True},
        "parent": {"$ref": "#/components/schemas/Order"},
    },
}


def document(paths: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": dict(paths), **more}


SHOP = document(
    {
        "/orders/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "get-order",
                "summary": "One order.",
                "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "id", "in": "query", "schema": {"type": "integer"}, "description": "Another id."},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                ],
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}
                },
            },
            "delete": {"operationId": "deleteOrder", "responses": {"204": {"description": "gone"}}},
        },
        "/orders": {
            "post": {
                "operationId": "createOrder",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
                },
                "responses": {
                    "201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}
                },
            },
            "get": {"responses": {"default": {"description": "whatever"}}},
        },
    },
    components={"schemas": {"Order": ORDER}},
    servers=[{"url": "https://{region}.example.com/v1", "variables": {"region": {"default": "eu"}}}],
)


def at(server: Web, given: Any = SHOP, **options: Any) -> OpenApiSource:
    plain: dict[str, Any] = {
        "name": "shop",
        "document": given,
        "base_url": f"{server.url}/v1",
        "private": [server.host],
    }
    return OpenApiSource(OpenApi(**{**plain, **options}))


# -- what there is ----------------------------------------------------------------------------------------------------


async def test_operations_are_tools_in_the_namespace_of_their_api() -> None:
    async with OpenApiSource(OpenApi(name="My shop", document=SHOP)) as source:
        manifests = {one.full_name: one for one in await source.manifests()}
        assert list(manifests) == [
            "My_shop.createOrder",
            "My_shop.deleteOrder",
            "My_shop.get_orders",
            "My_shop.get_order",
        ]
        assert manifests["My_shop.get_order"].description == "One order."
        assert manifests["My_shop.get_order"].parameters == ("id", "fields", "id_query", "filter", "X_Trace")
        assert source.original("My_shop.get_order") == "get-order"


async def test_reading_is_reading_and_deleting_asks_a_person() -> None:
    async with OpenApiSource(OpenApi(name="shop", document=SHOP)) as source:
        get, post, delete = [
            await source.contract(f"shop.{name}") for name in ("get_order", "createOrder", "deleteOrder")
        ]
        assert (get.side_effect, get.idempotent, get.approval_policy.kind) == (SideEffect.READ, True, "none")
        assert (post.side_effect, post.idempotent) == (SideEffect.EXTERNAL_SYSTEM, False)
        assert (delete.idempotent, delete.approval_policy.kind) == (True, "manual")


async def test_contracts_stand_alone_with_their_circles() -> None:
    async with OpenApiSource(OpenApi(name="shop", document=SHOP)) as source:
        found = await source.contract("shop.get_order")
        output = Contract.compile(found.output_schema, what="output")
        good: dict[str, Json] = {"id": "1", "status": "paid", "note": None, "parent": {"id": "0", "status": "open"}}
        assert output.check(good) is None
        assert output.check({**good, "parent": {"id": "0", "status": "lost"}}) is not None
        assert found.output_schema["$ref"] == "#/$defs/Order"
        assert set(found.input_schema["required"]) == {"id"}


async def test_what_is_read_only_is_no_input() -> None:
    async with OpenApiSource(OpenApi(name="shop", document=SHOP)) as source:
        found = await source.contract("shop.createOrder")
        assert list(found.input_schema["properties"]) == ["status", "note", "parent"]
        assert found.input_schema["required"] == ["status"]
        assert found.input_schema["properties"]["note"]["type"] == ["string", "null"]


# -- what is sent -----------------------------------------------------------------------------------------------------


async def test_a_call_is_a_request_with_everything_in_its_place() -> None:
    with web(lambda _: as_json({"id": "A/7", "status": "paid"})) as server:
        async with at(server) as source:
            value = await source.call(
                "shop.get_order",
                {"id": "A/7 ü", "fields": ["a&b", "c"], "id_query": 5, "X_Trace": "t1", "filter": {"x y": True}},
                about(),
            )
            assert value == {"id": "A/7", "status": "paid"}
            asked = server.last
            assert asked.method == "GET"
            assert asked.path == "/v1/orders/A%2F7%20%C3%BC?fields=a%26b&fields=c&id=5&filter%5Bx%20y%5D=true"
            assert asked.headers["x-trace"] == "t1"
            assert asked.headers["host"] == server.host


async def test_a_body_is_made_of_its_inputs() -> None:
    with web(lambda asked: Reply(201, asked.body)) as server:
        async with at(server, typed_responses=False) as source:
            value = await source.call("shop.createOrder", {"status": "open", "note": None}, about())
            assert value == {"status": "open", "note": None}
            assert server.last.headers["content-type"] == "application/json"


FORMS = document(
    {
        "/login": {
            "post": {
                "operationId": "login",
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {
                                "type": "object",
                                "required": ["user"],
                                "properties": {"user": {"type": "string"}, "tag": {"type": "array"}},
                            }
                        }
                    }
                },
            }
        },
        "/list": {
            "post": {
                "operationId": "list",
                "requestBody": {"content": {"application/json": {"schema": {"type": "array"}}}},
            }
        },
        "/blob": {
            "put": {
                "operationId": "blob",
                "requestBody": {"required": True, "content": {"application/octet-stream": {}}},
            }
        },
        "/q": {
            "get": {
                "operationId": "q",
                "parameters": [
                    {"name": "where", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                    {"name": "ids", "in": "query", "explode": False, "schema": {"type": "array"}},
                    {"name": "sid", "in": "cookie", "schema": {"type": "string"}},
                ],
            }
        },
    }
)


async def test_forms_lists_octets_json_parameters_and_cookies_are_sent_as_they_should() -> None:
    with web() as server:
        async with at(server, FORMS) as source:
            await source.call("shop.login", {"user": "a&b c", "tag": [1, 2]}, about())
            assert server.last.body == b"user=a%26b%20c&tag=1&tag=2"
            assert server.last.headers["content-type"] == "application/x-www-form-urlencoded"
            await source.call("shop.login", {}, about())
            assert server.last.body == b""
            await source.call("shop.list", {"body": [1, "ü"]}, about())
            assert json.loads(server.last.body) == [1, "ü"]
            await source.call("shop.blob", {"body": base64.b64encode(b"\x00\xff").decode()}, about())
            assert server.last.body == b"\x00\xff"
            await source.call("shop.q", {"where": {"a": [1]}, "ids": [1, 2], "sid": "x y"}, about())
            assert server.last.path == "/v1/q?where=%7B%22a%22%3A%20%5B1%5D%7D&ids=1,2"
            assert server.last.headers["cookie"] == "sid=x%20y"


async def test_a_body_that_may_be_left_out_is_whole_or_not_at_all() -> None:
    async with OpenApiSource(OpenApi(name="shop", document=FORMS, base_url="https://api.example.com")) as source:
        contract = Contract.compile((await source.contract("shop.login")).input_schema, what="login")
        assert contract.check({}) is None
        assert contract.check({"user": "u"}) is None
        assert contract.check({"tag": []}) is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"id": ""}, "`id` cannot be sent"),
        ({"id": ".."}, "`id` cannot be sent"),
        ({"id": None}, "`id` is part of the path"),
        ({"id": "1", "X_Trace": "a\r\nHost: evil"}, "`X_Trace` cannot be sent"),
        ({"id": "1", "fields": [["a"]]}, "`fields` cannot be sent"),
        ({"id": "1", "fields": ["x" * 20000]}, "the URL would have"),
    ],
)
async def test_what_a_request_cannot_carry_is_refused_before_it_is_sent(arguments: dict[str, Any], said: str) -> None:
    with web() as server:
        async with at(server) as source:
            assert said in (await failure_of(source, "shop.get_order", arguments)).message
            assert server.asked == []


# -- what comes back --------------------------------------------------------------------------------------------------


async def test_a_bad_status_fails_with_the_text_of_the_answer() -> None:
    with web(lambda _: Reply(404, b"no such\n  order " + b"x" * 9000, {"content-type": "text/plain"})) as server:
        async with at(server) as source:
            message = (await failure_of(source, "shop.get_order", {"id": "1"})).message
            assert message.startswith("GET was answered with 404 Not Found: no such order xxx")
            assert len(message) < 2200


async def test_nothing_is_null_and_what_is_no_json_comes_whole() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.method == "DELETE":
            return Reply(204, b"")
        return Reply(200, b"\x89PNG", {"content-type": "image/png"})

    with web(answer) as server:
        async with at(server) as source:
            assert await source.call("shop.deleteOrder", {"id": "1"}, about()) is None
            assert await source.call("shop.get_orders", {}, about()) == {
                "status": 200,
                "content_type": "image/png",
                "base64": "iVBORw==",
            }


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(200, b"<html>", {"content-type": "text/html"}), "text/html, and the document says JSON"),
        (Reply(200, b"{nope"), "is none"),
        (Reply(200, b"[" * 5000), "is none"),
        (Reply(200, b'{"a": NaN}'), "is none"),
        (Reply(200, b'"' + b"x" * 3_000_000 + b'"'), "bytes"),
        (Reply(200, b"[" + b"1," * 600_000 + b"1]"), "cannot be taken"),
        (Reply(200, b"xx", {"content-type": "application/json", "content-encoding": "br"}), "'br'"),
        (Reply(302, b"", {"location": "http://169.254.169.254/meta"}), "'169.254.169.254' is not allowed"),
        (Reply(302, b"", {"location": "file:///etc/passwd"}), "is not an http or https URL"),
    ],
)
async def test_an_answer_that_cannot_be_taken_fails_by_name(reply: Reply, said: str) -> None:
    with web(lambda _: reply) as server:
        async with at(server) as source:
            assert said in (await failure_of(source, "shop.get_order", {"id": "1"})).message


async def test_a_redirect_within_the_allowed_hosts_is_followed_without_the_credentials_of_another_origin() -> None:
    with web(lambda _: as_json({"id": "1", "status": "paid"})) as second:
        with web(lambda _: Reply(307, b"", {"location": f"{second.url}/there"})) as first:
            given = {**SHOP, **SECURED}
            async with at(first, given, private=[first.host, second.host], credentials={"key": "s3cret-key"}) as source:
                assert await source.call("shop.get_order", {"id": "1"}, about()) == {"id": "1", "status": "paid"}
                assert first.last.headers["x-api-key"] == "s3cret-key"
                assert "x-api-key" not in second.last.headers
                assert second.last.path == "/there"
                failed = await failure_of(source, "shop.createOrder", {"status": "open"})
                assert "a redirect of a POST is not followed" in failed.message


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    done = threading.Event()

    def stall(_asked: Asked) -> Reply:
        done.wait()
        return Reply()

    with web(stall) as server:
        async with at(server, timeout_ms=1000) as source:
            try:
                failed = await failure_of(source, "shop.createOrder", {"status": "open"})
                assert failed.message == "no answer within 1000 ms"
                assert failed.hint == "whether it was carried out is not known"
            finally:
                done.set()


async def test_a_cancelled_call_hangs_up() -> None:
    came, hung_up = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        came.set()
        await reader.read()
        hung_up.set()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with OpenApiSource(
        OpenApi(name="shop", document=SHOP, base_url=f"http://127.0.0.1:{port}", private=["127.0.0.1"])
    ) as source:
        call = asyncio.ensure_future(source.call("shop.get_order", {"id": "1"}, about()))
        await came.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await hung_up.wait()
    listening.close()
    await listening.wait_closed()


# -- who asks ---------------------------------------------------------------------------------------------------------

SECURED: dict[str, Any] = {
    "security": [{"key": []}],
    "components": {
        "schemas": {"Order": ORDER},
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            "query": {"type": "apiKey", "in": "query", "name": "api_key"},
            "basic": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer"},
            "oauth": {"type": "oauth2", "flows": {}},
            "mutual": {"type": "mutualTLS"},
        },
    },
}


NONE: list[str] = []


@pytest.mark.parametrize(
    ("security", "credentials", "sent"),
    [
        ([{"key": NONE}], {"key": "value-1"}, ("x-api-key", "value-1")),
        ([{"token": NONE}], {"token": lambda: "tok-1234"}, ("authorization", "Bearer tok-1234")),
        ([{"oauth": ["read"]}], {"oauth": "tok-1234"}, ("authorization", "Bearer tok-1234")),
        ([{"basic": NONE}], {"basic": "ada:l0velace"}, ("authorization", "Basic YWRhOmwwdmVsYWNl")),
        ([{"mutual": NONE}, {"key": NONE}], {"key": "value-1"}, ("x-api-key", "value-1")),
    ],
)
async def test_credentials_go_where_their_scheme_says_and_do_not_come_back(
    security: Any, credentials: Any, sent: tuple[str, str]
) -> None:
    def echo(asked: Asked) -> Reply:
        return as_json({"id": str(asked.headers), "status": "paid"})

    with web(echo) as server:
        async with at(server, {**SHOP, **SECURED, "security": security}, credentials=credentials) as source:
            told = str(await source.call("shop.get_order", {"id": "1"}, about()))
            assert server.last.headers[sent[0]] == sent[1]
            assert sent[1].rpartition(" ")[2] not in told
            assert "[secret]" in told


async def test_a_key_in_the_query_is_in_no_error() -> None:
    with web(lambda asked: Reply(500, asked.path.encode(), {"content-type": "text/plain"})) as server:
        given = {**SHOP, **SECURED, "security": [{"query": NONE}]}
        async with at(server, given, credentials={"query": "value-1"}) as source:
            message = (await failure_of(source, "shop.get_order", {"id": "1"})).message
            assert server.last.path.endswith("?api_key=value-1")
            assert "api_key=[secret]" in message


async def test_a_provider_of_secrets_says_which_tools_may_use_them() -> None:
    provider = MemorySecrets.parse({"key": {"value": "value-1", "allowed": ["shop.get_order"]}})
    with web(lambda _: as_json({"id": "1", "status": "paid"})) as server:
        async with at(server, {**SHOP, **SECURED}, credentials=provider) as source:
            await source.call("shop.get_order", {"id": "1"}, about())
            assert server.last.headers["x-api-key"] == "value-1"
            failed = await failure_of(source, "shop.createOrder", {"status": "open"})
            assert failed.message == "the secret 'key' is not allowed for `shop.createOrder`"
            assert len(server.asked) == 1


async def test_an_operation_without_credentials_is_refused_by_name() -> None:
    paths = {**SHOP["paths"], "/open": {"get": {"operationId": "open", "security": NONE}}}
    async with OpenApiSource(OpenApi(name="shop", document={**SHOP, **SECURED, "paths": paths})) as source:
        assert [one.name for one in await source.manifests()] == ["open"]
        assert source.refused["get-order"] == "it needs credentials for 'key', and there are none"


async def test_a_credential_that_nothing_asks_for_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has no security scheme 'kye'"):
        await OpenApiSource(OpenApi(name="s", document={**SHOP, **SECURED}, credentials={"kye": "x"})).__aenter__()


# -- where it may go --------------------------------------------------------------------------------------------------


async def test_a_private_address_is_refused_unless_it_is_named() -> None:
    with web() as server:
        async with at(server, private=[]) as source:
            failed = await failure_of(source, "shop.get_order", {"id": "1"})
            assert failed.message == "the host '127.0.0.1' is at a private, local or reserved address"
            assert server.asked == []


async def test_a_name_that_turns_private_between_two_calls_is_refused() -> None:
    answers = iter([["127.0.0.1", "93.184.215.14"], ["127.0.0.1"]])
    api = OpenApi(name="shop", document=SHOP, base_url="http://api.example.com")
    async with OpenApiSource(api, resolve=lambda _host, _port: next(answers)) as source:
        for _ in range(2):
            assert "private" in (await failure_of(source, "shop.get_order", {"id": "1"})).message


async def test_an_operation_at_another_host_is_refused_by_name() -> None:
    paths = {**SHOP["paths"], "/x": {"servers": [{"url": "https://evil.example.net"}], "get": {"operationId": "x"}}}
    async with OpenApiSource(OpenApi(name="shop", document={**SHOP, "paths": paths})) as source:
        assert source.refused["x"] == "its server cannot be reached: the host 'evil.example.net' is not allowed"
    allowed = OpenApi(name="shop", document={**SHOP, "paths": paths}, hosts=["*.example.net", "*.example.com"])
    async with OpenApiSource(allowed) as source:
        assert source.refused == {}


# -- the document -----------------------------------------------------------------------------------------------------


async def test_a_document_may_be_a_file_in_yaml_or_json_or_at_a_url(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(SHOP))
    (tmp_path / "shop.json").write_text(json.dumps(SHOP))
    revisions: set[str] = set()
    relative = {**SHOP, "servers": [{"url": "/v2"}]}
    with web(
        lambda asked: as_json(relative if asked.path == "/openapi.json" else {"id": "1", "status": "paid"})
    ) as server:
        for place in (tmp_path / "shop.yaml", str(tmp_path / "shop.json")):
            async with OpenApiSource(OpenApi(name="shop", document=place)) as source:
                revisions.add(source.revision)
        assert len(revisions) == 1
        api = OpenApi(name="shop", document=f"{server.url}/openapi.json", private=[server.host])
        async with OpenApiSource(api) as source:
            await source.call("shop.get_order", {"id": "1"}, about())
            assert server.last.path == "/v2/orders/1"


async def test_refresh_tells_of_a_document_that_has_changed(tmp_path: Path) -> None:
    place = tmp_path / "shop.json"
    place.write_text(json.dumps(SHOP))
    async with OpenApiSource(OpenApi(name="shop", document=place)) as source:
        told: list[str] = []
        source.subscribe(lambda: told.append(source.revision))
        await source.refresh()
        assert told == []
        place.write_text(json.dumps({**SHOP, "paths": {"/x": {"get": {"operationId": "x"}}}}))
        await source.refresh()
        assert told == [source.revision]
        assert [one.name for one in await source.manifests()] == ["x"]
        place.write_text("{")
        with pytest.raises(InvalidInput):
            await source.refresh()
        assert [one.name for one in await source.manifests()] == ["x"]


async def test_a_document_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match="No such file"):
        await OpenApiSource(OpenApi(name="s", document=tmp_path / "none.yaml")).__aenter__()
    with web(lambda _: Reply(403)) as server:
        with pytest.raises(SourceFailed, match="its document was answered with 403"):
            await OpenApiSource(OpenApi(name="s", document=server.url, private=[server.host])).__aenter__()
