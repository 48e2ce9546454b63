"""Both drivers over the formats of providers, with their own libraries, to a real server."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, tool
from cloister.core.item import AgentMessage, AgentReasoning, CellRun
from cloister.core.language import Language
from cloister.core.thread import DriverKind, ThreadParams
from cloister.core.turn import Receipt, Status, SteerParams
from cloister.core.usage import Prices
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


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """The SDKs: on a busy machine they take longer than a test should wait for an event."""
    for module in ("exchange", "anthropic", "openai"):
        import_module(f"cloister.threads.models.provided.{module}")


@asynccontextmanager
async def at(server: ModelServer, wire: str, path: Path, *tools: object, **more: Any) -> AsyncGenerator[Cloister]:
    settings = server.settings(wire, **{"model": "gpt-5", "max_retries": 0, **more})
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


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
async def test_drivers_talk_in_both_languages(tmp_path: Path, wire: str, streams: bool, driver: DriverKind) -> None:
    more: dict[str, Any] = {"stream": streams, "prices": Prices(Decimal(2), Decimal(10), cached=Decimal("0.2"))}
    async with ModelServer() as server, at(server, wire, tmp_path / "a.db", **more) as cloister:
        for language in Language:
            server.heard.clear()
            server.replies += [
                Reply(text="I will look.", reasoning="An order…", calls=[asking(driver, language)]),
                Reply(text="It is 12."),
            ]
            turn, items = await talk(cloister.threads, "A7?", driver=driver, language=language)
            assert turn.status is Status.COMPLETED, turn.error
            assert (turn.usage.requests, turn.usage.tokens, turn.usage.cache_read_tokens) == (2, 54, 10)
            # Of each request 15 tokens at 2, 5 at 0.2 and 7 at 10 dollars for a million.
            assert turn.usage.cost_micros == 202
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
async def test_words_in_the_middle_of_the_work_go_along_with_what_came_of_it(tmp_path: Path, wire: str) -> None:
    go = asyncio.Event()

    @tool
    async def wait_here() -> str:
        await go.wait()
        return "went"

    code = {Language.PYTHON: "await wait_here()", Language.TYPESCRIPT: "await tools.wait_here({})"}
    async with ModelServer() as server, at(server, wire, tmp_path / "a.db", wait_here) as cloister:
        for driver, language in product(DRIVERS, Language):
            go.clear()
            called = (
                ("exec", json.dumps({"code": code[language]})) if driver is DriverKind.CODE else ("wait_here", "{}")
            )
            server.replies += [Reply(calls=[called]), Reply(text="B2 then.")]
            turn = await begin(cloister.threads, "A7?", driver=driver, language=language)
            await follow(cloister.threads, turn.thread_id, lambda one: one.event == "call.requested")
            receipt = await cloister.threads.steer(turn.thread_id, turn.id, SteerParams("B2 instead", "mine"))
            assert receipt.receipt is Receipt.QUEUED
            go.set()
            turn, items = await ended(cloister.threads, turn)
            assert turn.status is Status.COMPLETED, turn.error
            assert "went" in said_of(work(items)[0])
            told = json.dumps(server.heard[-1].body)
            assert told.count("B2 instead") == 1
            assert told.index("went") < told.index("B2 instead")


FOREVER = {Language.PYTHON: "await forever()", Language.TYPESCRIPT: "await tools.forever({})"}


@pytest.mark.parametrize("wire", WIRES)
async def test_interrupt_in_the_middle_of_the_work_is_told_with_the_next_turn(tmp_path: Path, wire: str) -> None:
    @tool
    async def forever() -> None:
        await asyncio.Event().wait()

    async with ModelServer() as server, at(server, wire, tmp_path / "a.db", forever) as cloister:
        for driver, language in product(DRIVERS, Language):
            call = ("exec", json.dumps({"code": FOREVER[language]})) if driver is DriverKind.CODE else ("forever", "{}")
            server.replies += [Reply(calls=[call]), Reply(text="I see.")]
            turn = await begin(cloister.threads, driver=driver, language=language)
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
}
CUT = {
    True: Reply(text="Half of it", calls=[asking(DriverKind.NATIVE)], pieces=4, cut_after=9),
    False: Raw(200, b'{"id": "half of', broken=True),
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
async def test_failure_of_the_provider_is_the_turns_and_not_the_threads(
    tmp_path: Path, wire: str, streams: bool, driver: DriverKind
) -> None:
    failures = {**FAILURES, "cut in the middle": (CUT[streams], "model_failed")}
    async with ModelServer() as server, at(server, wire, tmp_path / "a.db", stream=streams) as cloister:
        for language in Language:
            thread = await cloister.threads.create(ThreadParams(driver=driver, language=language))
            for name, (failure, code) in failures.items():
                server.replies.append(failure)
                turn, items = await talk(cloister.threads, name, thread=thread)
                assert turn.error is not None, name
                assert (turn.status, turn.error.code) == (Status.FAILED, code), (name, turn.error)
                assert all(item.status.is_final for item in items), name
                # Nothing is done about half an answer.
                assert not work(items), name
            server.replies += [Reply(calls=[asking(driver, language)]), Reply(text="Well.")]
            turn, items = await talk(cloister.threads, "again", thread=thread)
            assert turn.status is Status.COMPLETED, turn.error
            assert "12" in said_of(work(items)[0])


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
async def test_what_passes_is_waited_out_within_the_turn_and_nothing_is_said_or_done_twice(
    tmp_path: Path, wire: str, streams: bool, driver: DriverKind
) -> None:
    asked_to_wait = Fails(429, headers={"retry-after-ms": "1"})
    more: dict[str, Any] = {"stream": streams, "max_retries": 3, "max_retry_wait_ms": 1}
    async with ModelServer() as server, at(server, wire, tmp_path / "a.db", **more) as cloister:
        for language in Language:
            server.replies += [
                asked_to_wait,
                Raw(cut=True),
                Reply(text="I will look.", calls=[asking(driver, language)]),
            ]
            server.replies += [Fails(529), Reply(text="It is 12.")]
            turn, items = await talk(cloister.threads, "A7?", driver=driver, language=language)
            assert turn.status is Status.COMPLETED, turn.error
            assert turn.usage.requests == 5
            texts = [one.detail.text for one in items if isinstance(one.detail, AgentMessage)]
            assert texts == ["I will look.", "It is 12."]
            assert len(work(items)) == 1


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("wire", WIRES)
async def test_slow_answer_is_told_as_it_comes(tmp_path: Path, wire: str, driver: DriverKind) -> None:
    # In the middle of its words, whatever the format says before them.
    after = {"anthropic": 4, "responses": 4, "chat": 2}[wire]
    replies = [Reply(text="Once upon a time.", stall_after=after)]
    async with ModelServer(replies) as server, at(server, wire, tmp_path / "a.db") as cloister:
        thread = await cloister.threads.create(ThreadParams(driver=driver))
        async with cloister.threads.events(thread_id=thread.id) as events, asyncio.timeout(PATIENCE_S):
            turn = await begin(cloister.threads, "Tell.", thread=thread)
            said = ""
            async for envelope in events:
                if envelope.event == "item.delta":
                    said += envelope.payload["text"]
                    if not server.go.is_set():
                        assert said == "Once upon"
                        server.go.set()
                if envelope.event == "turn.completed":
                    break
        assert said == "Once upon a time."
        assert (await cloister.threads.get_turn(thread.id, turn.id)).status is Status.COMPLETED


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("wire", WIRES)
async def test_provider_that_falls_silent_ends_the_turn(tmp_path: Path, wire: str, driver: DriverKind) -> None:
    replies = [Reply(text="Once upon", stall_after=3)]
    async with ModelServer(replies) as server, at(server, wire, tmp_path / "a.db", idle_timeout_ms=500) as cloister:
        thread = await cloister.threads.create(ThreadParams(driver=driver))
        turn, _ = await talk(cloister.threads, "Tell.", thread=thread)
        assert turn.error is not None
        assert (turn.status, turn.error.code) == (Status.FAILED, "model_timeout")
        async with asyncio.timeout(PATIENCE_S):
            await server.left.wait()


# -- models that cannot call -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
async def test_model_without_tools_writes_its_programs_in_fenced_blocks(
    tmp_path: Path, wire: str, streams: bool
) -> None:
    async with ModelServer() as server, at(server, wire, tmp_path / "a.db", stream=streams, tools=False) as cloister:
        for language in Language:
            server.heard.clear()
            server.replies += [
                Reply(text=f"I will look.\n```{language}\n{CODE[language]}\n```\n", pieces=5),
                Reply(text="It is 12."),
            ]
            turn, items = await talk(cloister.threads, "A7?", language=language)
            assert turn.status is Status.COMPLETED, turn.error
            assert [said_of(item) for item in work(items)] == ["[completed] result: 12"]
            first, second = (one.body for one in server.heard)
            assert not first.get("tools")
            assert f"```{language}" in json.dumps(first)
            assert "result: 12" in json.dumps(second)


@pytest.mark.parametrize("wire", WIRES)
async def test_conversation_of_calls_goes_on_in_words_with_a_model_that_cannot_call(tmp_path: Path, wire: str) -> None:
    store = f"sqlite://{tmp_path / 'a.db'}?synchronous=normal"
    async with (
        ModelServer() as server,
        ModelRegistry(
            [
                server.settings(wire, model="gpt-5", name="calls"),
                server.settings(wire, model="gpt-5", name="talks", tools=False),
            ],
            environment={"SOME_KEY": "key"},
        ) as models,
        Cloister(store=store, tools=[get_order], models=models, model="calls") as cloister,
    ):
        server.replies += [
            Reply(reasoning="An order…", calls=[asking(DriverKind.CODE), ("search_tools", '{"query": "order"}')]),
            Reply(text="It is 12."),
            Reply(text="Right:\n```python\no['total'] * 2\n```"),
            Reply(text="24."),
            Reply(text="As I said."),
        ]
        turn, _ = await talk(cloister.threads, "A7?")
        thread = (await cloister.threads.get(turn.thread_id)).thread
        turn, items = await talk(cloister.threads, "twice?", thread=thread, model="talks")
        assert turn.status is Status.COMPLETED, turn.error
        assert said_of(work(items)[0]) == "[completed] result: 24"
        told = json.dumps(server.heard[2].body)
        assert "tool_use" not in told
        assert "tool_calls" not in told
        assert "function_call" not in told
        assert "get_order(order_id=" in told
        assert "result: 12" in told
        assert "[search_tools was called with" in told
        # And back: what it wrote in its words stays in them.
        thread = (await cloister.threads.get(turn.thread_id)).thread
        turn, _ = await talk(cloister.threads, "sure?", thread=thread, model="calls")
        assert turn.status is Status.COMPLETED, turn.error
        assert "result: 24" in json.dumps(server.heard[-1].body)


# -- models that take a program as it is -------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
async def test_program_goes_to_a_custom_tool_as_it_is_where_the_provider_has_one(tmp_path: Path, streams: bool) -> None:
    more: dict[str, Any] = {"stream": streams, "freeform_tools": True}
    async with ModelServer() as server, at(server, "responses", tmp_path / "a.db", **more) as cloister:
        for language in Language:
            # What JSON would have to put differently.
            code = "\n".join([CODE[language], r'''"\\ \"ä😀\""''', CODE[language].splitlines()[-1]])
            server.heard.clear()
            server.replies += [
                Reply(text="I will look.", reasoning="An order…", customs=[("exec", code)], pieces=7),
                Reply(calls=[("search_tools", '{"query": "order"}')]),
                Reply(text="It is 12."),
            ]
            turn, items = await talk(cloister.threads, "A7?", language=language)
            assert turn.status is Status.COMPLETED, turn.error
            assert (turn.usage.requests, turn.usage.tokens) == (3, 81)
            ran, found = work(items)
            assert isinstance(ran.detail, CellRun)
            assert (ran.detail.code, said_of(ran)) == (code, "[completed] result: 12")
            assert "get_order" in said_of(found)
            first, second, third = (one.body for one in server.heard)
            assert [(one["type"], one["name"]) for one in first["tools"]] == [
                ("custom", "exec"),
                ("function", "wait"),
                ("function", "search_tools"),
            ]
            assert "no JSON" in first["tools"][0]["description"]
            assert "parameters" not in first["tools"][0]
            for body in (second, third):
                call, result = (one for one in body["input"] if one.get("type", "").startswith("custom_tool_call"))
                assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "exec", code)
                assert (call["id"], call["call_id"]) == ("ctc_1_0", result["call_id"])
                assert (result["type"], result["output"]) == ("custom_tool_call_output", "[completed] result: 12")
            kinds = [one.get("type") for one in third["input"]]
            assert kinds[-2:] == ["function_call", "function_call_output"]


async def test_half_a_program_of_a_custom_tool_is_never_run(tmp_path: Path) -> None:
    whole = ("exec", "open('/ran', 'w').write('x')\n" * 3)
    more: dict[str, Any] = {"freeform_tools": True}
    async with ModelServer() as server, at(server, "responses", tmp_path / "a.db", **more) as cloister:
        thread = await cloister.threads.create()
        # One event for the response, one for the item, then its pieces.
        for reply, code in (
            (Reply(customs=[whole], pieces=6, cut_after=5), "model_failed"),
            (Reply(customs=[whole], pieces=6, end_after=5), "model_failed"),
            (Reply(customs=[whole], pieces=6, end_after=8), "model_failed"),
        ):
            server.replies.append(reply)
            turn, items = await talk(cloister.threads, "go", thread=thread)
            assert turn.error is not None
            assert (turn.status, turn.error.code, work(items)) == (Status.FAILED, code, [])
        # Cut off by the provider, which says so.
        server.replies += [Reply(customs=[whole], finish="max_output_tokens"), Reply(text="Less, then.")]
        turn, items = await talk(cloister.threads, "go", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error
        assert "cut off" in said_of(work(items)[0])
        session = cloister.session(thread.session_id)
        assert await session.files.list("/") == []


async def test_conversation_goes_from_custom_tools_to_functions_and_back(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path / 'a.db'}?synchronous=normal"
    async with (
        ModelServer() as server,
        ModelRegistry(
            [
                server.settings("responses", model="gpt-5", name="texts", freeform_tools=True),
                server.settings("responses", model="gpt-5", name="calls"),
            ],
            environment={"SOME_KEY": "key"},
        ) as models,
        Cloister(store=store, models=models, model="texts") as cloister,
    ):
        server.replies += [
            Reply(customs=[("exec", "x = 6")]),
            Reply(text="Six."),
            Reply(calls=[("exec", '{"code": "x * 7"}')]),
            Reply(text="42."),
            Reply(customs=[("exec", "x")]),
            Reply(text="6."),
        ]
        turn, _ = await talk(cloister.threads, "six?")
        for said, model in (("times seven?", "calls"), ("and now?", "texts")):
            thread = (await cloister.threads.get(turn.thread_id)).thread
            turn, items = await talk(cloister.threads, said, thread=thread, model=model)
            assert turn.status is Status.COMPLETED, turn.error
            assert "[completed] result" in said_of(work(items)[0])
        functions, texts = server.heard[2].body, server.heard[4].body
        told = next(one for one in functions["input"] if one.get("type") == "function_call")
        assert json.loads(told["arguments"]) == {"input": "x = 6"}
        # An id of one kind of call is not told as that of another.
        assert "id" not in told
        assert "custom" not in json.dumps(functions)
        kinds = [one["type"] for one in texts["input"] if "call" in one.get("type", "")]
        assert kinds == ["custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output"]
