"""The threads that plain functions run in."""

import asyncio
import inspect
import subprocess
import sys
import threading
import weakref

import pytest

from cloister.gate import threads
from cloister.gate.threads import Ended, Threads

pytestmark = pytest.mark.anyio


async def test_thread_is_used_again_by_the_next_function() -> None:
    pool = Threads()
    first = await pool.run(threading.get_ident)
    second = await pool.run(threading.get_ident)
    assert first == second
    assert first.value != threading.get_ident()


async def test_functions_at_the_same_time_have_a_thread_each() -> None:
    pool = Threads()
    # Nobody passes before all are there.
    together = threading.Barrier(20)
    await asyncio.gather(*(pool.run(lambda: together.wait(60)) for _ in range(20)))


async def test_exception_is_a_value_and_its_thread_goes_on() -> None:
    pool = Threads()
    stop = SystemExit(3)

    def leave() -> None:
        raise stop

    assert await pool.run(leave) == Ended(error=stop)
    assert await pool.run(lambda: 7) == Ended(7)


async def test_thread_that_nobody_needs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE", 0.0)
    pool = Threads()
    ended = await pool.run(threading.current_thread)
    assert isinstance(ended.value, threading.Thread)
    await asyncio.to_thread(ended.value.join, 60)
    assert not ended.value.is_alive()
    # And none is there to be found by the next.
    assert (await pool.run(lambda: 7)).value == 7


async def test_thread_that_is_taken_in_its_last_moment_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE", 0.0)
    pool = Threads()
    for n in range(500):
        assert (await pool.run(lambda n=n: n)).value == n


async def test_nothing_of_what_was_done_is_kept_while_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Big:
        pass

    monkeypatch.setattr(threads, "_IDLE", 3600.0)
    loop, pool = asyncio.get_running_loop(), Threads()
    for _ in range(2):
        gone = asyncio.Event()

        def make(gone: asyncio.Event = gone) -> Big:
            big = Big()
            weakref.finalize(big, loop.call_soon_threadsafe, gone.set)
            return big

        await pool.run(make)
        async with asyncio.timeout(10):
            await gone.wait()


async def test_coroutine_that_nobody_waits_for_any_more_is_closed() -> None:
    async def inner() -> None:
        raise AssertionError("it was begun")

    pool, made = Threads(), inner()
    let_go = threading.Event()

    def late() -> object:
        let_go.wait(60)
        return made

    pool.run(late).cancel()
    let_go.set()
    while inspect.getcoroutinestate(made) != inspect.CORO_CLOSED:
        await pool.run(lambda: None)


def outside(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


def test_function_that_never_returns_does_not_keep_the_process() -> None:
    program = """
import asyncio, threading
from cloister.gate.threads import THREADS

async def main():
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    def stuck():
        loop.call_soon_threadsafe(began.set)
        threading.Event().wait()
    THREADS.run(stuck)
    await began.wait()

asyncio.run(main())
print("over")
"""
    done = outside(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_forked_child_does_not_count_on_the_threads_of_its_parent() -> None:
    program = """
import asyncio, os, warnings
from cloister.gate.threads import THREADS

warnings.simplefilter("ignore", DeprecationWarning)

async def main():
    return (await asyncio.wait_for(THREADS.run(os.getpid), 20)).value

assert asyncio.run(main()) == os.getpid()
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(main()) == os.getpid() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = outside(program)
    assert (done.stdout, done.stderr) == ("0\n", "")
