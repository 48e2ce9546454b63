"""Hosts that go in the middle of a turn: what was answered is not asked again, and what was done is not done again."""

import asyncio
from pathlib import Path

import pytest

from cloister import tool
from cloister.app.kept import answer
from cloister.core.answer import Answer, FinishReason
from cloister.core.item import AgentMessage, CellRun
from cloister.core.message import AssistantMessage, FreeformCall, OutputText, Reasoning
from cloister.core.turn import Status, TurnUsage
from cloister.ports.clock import SystemClock
from cloister.ports.model import Asked
from cloister.stores.sqlite import SqliteStore
from cloister.threads import OpenTurn
from cloister.threads.drivers.hearing import request_digest
from cloister.threads.drivers.journal import Transport, said_of, to_doc
from cloister.threads.open_turn import SettledAnswer
from tests.threads.drivers.lab import begin, ended, first, host, scripted, talk, work
from tests.threads.drivers.lab import said_of as told_of
from tests.threads.lab import follow

pytestmark = pytest.mark.anyio

SCRIPT = """
answers:
  - reasoning: Hm.
    exec: "await note('one')\\nawait wait_here()\\nawait note('two')\\n'done'"
  - expect: done
    text: Done.
"""


async def test_cell_goes_on_where_it_was_and_its_answer_is_not_asked_for_again(tmp_path: Path) -> None:
    noted: list[str] = []
    go, here = asyncio.Event(), asyncio.Event()

    @tool(idempotent=False)
    async def note(text: str) -> None:
        noted.append(text)

    @tool
    async def wait_here() -> None:
        here.set()
        await go.wait()

    path, models = tmp_path / "a.db", [scripted(SCRIPT), scripted(SCRIPT)]
    async with host(path, models[0], tools=[note, wait_here]) as cloister:
        turn = await begin(cloister.threads)
        async with asyncio.timeout(30):
            await here.wait()
    go.set()
    async with host(path, models[1], tools=[note, wait_here]) as cloister:
        turn, items = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        assert (noted, len(models[0].asked), len(models[1].asked)) == (["one", "two"], 1, 1)
        assert turn.usage.requests == 2
        assert told_of(work(items)[0]).endswith("result: 'done'") or '"done"' in told_of(work(items)[0])
        # The same request as if nothing had happened: reasoning, calls and ids are those of the first answer.
        assert models[1].asked[0].messages[1] == AssistantMessage(
            (
                Reasoning("Hm."),
                FreeformCall("call_1_2", "exec", "await note('one')\nawait wait_here()\nawait note('two')\n'done'"),
            ),
            provider="scripted",
        )
        events = [one.event async for one in cloister.threads.replay(thread_id=turn.thread_id)]
        assert events.count("turn.completed") == 1


async def test_turn_that_waits_for_a_person_goes_on_in_another_host_after_the_answer(tmp_path: Path) -> None:
    paid: list[str] = []

    @tool(approval_policy="manual", idempotent=False)
    async def pay(order_id: str) -> str:
        paid.append(order_id)
        return "paid"

    script = "answers: [{exec: \"await pay(order_id='A7')\"}, {expect: paid, text: Done.}]"
    path, models = tmp_path / "a.db", [scripted(script), scripted(script)]
    async with host(path, models[0], tools=[pay]) as cloister:
        turn = await begin(cloister.threads)
        asked = await first(cloister.threads, turn.thread_id, "approval.required")
        session = cloister.session((await cloister.threads.get(turn.thread_id)).thread.session_id)
        # Nobody is kept busy meanwhile.
        assert (await session.cells())[0].approvals == (asked.payload["id"],)
    async with host(path, models[1], tools=[pay]) as cloister:
        assert (await cloister.threads.get_turn(turn.thread_id, turn.id)).status is Status.IN_PROGRESS
        await cloister.decide(asked.payload["id"], "allow")
        turn, _ = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        assert (paid, len(models[0].asked) + len(models[1].asked)) == (["A7"], 2)


