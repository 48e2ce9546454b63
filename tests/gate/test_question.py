"""Waiting for an answer: woken by whatever ends a question, and by nothing else."""

import asyncio

import pytest

from cloister.gate.question import Question, change
from tests.gate.asking import HandClock, a_desk, ask, settle

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("word", ["allow", "deny"])
async def test_who_waits_is_woken_when_one_of_them_is_decided(word: str) -> None:
    desk = a_desk()
    first, second, other = ask(desk), ask(desk), ask(desk)
    waiting = asyncio.create_task(desk.decided([first.id, second.id]))
    await settle()
    desk.decide(other.id, word)
    await settle()
    assert not waiting.done()
    desk.decide(second.id, word)
    await asyncio.wait_for(waiting, 10)


async def test_who_waits_is_woken_by_a_cancellation_and_by_the_end_of_the_session() -> None:
    desk = a_desk()
    first, second = ask(desk, session_id="a"), ask(desk, session_id="b")
    waiting = [asyncio.create_task(desk.decided([approval.id])) for approval in (first, second)]
    await settle()
    desk.cancel([first.id])
    desk.forget_session("b")
    await asyncio.wait_for(asyncio.gather(*waiting), 10)


async def test_who_waits_is_woken_by_the_first_expiry() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=1000)
    first = ask(desk)
    clock.advance(300)
    second = ask(desk)
    waiting = asyncio.create_task(desk.decided([second.id, first.id]))
    await settle()
    assert clock.alarms == [1000]
    clock.advance(699)
    await settle()
    assert not waiting.done()
    clock.advance(1)
    await asyncio.wait_for(waiting, 10)
    assert [desk.get(approval.id).state for approval in (first, second)] == ["expired", "pending"]


async def test_who_waits_goes_on_waiting_when_the_clock_was_set_back() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=1000)
    approval = ask(desk)
    waiting = asyncio.create_task(desk.decided([approval.id]))
    await settle()
    clock.advance(1000)
    # Woken, but it looks only after this.
    clock.advance(-400)
    await settle()
    assert not waiting.done()
    assert clock.alarms == [1000]
    clock.advance(400)
    await asyncio.wait_for(waiting, 10)


async def test_no_alarm_is_left_behind() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=1000)
    first, second = ask(desk), ask(desk)
    tasks = asyncio.all_tasks()
    decided = asyncio.create_task(desk.decided([first.id]))
    given_up = asyncio.create_task(desk.decided([second.id]))
    await settle()
    assert len(clock.alarms) == 2
    desk.decide(first.id, "allow")
    given_up.cancel()
    await asyncio.wait([decided, given_up])
    assert given_up.cancelled()
    assert clock.alarms == []
    assert asyncio.all_tasks() == tasks


async def test_who_gives_up_leaves_nothing_at_the_question() -> None:
    question = Question(1, ask(a_desk()), "terms", "arguments", 10, None)
    waiting = asyncio.create_task(change([question], HandClock()))
    await settle()
    assert len(question.waiting) == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert question.waiting == set()


async def test_who_waits_is_woken_by_two_things_at_once() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=1000)
    approval = ask(desk)
    waiting = asyncio.create_task(desk.decided([approval.id]))
    await settle()
    # Its alarm rings, and before anybody hears it somebody else has seen the expiry.
    clock.advance(1000)
    assert desk.get(approval.id).state == "expired"
    await asyncio.wait_for(waiting, 10)


async def test_nobody_waits_for_what_is_decided_unknown_or_nothing() -> None:
    desk = a_desk()
    pending, decided = ask(desk), ask(desk)
    desk.decide(decided.id, "deny")
    for ids in ([pending.id, decided.id], [pending.id, "apr_0"], []):
        await asyncio.wait_for(desk.decided(ids), 10)
