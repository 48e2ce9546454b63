"""Threads over a real server, driven by a scripted model."""

import random
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cloister.client import AsyncClient, Client
from cloister.core.dynamic import DynamicToolCallResult, DynamicToolSpec
from cloister.core.envelope import Envelope
from cloister.core.errors import InvalidInput, OperationConflict, ThreadNotFound, ToolCallNotFound, TurnNotFound
from cloister.core.item import AgentMessage, CellRun, ContextCompaction
from cloister.core.language import Language
from cloister.core.thread import ThreadParams
from cloister.core.turn import Receipt, Status, SteerParams, TurnParams
from cloister.threads import Projection
from cloister.threads.models import ModelRegistry
from tests.client.conftest import QUICK
from tests.client.relay import relay
from tests.server.lab import ADMIN, OTHER, Running, get_order, refund, running

SCRIPT = """\
answers:
  - - when: refund
      text: Let me look.
      exec: await refund(order_id="A7", amount=(await get_order(order_id="A7"))["size"])
    - when: weather
      exec: await weather(city="Rome")
    - text: Hello, said the model, in a good many words.
      pieces: 9
  - text: It is done.
  - text: Again.
"""
WEATHER = DynamicToolSpec(
    "weather",
    description="How it is there.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    with _served(tmp_path_factory.mktemp("server")) as made:
        yield made


def _served(place: Path) -> Any:
    script = place / "script.yaml"
    script.write_text(SCRIPT)
    store = f"sqlite:///{place}/cloister.db?synchronous=normal"
    return running(store, tools=(get_order, refund), models=ModelRegistry(), model=f"scripted:{script}")


def test_turn_is_asked_for_followed_and_rebuilt_from_its_events(client: Client) -> None:
    thread = client.threads.create(ThreadParams(title="Hello", language=Language.TYPESCRIPT, labels={"team": "a"}))
    begun = client.threads.turn(thread.id, "hello")
    ended = client.end_of(thread.id, begun.turn.id)
    assert (ended.status, begun.again) == (Status.COMPLETED, False)
    assert client.threads.get_turn(thread.id, ended.id) == ended == client.end_of(thread.id, ended.id)
    detail = client.threads.get(thread.id)
    assert [type(item.detail) for item in detail.items][-1] is AgentMessage
    projection = Projection()
    with client.events(thread_id=thread.id) as events:
        while events.last_seq < detail.latest_seq:
            projection.take(next(events))
    assert projection.detail() == detail


def test_question_of_a_turn_is_answered_and_the_program_goes_on(client: Client) -> None:
    thread = client.threads.create()
    turn = client.threads.turn(thread.id, TurnParams("refund A7")).turn
    with client.events(thread_id=thread.id) as events:
        asked = next(event for event in events if event.event == "approval.required")
        [pending] = client.threads.get(thread.id).pending_approvals
        assert (pending.id, pending.capability) == (asked.payload["id"], "refund")
        assert client.approvals.decide(pending.id, "allow").outcome == "executed"
        assert next(event for event in events if event.event == "turn.completed").turn_id == turn.id
    [cell] = [item.detail for item in client.threads.get(thread.id).items if isinstance(item.detail, CellRun)]
    assert "paid 2 for A7" in str(cell.content)


def test_tool_of_the_client_is_called_and_answered_once(client: Client) -> None:
    thread = client.threads.create(ThreadParams(dynamic_tools=(WEATHER,)))
    turn = client.threads.turn(thread.id, TurnParams("the weather?")).turn
    with client.events(thread_id=thread.id) as events:
        next(event for event in events if event.event == "tool_call.requested")
        [call] = client.threads.get(thread.id).pending_tool_calls
        assert (call.tool, call.arguments) == ("weather", {"city": "Rome"})
        sunny = DynamicToolCallResult(True, ({"type": "input_text", "text": "sunny"},))
        client.threads.answer(thread.id, turn.id, call.call_id, sunny)
        with pytest.raises(ToolCallNotFound):
            client.threads.answer(thread.id, turn.id, call.call_id, sunny)
    assert client.end_of(thread.id, turn.id).status is Status.COMPLETED


def test_turn_with_a_key_is_begun_once_whatever_becomes_of_the_connection(client: Client, server: Running) -> None:
    thread = client.threads.create()
    with relay(server.url, lambda number: 40 if number < 3 else None) as way:
        with Client(way.url, ADMIN, retry=QUICK) as remote:
            begun = remote.threads.turn(thread.id, TurnParams("hello", operation_key="k-1"))
        assert way.connections == 3
    assert begun.again
    assert [one.id for one in client.threads.get(thread.id).turns] == [begun.turn.id]
    with pytest.raises(OperationConflict):
        client.threads.turn(thread.id, TurnParams("other", operation_key="k-1"))


def test_words_in_the_middle_get_a_receipt_and_an_interrupt_ends_the_turn(client: Client) -> None:
    thread = client.threads.create(ThreadParams(dynamic_tools=(WEATHER,)))
    turn = client.threads.turn(thread.id, "the weather?").turn
    for _ in range(2):
        receipt = client.threads.steer(thread.id, turn.id, SteerParams("in Rome", "mine-1"))
        assert (receipt.receipt, receipt.id) == (Receipt.QUEUED, "mine-1")
    assert client.threads.interrupt(thread.id, turn.id).status is Status.INTERRUPTED
    assert client.threads.steer(thread.id, turn.id, "too late").receipt is Receipt.DROPPED


def test_thread_is_found_changed_copied_and_summarised(client: Client, server: Running) -> None:
    thread = client.threads.create(ThreadParams(title="Found by this", labels={"of": "found"}))
    client.end_of(thread.id, client.threads.turn(thread.id, "hello").turn.id)
    assert [one.id for one in client.threads.list(search="found BY").items] == [thread.id]
    assert [one.id for one in client.threads.list(label="of=found", archived=False).items] == [thread.id]
    assert client.threads.update(thread.id, {"title": None, "archived": True}).archived
    assert client.threads.list(label="of=found", archived=False).items == ()
    first = client.threads.list(limit=1)
    assert first.next_after is not None
    assert client.threads.list(limit=1, after=first.next_after).items[0].id < first.items[0].id
    fork = client.threads.fork(thread.id)
    assert fork.forked_from is not None
    assert fork.forked_from.thread_id == thread.id
    items = client.threads.get(fork.id).items
    made = client.threads.compact(fork.id, summary="They said hello.", through_item_id=items[0].id)
    assert isinstance(made.detail, ContextCompaction)
    with pytest.raises(ThreadNotFound):
        client.threads.get("thr_none")
    with pytest.raises(TurnNotFound):
        client.threads.get_turn(thread.id, "trn_none")
    with pytest.raises(InvalidInput, match="tenant"):
        client.threads.update(thread.id, {"tenant": "x"})
    with Client(server.url, OTHER, retry=QUICK) as other, pytest.raises(ThreadNotFound):
        other.threads.get(thread.id)


@pytest.mark.anyio
async def test_turn_is_followed_through_cuts_and_a_restart_of_the_server(tmp_path: Path) -> None:
    chance, seen = random.Random(3), list[Envelope]()
    with relay("http://127.0.0.1:1", lambda _: chance.randint(800, 6000)) as way:
        async with AsyncClient(way.url, ADMIN, retry=QUICK) as remote:
            with _served(tmp_path) as server:
                way.aim(server.url)
                with Client(server.url, ADMIN) as client:
                    thread = client.threads.create()
                    turn = client.threads.turn(thread.id, "refund A7").turn
                events = remote.events(thread_id=thread.id)
                while not any(one.event == "approval.required" for one in seen):
                    seen.append(await anext(events))
            with _served(tmp_path) as server, Client(server.url, ADMIN) as client:
                way.aim(server.url)
                [pending] = client.threads.get(thread.id).pending_approvals
                deciding = threading.Thread(target=client.approvals.decide, args=(pending.id, "allow"))
                deciding.start()
                while seen[-1].event != "turn.completed":
                    seen.append(await anext(events))
                deciding.join()
                await events.aclose()
                durable = [one for one in seen if not one.is_ephemeral]
                with client.events(thread_id=thread.id) as log:
                    assert [next(log) for _ in durable] == durable
                assert client.threads.get_turn(thread.id, turn.id).status is Status.COMPLETED
    assert events.reconnects >= 1
