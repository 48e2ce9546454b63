"""Both drivers over the formats of providers, with their own libraries, to a real server."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, tool
from cloister.core.item import AgentMessage, AgentReasoning
from cloister.core.language import Language
from cloister.core.thread import DriverKind
from cloister.core.turn import Receipt, Status, SteerParams
from cloister.threads.models import ModelRegistry
from tests.threads.drivers.lab import begin, ended, said_of, talk, work
from tests.threads.lab import PATIENCE_S, follow
from tests.threads.models.wire.server import WIRES, Fails, ModelServer, Raw, Reply

pytestmark = pytest.mark.anyio
DRIVERS = [DriverKind.CODE, DriverKind.NATIVE]
CODE = {
    Language.PYTHON: 'o = await get_order(order_id="A7")\no["total"]',
    Language.TYPESCRIPT: 'const o = await tools.get_order({order_id: "A7"});\no.total',
}


@tool
async def get_order(order_id: str) -> dict[str, object]:
    """An order."""
    return {"id": order_id, "total": 12}


@asynccontextmanager
async def at(server: ModelServer, wire: str, path: Path, *tools: object, **more: Any) -> AsyncGenerator[Cloister]:
    settings = server.settings(wire, model="gpt-5", max_retries=0, **more)
    given, store = tools or [get_order], f"sqlite://{path}?synchronous=normal"
    async with (
        ModelRegistry([settings], environment={"SOME_KEY": "key"}) as models,
        Cloister(store=store, tools=given, models=models, model="there") as cloister,
    ):
        yield cloister


def asking(driver: DriverKind, language: Language = Language.PYTHON) -> tuple[str, str]:
    """The call that looks up an order."""
    if driver is DriverKind.NATIVE:
        return "get_order", '{"order_id": "A7"}'
    return "exec", json.dumps({"code": CODE[language]})


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
async def test_drivers_talk_in_both_languages(tmp_path: Path, wire: str, streams: bool) -> None:
    async with ModelServer() as server, at(server, wire, tmp_path / "a.db", stream=streams) as cloister:
        for driver, language in [(DriverKind.NATIVE, Language.PYTHON), *((DriverKind.CODE, one) for one in Language)]:
            server.heard.clear()
            server.replies += [
                Reply(text="I will look.", reasoning="An order…", calls=[asking(driver, language)]),
                Reply(text="It is 12."),
            ]
            turn, items = await talk(cloister.threads, "A7?", driver=driver, language=language)
            assert turn.status is Status.COMPLETED, turn.error
            assert (turn.usage.requests, turn.usage.tokens, turn.usage.cache_read_tokens) == (2, 54, 10)
            assert "12" in said_of(work(items)[0])
            assert [one.detail.text for one in items if isinstance(one.detail, AgentMessage)] == [
                "I will look.",
                "It is 12.",
            ]
            assert [one.detail.text for one in items if isinstance(one.detail, AgentReasoning)] == ["An order…"]
            # What the provider gave goes back to it with the result.
            second = json.dumps(server.heard[1].body)
            assert "12" in second
            assert "I will look." in second
            assert wire != "anthropic" or "signed-1" in second


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("wire", WIRES)
async def test_words_in_the_middle_go_into_the_next_request(tmp_path: Path, wire: str, driver: DriverKind) -> None:
    replies = [Reply(text="I will look.", calls=[asking(driver)], stall_after=4), Reply(text="B2 then.")]
    async with ModelServer(replies) as server, at(server, wire, tmp_path / "a.db") as cloister:
        turn = await begin(cloister.threads, "A7?", driver=driver)
        async with asyncio.timeout(PATIENCE_S):
            await server.stalled.wait()
        receipt = await cloister.threads.steer(turn.thread_id, turn.id, SteerParams("B2 instead", "mine"))
        assert receipt.receipt is Receipt.QUEUED
        server.go.set()
        turn, _ = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        assert "B2 instead" not in json.dumps(server.heard[0].body)
        assert json.dumps(server.heard[1].body).count("B2 instead") == 1
        again = await cloister.threads.steer(turn.thread_id, turn.id, SteerParams("B2 instead", "mine"))
        assert again.receipt is Receipt.DELIVERED


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("wire", WIRES)
async def test_interrupt_in_the_middle_of_a_stream_closes_it_and_the_thread_goes_on(
    tmp_path: Path, wire: str, driver: DriverKind
) -> None:
    replies = [Reply(text="A long story", pieces=6, stall_after=5), Reply(text="Right.")]
    async with ModelServer(replies) as server, at(server, wire, tmp_path / "a.db") as cloister:
        turn = await begin(cloister.threads, "Tell.", driver=driver)
        async with asyncio.timeout(PATIENCE_S):
            await server.stalled.wait()
            turn = await cloister.threads.interrupt(turn.thread_id, turn.id)
            await server.left.wait()
        assert turn.status is Status.INTERRUPTED
        turn, items = await ended(cloister.threads, turn)
        assert {one.status for one in items if isinstance(one.detail, AgentMessage)} <= {Status.INTERRUPTED}
        thread = (await cloister.threads.get(turn.thread_id)).thread
        turn, _ = await talk(cloister.threads, "Enough?", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error
        assert "A long story" not in json.dumps(server.heard[-1].body)


@pytest.mark.parametrize("wire", WIRES)
async def test_interrupt_in_the_middle_of_a_cell_is_told_with_the_next_turn(tmp_path: Path, wire: str) -> None:
    @tool
    async def forever() -> None:
        await asyncio.Event().wait()

    replies = [Reply(calls=[("exec", '{"code": "await forever()"}')]), Reply(text="I see.")]
    async with ModelServer(replies) as server, at(server, wire, tmp_path / "a.db", forever) as cloister:
        turn = await begin(cloister.threads)
        await follow(cloister.threads, turn.thread_id, lambda one: one.event == "call.requested")
        turn = await cloister.threads.interrupt(turn.thread_id, turn.id)
        assert turn.status is Status.INTERRUPTED
        thread = (await cloister.threads.get(turn.thread_id)).thread
        turn, _ = await talk(cloister.threads, "Well?", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error
        assert "[interrupted]" in json.dumps(server.heard[-1].body)


FAILURES = {
    "an error": (Fails(503), "model_failed"),
    "refused": (Fails(400), "model_refused"),
    "too many": (Fails(429), "model_rate_limited"),
    "no connection": (Raw(cut=True), "model_failed"),
    "cut in the middle": (Reply(text="Half of it", pieces=4, cut_after=5), "model_failed"),
}


@pytest.mark.parametrize("wire", WIRES)
async def test_failure_of_the_provider_is_the_turns_and_not_the_threads(tmp_path: Path, wire: str) -> None:
    async with ModelServer() as server, at(server, wire, tmp_path / "a.db") as cloister:
        thread = await cloister.threads.create()
        for name, (failure, code) in FAILURES.items():
            server.replies.append(failure)
            turn, items = await talk(cloister.threads, name, thread=thread)
            assert turn.error is not None, name
            assert (turn.status, turn.error.code) == (Status.FAILED, code), (name, turn.error)
            assert all(item.status.is_final for item in items), name
        server.replies.append(Reply(text="Well."))
        turn, _ = await talk(cloister.threads, "again", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error
