"""An alarm rings once, when it is due, whatever the timer is that it had before."""

import asyncio

import pytest

from cloister.cells.alarm import Alarm


@pytest.mark.anyio
async def test_an_alarm_rings_when_the_last_one_that_was_set_is_due() -> None:
    loop, alarm, rung = asyncio.get_running_loop(), Alarm(), list[str]()

    async def until_it_rings(seconds: float, name: str) -> float:
        over, began = asyncio.Event(), loop.time()
        alarm.set(seconds, lambda: (rung.append(name), over.set()))
        await over.wait()
        return loop.time() - began

    alarm.set(0.002, lambda: rung.append("put off"))
    alarm.put_off()
    # The timer that is there comes too early for this one,
    assert await until_it_rings(0.03, "later") >= 0.03
    alarm.set(3600, lambda: rung.append("put off"))
    alarm.put_off()
    # and here too late.
    await asyncio.wait_for(until_it_rings(0.001, "sooner"), 60)
    assert rung == ["later", "sooner"]


@pytest.mark.anyio
async def test_an_alarm_that_is_put_off_or_closed_does_not_ring() -> None:
    loop, rung = asyncio.get_running_loop(), list[str]()
    for end in (Alarm.put_off, Alarm.close):
        alarm, over = Alarm(), asyncio.Event()
        alarm.set(0.001, lambda: rung.append("rung"))
        end(alarm)
        # What is due later comes later.
        loop.call_later(0.002, over.set)
        await over.wait()
    assert rung == []
