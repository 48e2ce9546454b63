"""APIs behind a whole Cloister, as programs meet them."""

import json
from pathlib import Path

import pytest

from cloister import Cloister, Event, OpenApi, OpenApiSource, Overlay
from cloister.gate.secrets import MemorySecrets
from tests.tools.sources.test_openapi import SECURED, SHOP, at
from tests.tools.sources.web_server import Asked, Reply, as_json, web

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_a_program_calls_an_api_with_a_secret_that_it_never_sees(language: str) -> None:
    key = "value-1-of-the-key"
    provider = MemorySecrets.parse({"key": {"value": key, "allowed": ["shop.get_order"]}})
    programs = {
        "python": (
            "import asyncio\nfrom shop import get_order, createOrder\n"
            "async def told():\n    try:\n        return await createOrder(status='open')\n"
            "    except RuntimeError as e:\n        return str(e)\n"
            "orders = await asyncio.gather(*[get_order(id=str(n)) for n in range(5)])\n"
            "[[o['id'] for o in orders], orders[0]['note'], await told()]"
        ),
        "typescript": (
            "const orders = await Promise.all([0, 1, 2, 3, 4].map(n => shop.get_order({id: String(n)})));"
            "const told = await shop.createOrder({status: 'open'}).catch(e => `${e.code}: ${e.message}`);"
            "[orders.map(o => o.id), orders[0].note, told]"
        ),
    }
    events: list[Event] = []

    def answer(asked: Asked) -> Reply:
        return as_json({"id": asked.path[-1], "status": "paid", "note": f"asked by {asked.headers['x-api-key']}"})

    with web(answer) as server:
        source = at(server, {**SHOP, **SECURED}, credentials=provider)
        async with Cloister(sources=[source], type_check="off", on_event=events.append) as cloister:
            session = await cloister.open_session(language=language)
            result = await session.run(programs[language])
            ids, note, told = result.result
            assert (ids, note) == (["0", "1", "2", "3", "4"], "asked by [secret]")
            assert told == "TOOL_ERROR: the secret 'key' is not allowed for `shop.createOrder`" + (
                " (the host says what it is allowed for)" if language == "python" else ""
            )
            assert [asked.headers["x-api-key"] for asked in server.asked] == [key] * 5
            bad = await session.call("shop.get_order", {"id": 5})
            assert bad.error is not None
            assert bad.error.code == "INVALID_ARGUMENTS"
            seen = [repr(result), repr(events), session.stubs, session.preamble().text, repr(session.sources)]
            assert not any(key in text for text in seen)
            assert key.encode() not in await session.snapshot()


async def test_a_session_opens_with_the_others_when_an_optional_document_is_no_good(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("openapi: 3.1.0\npaths: [")
    bad = OpenApiSource(OpenApi(name="bad", document=tmp_path / "bad.yaml"))
    remote = {
        "openapi": "3.1.0",
        "paths": {
            "/far": {"get": {"operationId": "far", "parameters": [{"$ref": "https://example.com/other.json#/x"}]}},
            "/tree": {
                "post": {
                    "operationId": "tree",
                    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}},
                }
            },
        },
        "components": {
            "schemas": {
                "Node": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "inner": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
                    },
                }
            }
        },
    }
    with web(lambda asked: Reply(body=asked.body)) as server:
        odd = OpenApiSource(OpenApi(name="odd", document=remote, base_url=server.url, private=[server.host]))
        async with Cloister(sources=[odd]) as cloister:
            session = await cloister.open_session(sources=[Overlay(bad, optional=True)])
            assert session.sources[1].missing is not None
            assert "the document of API 'bad' is not YAML" in session.sources[1].missing
            # A circle is fine, a remote reference costs its own operation and no other.
            assert session.tools.names() == ["odd.tree"]
            assert "example.com" in odd.refused["far"]
            result = await session.run("from odd import tree\nawait tree(name='a', inner=[{'name': 'b', 'inner': []}])")
            assert result.result == {"name": "a", "inner": [{"name": "b", "inner": []}]}


async def test_a_document_that_went_bad_leaves_its_tools_as_they_were(tmp_path: Path) -> None:
    events: list[Event] = []
    with web(lambda _: as_json({"id": "1", "status": "paid"})) as server:
        path = tmp_path / "shop.json"
        path.write_text(json.dumps(SHOP))
        async with Cloister(sources=[at(server, path)], on_event=events.append) as cloister:
            session = await cloister.open_session()
            path.write_text("{")
            await session.refresh()
            assert (
                await session.run("from shop import get_order\n(await get_order(id='1'))['status']")
            ).result == "paid"
            (failed,) = [event.data for event in events if event.kind == "source.failed"]
            assert failed["source"] == "shop"
            assert "is not JSON" in str(failed["reason"])