async def test_answer_that_is_given_while_no_host_is_there_is_told_in_the_thread(tmp_path: Path) -> None:
    @tool(approval_policy="manual")
    async def pay() -> str:
        return "paid"

    script = "answers: [{exec: await pay()}, {expect: paid, text: Done.}]"
    path = tmp_path / "a.db"
    async with host(path, scripted(script), tools=[pay]) as cloister:
        turn = await begin(cloister.threads)
        asked = await first(cloister.threads, turn.thread_id, "approval.required")
    async with SqliteStore(path, clock=SystemClock()) as store:
        await answer(store, asked.payload["id"], "allow")
    async with host(path, scripted(script), tools=[pay]) as cloister:
        # What a client makes of the events is what there is: no question is open.
        turn, _ = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        events = [one.event async for one in cloister.threads.replay(thread_id=turn.thread_id)]
        assert [events.count(f"approval.{word}") for word in ("required", "decided")] == [1, 1]


async def test_half_an_answer_is_forgotten_and_asked_for_anew(tmp_path: Path) -> None:
    script = "answers: [{text: Half of it, pieces: 2, piece_delay_ms: %d}]"
    path = tmp_path / "a.db"
    async with host(path, scripted(script % 60_000)) as cloister:
        turn = await begin(cloister.threads)
        await follow(cloister.threads, turn.thread_id, lambda one: one.event == "item.delta")
    async with host(path, scripted(script % 0)) as cloister:
        turn, items = await ended(cloister.threads, turn)
        assert (turn.status, turn.usage.requests) == (Status.COMPLETED, 1)
        said = [(one.status, one.detail.text) for one in items if isinstance(one.detail, AgentMessage)]
        assert said == [(Status.INTERRUPTED, ""), (Status.COMPLETED, "Half of it")]


async def test_end_that_was_read_before_the_host_went_is_told_from_what_was_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    @tool(idempotent=False)
    async def count() -> int:
        ran.append(1)
        return len(ran)

    script = "answers: [{exec: \"print('seen')\\nawait count()\"}, {expect: 'result: 1', text: Done.}]"
    path = tmp_path / "a.db"
    gone = asyncio.Event()
    real = OpenTurn.end

    async def never(turn: OpenTurn, item: object, *more: object, **named: object) -> object:
        # The host goes right after the end of the cell was read.
        gone.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(OpenTurn, "end", never)
    async with host(path, scripted(script), tools=[count]) as cloister:
        turn = await begin(cloister.threads)
        async with asyncio.timeout(30):
            await gone.wait()
    monkeypatch.setattr(OpenTurn, "end", real)
    async with host(path, scripted(script), tools=[count]) as cloister:
        turn, items = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        assert ran == [1]
        [cell] = work(items)
        assert isinstance(cell.detail, CellRun)
        assert told_of(cell) == "seen\n\n[completed] result: 1"


async def test_fork_is_told_what_models_answered_word_for_word(tmp_path: Path) -> None:
    model = scripted("answers: [{reasoning: Hm., exec: '1'}, {text: One.}, {text: Two.}]")
    async with host(tmp_path / "a.db", model) as cloister:
        turn, _ = await talk(cloister.threads, "one")
        fork = await cloister.threads.fork(turn.thread_id)
        turn, _ = await talk(cloister.threads, "two", thread=fork)
        assert turn.status is Status.COMPLETED, turn.error
        assert model.asked[-1].messages[: len(model.asked[1].messages)] == model.asked[1].messages


def test_answer_comes_back_from_the_journal_with_what_only_its_provider_reads() -> None:
    message = AssistantMessage((Reasoning("", "sig", {"id": "r"}), OutputText("x", {"id": "t"})), "anthropic", {"k": 1})
    answer = Answer(message, FinishReason.STOP)
    said = said_of(SettledAnswer(1, "d", to_doc(answer, Transport.FREEFORM, ["itm_1"]), TurnUsage()))
    assert said is not None
    assert (said.answer, said.transport, said.items) == (answer, Transport.FREEFORM, ("itm_1",))
    assert said_of(SettledAnswer(1, "d", {"text": "of another driver"}, TurnUsage())) is None


def test_same_question_has_the_same_digest() -> None:
    model = scripted("answers: [{text: x}]")
    asked = Asked((AssistantMessage((OutputText("a"),)),), "i")
    assert request_digest(model, asked) == request_digest(model, asked)
    assert request_digest(model, asked) != request_digest(model, Asked(asked.messages, "j"))
