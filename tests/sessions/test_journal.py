"""The journal, through sessions: a call has one key, happens once, and is not repeated where it may not be."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cloister import (
    CallContext,
    CallStatus,
    CapabilityLimits,
    Event,
    Hook,
    HookedCall,
    RunResult,
    RunStatus,
    Session,
    SessionLimits,
    Tool,
)
from tests.sessions.door import value
from tests.sessions.ways import LANGUAGES, HeldClock, House, caught, written

pytestmark = pytest.mark.anyio

both_languages = pytest.mark.parametrize("language", LANGUAGES)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


class Bank:
    """`pay(n)` and its like wait until they are let through; every call is in the book under its key."""

    def __init__(self, *, idempotent: bool = False, open_: bool = False) -> None:
        # Which call, under which key.
        self.book: list[tuple[int, str]] = []
        self._came = asyncio.Condition()
        self._open = asyncio.Event()
        if open_:
            self._open.set()
        limits = CapabilityLimits(timeout_ms=60_000)
        self.tool = Tool(self._pay, name="pay", side_effect="write", idempotent=idempotent, limits=limits)

    async def _pay(self, n: int, ctx: CallContext) -> str:
        async with self._came:
            self.book.append((n, ctx.idempotency_key))
            self._came.notify_all()
        # An odd one is through at once.
        if n % 2 == 0:
            await self._open.wait()
        return f"paid {n}"

    @property
    def paid(self) -> list[int]:
        return [n for n, _ in self.book]

    @property
    def keys(self) -> list[str]:
        return [key for _, key in self.book]

    def open(self) -> None:
        self._open.set()

    async def until(self, payments: int) -> None:
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: len(self.book) >= payments), 30)


async def _asleep(house: House, language: str, bank: Bank, code: str, *, waiting: int = 1) -> tuple[Session, bytes]:
    """A session whose cell was cut off while it waited, and its snapshot from just before that."""
    session = await house.open(language, bank.tool)
    run = asyncio.create_task(session.run(code))
    await bank.until(waiting)
    blob = await session.snapshot()
    run.cancel()
    await asyncio.wait([run])
    await session.close()
    return session, blob


async def _finished(house: House, language: str, bank: Bank, code: str) -> tuple[RunResult, bytes]:
    """The same for a cell that went on to its end."""
    session = await house.open(language, bank.tool)
    run = asyncio.create_task(session.run(code))
    await bank.until(1)
    blob = await session.snapshot()
    bank.open()
    result = await run
    await session.close()
    return result, blob


def _statuses(result: RunResult) -> list[CallStatus]:
    return [record.status for record in result.external_calls]


# -- keys -----------------------------------------------------------------------------------------------------------

GATHER = {
    "python": "import asyncio\nawait asyncio.gather({calls})",
    "typescript": "await Promise.all([{calls}])",
}


def _gather(language: str, *numbers: int) -> str:
    calls = ", ".join(written(language, "pay", str(n)).removeprefix("await ") for n in numbers)
    return GATHER[language].format(calls=calls)


@both_languages
async def test_key_of_a_call_is_its_cell_and_its_number_there(house: House, language: str) -> None:
    bank = Bank(open_=True)
    async with await house.open(language, bank.tool) as session:
        first = await session.run(f"{written(language, 'pay', '1')};\n{_gather(language, 2, 3)}")
        second = await session.run(written(language, "pay", "4"))
        assert bank.book == [
            (1, f"{first.cell_id}/1"),
            (2, f"{first.cell_id}/2"),
            (3, f"{first.cell_id}/3"),
            (4, f"{second.cell_id}/1"),
        ]


async def test_host_s_own_call_is_a_cell_of_one_call(house: House) -> None:
    bank = Bank(open_=True)
    async with await house.open("host", bank.tool) as session:
        results = [await session.call("pay", [n]) for n in (1, 2)]
        assert bank.keys == [f"{result.cell_id}/1" for result in results]
        assert len(set(bank.keys)) == 2


# -- made again, under its key ----------------------------------------------------------------------------------------


@both_languages
async def test_idempotent_call_is_made_again_under_the_same_key_where_the_session_wakes(
    house: House, language: str
) -> None:
    bank = Bank(idempotent=True)
    session, blob = await _asleep(house, language, bank, written(language, "pay", "2"))
    bank.open()
    async with await house.cloister.restore_session(blob, tools=[bank.tool]) as again:
        assert again.id == session.id
        assert value(await again.resume()) == "paid 2"
    assert bank.paid == [2, 2]
    assert len(set(bank.keys)) == 1


@both_languages
async def test_idempotent_call_keeps_its_key_in_another_cloister(house: House, language: str) -> None:
    bank = Bank(idempotent=True)
    _, blob = await _asleep(house, language, bank, written(language, "pay", "2"))
    bank.open()
    async with House() as elsewhere:
        again = await elsewhere.cloister.restore_session(blob, tools=[bank.tool])
        assert value(await again.resume()) == "paid 2"
    assert len(set(bank.keys)) == 1


@both_languages
async def test_copy_under_another_name_never_shares_keys(house: House, language: str) -> None:
    bank = Bank(idempotent=True)
    session, blob = await _asleep(house, language, bank, written(language, "pay", "2"))
    bank.open()
    copies = [
        await house.cloister.restore_session(blob, session_id=f"{session.id}-{name}", tools=[bank.tool])
        for name in ("a", "b")
    ]
    for copy in copies:
        result = await copy.resume()
        assert value(result) == "paid 2"
        assert bank.keys[-1] == f"{result.cell_id}/1"
        await copy.close()
    assert len(set(bank.keys)) == 3


# -- settled while it slept -------------------------------------------------------------------------------------------


@both_languages
@pytest.mark.parametrize("idempotent", [True, False])
async def test_call_that_settled_while_its_snapshot_slept_is_replayed_and_not_repeated(
    house: House, language: str, idempotent: bool
) -> None:
    bank = Bank(idempotent=idempotent)
    before, blob = await _finished(house, language, bank, written(language, "pay", "2"))
    async with await house.cloister.restore_session(blob, tools=[bank.tool]) as again:
        after = await again.resume()
    assert (value(before), value(after)) == ("paid 2", "paid 2")
    assert bank.paid == [2]
    (first,), (second,) = before.external_calls, after.external_calls
    assert (second.id, second.status, second.request_digest, second.response_digest) == (
        first.id,
        first.status,
        first.request_digest,
        first.response_digest,
    )


@both_languages
async def test_session_that_goes_back_to_its_own_snapshot_repeats_nothing_either(house: House, language: str) -> None:
    bank = Bank()
    async with await house.open(language, bank.tool) as session:
        run = asyncio.create_task(session.run(written(language, "pay", "2")))
        await bank.until(1)
        blob = await session.snapshot()
        bank.open()
        await run
        for _ in range(2):
            await session.restore(blob)
            assert value(await session.resume()) == "paid 2"
    assert bank.paid == [2]


@both_languages
async def test_copy_does_not_know_how_the_original_s_call_ended(house: House, language: str) -> None:
    bank = Bank()
    before, blob = await _finished(house, language, bank, written(language, "pay", "2"))
    async with await house.cloister.restore_session(blob, session_id="another", tools=[bank.tool]) as copy:
        result = await copy.resume()
        assert result.error is not None
        assert result.error.code == "OUTCOME_UNKNOWN"
    assert before.ok
    assert bank.paid == [2]


@both_languages
async def test_failure_that_settled_while_the_snapshot_slept_is_replayed_too(house: House, language: str) -> None:
    called, go = asyncio.Semaphore(0), asyncio.Event()
    calls: list[str] = []

    async def fail(ctx: CallContext) -> None:
        calls.append(ctx.call_id)
        called.release()
        await go.wait()
        raise ValueError("no")

    made = Tool(fail, idempotent=False)
    async with await house.open(language, made) as session:
        run = asyncio.create_task(session.run(caught(language, "fail")))
        await called.acquire()
        blob = await session.snapshot()
        go.set()
        before = value(await run)
    async with await house.cloister.restore_session(blob, tools=[made]) as again:
        assert value(await again.resume()) == before
    assert str(before).startswith("TOOL_ERROR: `fail` failed")
    assert len(calls) == 1


TWO = {
    "python": "a = await pay(2)\nb = await pay(3)\nc = await pay(5)\n[a, b, c]",
    "typescript": "const a = await tools.pay(2), b = await tools.pay(3), c = await tools.pay(5); [a, b, c]",
}


@both_languages
@pytest.mark.parametrize("idempotent", [True, False])
async def test_calls_that_were_made_after_the_snapshot_are_replayed_as_well(
    house: House, language: str, idempotent: bool
) -> None:
    bank = Bank(idempotent=idempotent)
    before, blob = await _finished(house, language, bank, TWO[language])
    async with await house.cloister.restore_session(blob, tools=[bank.tool]) as again:
        after = await again.resume()
    assert value(before) == ["paid 2", "paid 3", "paid 5"]
    assert value(after) == value(before)
    assert bank.paid == [2, 3, 5]
    assert [record.id for record in after.external_calls] == [record.id for record in before.external_calls]


# -- cut off ----------------------------------------------------------------------------------------------------------


@both_languages
async def test_call_that_was_cut_off_and_must_not_be_repeated_has_an_unknown_outcome(
    house: House, language: str
) -> None:
    bank = Bank()
    _, blob = await _asleep(house, language, bank, written(language, "pay", "2"))
    bank.open()
    async with await house.cloister.restore_session(blob, tools=[bank.tool]) as again:
        result = await again.resume()
        assert result.error is not None
        assert (result.status, result.error.code) == (RunStatus.RUNTIME_ERROR, "OUTCOME_UNKNOWN")
        assert "find out" in str(result.error.hint)
        assert _statuses(result) == [CallStatus.UNKNOWN]
    assert bank.paid == [2]


@both_languages
async def test_unknown_outcome_can_be_caught_and_the_cell_goes_on_with_other_calls(house: House, language: str) -> None:
    code = {
        "python": "try:\n    r = await pay(2)\nexcept RuntimeError as e:\n    r = [str(e)[:15], await pay(3)]\nr",
        "typescript": "let r; try { r = await tools.pay(2) } catch (e) { r = [e.code, await tools.pay(3)] } r",
    }
    bank = Bank()
    _, blob = await _asleep(house, language, bank, code[language])
    async with await house.cloister.restore_session(blob, tools=[bank.tool]) as again:
        result = await again.resume()
        assert value(result) == ["OUTCOME_UNKNOWN", "paid 3"]
        assert _statuses(result) == [CallStatus.UNKNOWN, CallStatus.OK]
        assert bank.book[1] == (3, f"{result.cell_id}/2")
    assert bank.paid == [2, 3]


@both_languages
async def test_call_made_after_the_snapshot_and_cut_off_has_an_unknown_outcome_too(house: House, language: str) -> None:
    code = {
        "python": "await pay(1)\ntry:\n    s = await pay(2)\nexcept RuntimeError as e:\n    s = str(e)[:15]\ns",
        "typescript": "let s; await tools.pay(1); try { s = await tools.pay(2) } catch (e) { s = e.code } s",
    }
    bank, blobs = Bank(), list[bytes]()

    class Photographer(Hook):
        """Takes the snapshot while the first call is under way."""

        async def before_call(self, call: HookedCall) -> None:
            if not blobs:
                blobs.append(await house.cloister.session(call.session_id).snapshot())

    async with await house.open(language, bank.tool, hooks=[Photographer()]) as session:
        run = asyncio.create_task(session.run(code[language]))
        await bank.until(2)
        run.cancel()
        await asyncio.wait([run])
    bank.open()
    async with await house.cloister.restore_session(blobs[0], tools=[bank.tool]) as again:
        assert value(await again.resume()) == "OUTCOME_UNKNOWN"
    assert bank.paid == [1, 2]


# -- some of several --------------------------------------------------------------------------------------------------


@both_languages
async def test_gathered_calls_are_each_taken_up_as_they_ended(house: House, language: str) -> None:
    code = {
        "python": (
            "import asyncio\nasync def one(n):\n    try:\n        return await pay(n)\n    except RuntimeError as e:\n"
            "        return str(e)[:15]\nawait asyncio.gather(one(1), one(2), one(3), one(4))"
        ),
        "typescript": (
            "const one = async (n: number) => { try { return await tools.pay(n) } catch (e) { return e.code } };\n"
            "await Promise.all([1, 2, 3, 4].map(one))"
        ),
    }
    bank = Bank()
    _, blob = await _asleep(house, language, bank, code[language], waiting=4)
    bank.open()
    async with await house.cloister.restore_session(blob, tools=[bank.tool]) as again:
        result = await again.resume()
    # The odd ones were through before the cell was cut off, whether or not the snapshot knows it.
    assert value(result) == ["paid 1", "OUTCOME_UNKNOWN", "paid 3", "OUTCOME_UNKNOWN"]
    assert _statuses(result) == [CallStatus.OK, CallStatus.UNKNOWN, CallStatus.OK, CallStatus.UNKNOWN]
    assert sorted(bank.paid) == [1, 2, 3, 4]


@both_languages
async def test_of_gathered_idempotent_calls_only_those_that_were_cut_off_are_made_again(
    house: House, language: str
) -> None:
    bank = Bank(idempotent=True)
    _, blob = await _asleep(house, language, bank, _gather(language, 1, 2, 3, 4), waiting=4)
    bank.open()
    async with await house.cloister.restore_session(blob, tools=[bank.tool]) as again:
        assert value(await again.resume()) == ["paid 1", "paid 2", "paid 3", "paid 4"]
    assert sorted(bank.paid) == [1, 2, 2, 3, 4, 4]
    assert len(set(bank.keys)) == 4


# -- what may not cross ---------------------------------------------------------------------------------------------

UNFIT = {
    "python": """
