"""A lane: jobs in order, in a thread of its own, and every answer to the one who waits."""

import asyncio
import threading

import pytest

from cloister.engines.monty.lane import Lane

pytestmark = pytest.mark.anyio


async def test_jobs_run_in_order_in_one_thread_that_is_not_the_loop_s() -> None:
    lane = Lane("test-lane")
    ran: list[int] = []

    def job(n: int) -> int:
        ran.append(n)
        return threading.get_ident()

    threads = {await handover for handover in [lane.do(lambda n=n: job(n)) for n in range(20)]}
    lane.close()
    assert ran == list(range(20))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_job_s_exception_is_raised_where_it_is_awaited_and_the_lane_goes_on() -> None:
    lane = Lane("test-lane")

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lane.do(fails)
    assert await lane.do(lambda: 1) == 1
    lane.close()


async def test_loop_goes_on_while_a_job_takes_its_time() -> None:
    lane = Lane("test-lane")
    loop_ran = threading.Event()
    asyncio.get_running_loop().call_soon(loop_ran.set)
    # The job waits for something that only the loop can do.
    assert await lane.do(lambda: loop_ran.wait(20)) is True
    lane.close()


async def test_job_that_is_done_before_it_is_awaited_is_not_lost() -> None:
    lane = Lane("test-lane")
    first, second = lane.do(lambda: 1), lane.do(lambda: 2)
    assert await second == 2
    assert first.done()
    assert await first == 1
    lane.close()


async def test_one_who_stops_waiting_is_cancelled_and_the_job_goes_on() -> None:
    lane = Lane("test-lane")
    begun, release = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        release.wait(20)

    async def wait() -> None:
        await lane.do(job)

    task = asyncio.create_task(wait())
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    later = lane.do(lambda: "next")
    assert not later.done()
    release.set()
    assert await later == "next"
    lane.close()


async def test_timeout_around_a_job_fires() -> None:
    lane = Lane("test-lane")
    release = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await lane.do(lambda: release.wait(20))
    release.set()
    assert await lane.do(lambda: 1) == 1
    lane.close()


async def test_cancelling_what_is_over_changes_nothing() -> None:
    lane = Lane("test-lane")
    handover = lane.do(lambda: 5)
    assert await handover == 5
    assert handover.cancel() is False
    assert not handover.cancelled()
    assert handover.result() == 5
    lane.close()


async def test_thousand_short_jobs_all_arrive() -> None:
    lanes = [Lane(f"test-lane-{n}") for n in range(3)]

    async def many(lane: Lane) -> int:
        return sum([await lane.do(lambda n=n: n) for n in range(1000)])

    assert await asyncio.gather(*(many(lane) for lane in lanes)) == [499_500] * 3
    for lane in lanes:
        lane.close()


async def test_closed_lane_finishes_its_queue_and_ends_its_thread() -> None:
    lane = Lane("test-lane-that-ends")
    last = lane.do(lambda: "last")
    lane.close()
    assert await last == "last"
    lane.join()
    assert "test-lane-that-ends" not in {thread.name for thread in threading.enumerate()}


def test_loop_that_is_gone_does_not_break_the_lane() -> None:
    lane = Lane("test-lane")
    begun, release = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        release.wait(20)

    async def leave() -> None:
        task = asyncio.ensure_future(asyncio.wait_for(_await(lane, job), 0.01))
        with pytest.raises(TimeoutError):
            await task

    async def again() -> int:
        return await lane.do(lambda: 7)

    asyncio.run(leave())
    release.set()
    assert asyncio.run(again()) == 7
    lane.close()


async def _await(lane: Lane, job: "object") -> None:
    await lane.do(job)  # pyright: ignore[reportArgumentType]