import asyncio
async def one(n):
    try:
        return await pay(n)
    except RuntimeError as e:
        return str(e)[:17]
await asyncio.gather(one(1), one(lambda: 1))
""",
    "typescript": """
const one = async (n: any) => { try { return await tools.pay(n) } catch (e) { return e.code } };
await Promise.all([one(1), one(() => 1)])
""",
}


@both_languages
async def test_call_whose_arguments_may_not_cross_is_refused_after_a_sleep_too(language: str) -> None:
    taken: list[asyncio.Task[bytes]] = []

    def photograph(event: Event) -> None:
        # Before anything has become of either call.
        if not taken and event.kind.startswith("cell."):
            taken.append(asyncio.create_task(house.cloister.session(event.session_id).snapshot()))

    async def pay(n: int = 7) -> int:
        return n

    house = House(on_event=photograph, tools=[Tool(pay)])
    async with house:
        async with await house.open(language) as session:
            assert value(await session.run(UNFIT[language])) == [1, "INVALID_ARGUMENTS"]
            blob = await taken[0]
        async with await house.cloister.restore_session(blob, session_id="copy") as copy:
            assert value(await copy.resume()) == [1, "INVALID_ARGUMENTS"]


LATER = """
import time
x = answer({argument})
time.sleep(10)
try:
    r = await x
except RuntimeError as e:
    r = str(e)[:17]
r
"""


async def _answered_later(tool: Tool, argument: str) -> list[object]:
    """What becomes of a call that a program makes, and awaits only after a sleep: here, and in a copy of its sleep."""
    clock = HeldClock()
    async with House(clock=clock, tools=[tool], limits=SessionLimits(wall_ms=120_000)) as house:
        session = await house.open("python")
        run = asyncio.create_task(session.run(LATER.format(argument=argument)))
        await clock.until_asleep()
        copy = await house.cloister.restore_session(await session.snapshot(), session_id="copy")
        resume = asyncio.create_task(copy.resume())
        await clock.until_asleep(2)
        await clock.move(10)
        return [value(await run), value(await resume)]


async def test_call_that_is_awaited_only_after_a_sleep_is_measured_as_before() -> None:
    async def answer(text: str) -> int:
        return len(text)

    small = Tool(answer, limits=CapabilityLimits(max_request_bytes=100))
    assert await _answered_later(small, "'x' * 50") == [50, 50]
    assert await _answered_later(small, "'x' * 500") == ["INVALID_ARGUMENTS", "INVALID_ARGUMENTS"]


async def test_call_that_is_awaited_only_after_a_sleep_is_refused_as_before() -> None:
    async def answer(n: int = 7) -> int:
        return n

    assert await _answered_later(Tool(answer), "lambda: 1") == ["INVALID_ARGUMENTS", "INVALID_ARGUMENTS"]
