"""Everything that can be declared is enforced: for each field of each declaration, what happens because of that field.

Every scenario says with `@enforces` whose it is, and the last tests of this file hold that table against the
declarations themselves: a field that is added without a scenario fails there.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest

from cloister import (
    ApprovalPolicy,
    CallContext,
    CallStatus,
    Capability,
    CapabilityLimits,
    Cloister,
    InvalidInput,
    InvalidToolName,
    RunResult,
    RunStatus,
    Session,
    SessionLimits,
    Tool,
)
from tests.sessions.door import Door, codes, value
from tests.sessions.ways import LANGUAGES, WAYS, HeldClock, House, call, caught, written

pytestmark = pytest.mark.anyio

both_languages = pytest.mark.parametrize("language", LANGUAGES)
every_way = pytest.mark.parametrize("way", WAYS)

F = TypeVar("F", bound=Callable[..., Any])
ENFORCED: dict[str, list[str]] = {}


def enforces(*fields: str) -> Callable[[F], F]:
    """The decorated test fails when the enforcement of any of these is taken away."""

    def note(test: F) -> F:
        for name in fields:
            ENFORCED.setdefault(name, []).append(test.__name__)
        return test

    return note


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


def _code(result: RunResult) -> str | None:
    return result.error.code if result.error is not None else None


# -- SessionLimits --------------------------------------------------------------------------------------------------

AMPLE = SessionLimits(memory_mb=64, cpu_ms=20_000, wall_ms=20_000, max_stack_depth=256)
FILL = {"python": "len('x' * (24 << 20))", "typescript": "'x'.repeat(24 << 20).length"}
SPIN = {
    "python": "while True:\n    try:\n        pass\n    except BaseException:\n        pass",
    "typescript": "while (true) { try {} catch {} }",
}
SLEEP = {
    "python": "import asyncio\nawait asyncio.sleep(600)",
    "typescript": "await new Promise(r => setTimeout(r, 600000))",
}
DIVE = {
    "python": "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nf(150)",
    "typescript": "function f(n: number): number { return n === 0 ? 0 : 1 + f(n - 1) }\nf(150)",
}


async def _narrowed(session: Session, code: str, limits: dict[str, int], expected: str) -> None:
    """The program is ended when it runs under these limits, and the session goes on."""
    result = await session.run(code, limits=limits)
    assert _code(result) == expected
    assert "ROLLED_BACK" in codes(result)
    assert value(await session.run("1 + 1")) == 2


@enforces("SessionLimits.memory_mb")
@both_languages
@pytest.mark.parametrize("narrow", ["the session", "the run"])
async def test_program_that_needs_more_memory_than_it_may_have_is_ended(
    house: House, language: str, narrow: str
) -> None:
    limits = dataclasses.replace(AMPLE, memory_mb=16 if narrow == "the session" else 64)
    async with await house.open(language, limits=limits) as session:
        await _narrowed(session, FILL[language], {"memory_mb": 16}, "MEMORY_EXCEEDED")
        if narrow == "the run":
            assert value(await session.run(FILL[language])) == 24 << 20


@enforces("SessionLimits.cpu_ms")
@both_languages
async def test_program_that_computes_too_long_is_ended(house: House, language: str) -> None:
    async with await house.open(language, limits=dataclasses.replace(AMPLE, cpu_ms=100)) as session:
        await _narrowed(session, SPIN[language], {}, "TIMEOUT_CPU")
        await _narrowed(session, SPIN[language], {"cpu_ms": 50}, "TIMEOUT_CPU")


@enforces("SessionLimits.cpu_ms")
@both_languages
async def test_processor_time_adds_up_from_one_call_to_the_next(house: House, language: str) -> None:
    # Little between two calls, and more than allowed in all.
    code = {
        "python": "for i in range(1000):\n    await knock(i)\n    for j in range(100_000):\n        pass",
        "typescript": "for (let i = 0; i < 1000; i++) { await tools.knock(i); for (let j = 0; j < 100000; j++) {} }",
    }
    door = Door()
    door.open()
    limits = dataclasses.replace(AMPLE, cpu_ms=60, max_external_calls=1000)
    async with await house.open(language, door.tool, limits=limits) as session:
        result = await session.run(code[language])
        assert _code(result) == "TIMEOUT_CPU"
        assert len(door.arrived) > 1


@enforces("SessionLimits.wall_ms")
@both_languages
@pytest.mark.parametrize("busy", [SPIN, SLEEP], ids=["computing", "sleeping"])
async def test_program_that_takes_too_long_is_ended(house: House, language: str, busy: dict[str, str]) -> None:
    async with await house.open(language, limits=dataclasses.replace(AMPLE, wall_ms=100)) as session:
        assert _code(await session.run(busy[language])) == "TIMEOUT_WALL"
    async with await house.open(language, limits=AMPLE) as session:
        await _narrowed(session, busy[language], {"wall_ms": 100}, "TIMEOUT_WALL")


@enforces("SessionLimits.wall_ms")
@both_languages
async def test_program_that_waits_too_long_for_a_tool_is_ended_and_its_call_cancelled(
    house: House, language: str
) -> None:
    door = Door()
    async with await house.open(language, door.tool, limits=dataclasses.replace(AMPLE, wall_ms=1000)) as session:
        result = await session.run(caught(language, "knock"))
        assert _code(result) == "TIMEOUT_WALL"
        assert door.cancelled == [0]
        assert [record.error and record.error.code for record in result.external_calls] == ["CANCELLED"]


@enforces("SessionLimits.wall_ms")
@both_languages
async def test_wall_time_adds_up_from_one_wait_to_the_next(house: House, language: str) -> None:
    # Each wait is well within the bound, and hardly anything is computed in between.
    code = {
        "python": "import asyncio\nfor i in range(4):\n    await asyncio.sleep(0.1)",
        "typescript": "for (let i = 0; i < 4; i++) await new Promise(r => setTimeout(r, 100))",
    }
    async with await house.open(language, limits=dataclasses.replace(AMPLE, wall_ms=250)) as session:
        assert _code(await session.run(code[language])) == "TIMEOUT_WALL"


@enforces("SessionLimits.max_stdout_bytes")
@both_languages
async def test_output_is_cut_at_its_bound_and_the_program_goes_on(house: House, language: str) -> None:
    code = {
        "python": "import sys\nprint('é' * 40)\nprint('more', file=sys.stderr)\n7",
        "typescript": "console.log('é'.repeat(40)); console.error('more'); 7",
    }
    async with await house.open(language, limits=SessionLimits(max_stdout_bytes=11)) as session:
        result = await session.run(code[language])
        assert (value(result), result.stdout, result.stderr) == (7, "ééééé", "")
        assert "STDOUT_EXCEEDED" in codes(result)
        narrow = await session.run(code[language], limits={"max_stdout_bytes": 3})
        assert narrow.stdout == "é"


@enforces("SessionLimits.max_external_calls")
@both_languages
@pytest.mark.parametrize("narrow", ["the session", "the run"])
async def test_one_call_too_many_ends_the_program_whatever_it_catches(house: House, language: str, narrow: str) -> None:
    code = {
        "python": "while True:\n    try:\n        await knock(1)\n    except BaseException:\n        pass",
        "typescript": "while (true) { try { await tools.knock(1) } catch {} }",
    }
    door = Door()
    door.open()
    async with await house.open(language, door.tool, limits=SessionLimits(max_external_calls=3)) as session:
        few = 3 if narrow == "the session" else 2
        await _narrowed(
            session, code[language], {} if few == 3 else {"max_external_calls": 2}, "EXTERNAL_CALLS_EXCEEDED"
        )
        assert len(door.arrived) == few


@enforces("SessionLimits.max_external_calls")
@both_languages
async def test_call_too_many_among_gathered_ones_makes_none_of_them(house: House, language: str) -> None:
    code = {
        "python": "import asyncio\nawait asyncio.gather(*[knock(i) for i in range(4)])",
        "typescript": "await Promise.all([0, 1, 2, 3].map(i => tools.knock(i)))",
    }
    door = Door()
    door.open()
    async with await house.open(language, door.tool, limits=SessionLimits(max_external_calls=3)) as session:
        assert _code(await session.run(code[language])) == "EXTERNAL_CALLS_EXCEEDED"
        assert door.arrived == []


@enforces("SessionLimits.max_external_calls")
@both_languages
async def test_as_many_calls_as_allowed_can_be_made_beside_sleeps_and_own_functions(
    house: House, language: str
) -> None:
    code = {
        "python": (
            "import asyncio\nfor i in range(3):\n    await asyncio.sleep(0)\n    await list_tools()\n"
            "    await knock(i)\n    await describe_tool('knock')\n"
            "    left = (await current_policy())['calls']['left']\nleft"
        ),
        "typescript": (
            "let left; for (let i = 0; i < 3; i++) { await new Promise(r => setTimeout(r, 0)); await list_tools();"
            " await tools.knock(i); await describe_tool('knock'); left = (await current_policy()).calls.left } left"
        ),
    }
    door = Door()
    door.open()
    async with await house.open(language, door.tool, limits=SessionLimits(max_external_calls=3)) as session:
        result = await session.run(code[language])
        assert (value(result), door.arrived) == (0, [0, 1, 2])
        assert [record.name for record in result.external_calls] == ["knock"] * 3
        # Every cell has as many again.
        assert (await session.run(code[language])).ok


@enforces("SessionLimits.max_external_calls")
async def test_budget_of_a_host_s_own_call_is_that_of_one_cell(house: House) -> None:
    door = Door()
    door.open()
    async with await house.open("host", door.tool, limits=SessionLimits(max_external_calls=1)) as session:
        assert [(await session.call("knock", [n])).result for n in range(3)] == [0, 1, 2]
    async with await house.open("host", door.tool, limits=SessionLimits(max_external_calls=0)) as none:
        refused = await none.call("knock", [9])
        assert _code(refused) == "EXTERNAL_CALLS_EXCEEDED"
        assert refused.external_calls[0].error == refused.error
        assert 9 not in door.arrived


@enforces("SessionLimits.max_stack_depth")
@both_languages
@pytest.mark.parametrize("narrow", ["the session", "the run"])
async def test_program_that_nests_its_calls_too_deep_is_ended(house: House, language: str, narrow: str) -> None:
    limits = dataclasses.replace(AMPLE, max_stack_depth=100 if narrow == "the session" else 256)
    async with await house.open(language, limits=limits) as session:
        await _narrowed(session, DIVE[language], {"max_stack_depth": 100}, "STACK_OVERFLOW")
        if narrow == "the run":
            assert value(await session.run(DIVE[language])) == 150


# -- CapabilityLimits -----------------------------------------------------------------------------------------------


class Stubborn:
    """Tools that hold on for good, each in its own way, until they are let go."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.let_go, self.stopped = asyncio.Event(), asyncio.Event()
        # Once for each time that one of them was told to stop.
        self.told = asyncio.Semaphore(0)

    async def hold(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.told.release()
            raise

    def block(self, ctx: CallContext) -> None:
        while not ctx.cancelled:
            pass
        self._loop.call_soon_threadsafe(self.told.release)

    async def ignore(self) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.told.release()
        self.stopped.set()

    def tools(self, limits: CapabilityLimits) -> list[Tool]:
        return [Tool(tool, limits=limits) for tool in (self.hold, self.block, self.ignore)]


@enforces("CapabilityLimits.timeout_ms")
@every_way
async def test_call_that_takes_too_long_is_ended_and_its_tool_told(house: House, way: str) -> None:
    stubborn = Stubborn()
    async with await house.open(way, *stubborn.tools(CapabilityLimits(timeout_ms=250))) as session:
        for name in ("hold", "block", "ignore"):
            result = await call(session, way, name)
            assert (_code(result), result.status) == ("TIMEOUT_TOOL", RunStatus.TIMEOUT), name
            assert [record.status for record in result.external_calls] == [CallStatus.TIMEOUT]
            await stubborn.told.acquire()
        stubborn.let_go.set()
        await stubborn.stopped.wait()


@enforces("CapabilityLimits.timeout_ms")
@both_languages
async def test_timeout_of_a_call_can_be_caught(house: House, language: str) -> None:
    async with await house.open(language, *Stubborn().tools(CapabilityLimits(timeout_ms=250))) as session:
        result = await session.run(caught(language, "hold"))
        assert str(value(result)).startswith("TIMEOUT_TOOL: `hold` took longer than 250 ms")


@enforces("CapabilityLimits.max_request_bytes")
@every_way
async def test_request_over_its_bound_never_reaches_the_tool(house: House, way: str) -> None:
    got: list[int] = []

    async def take(text: str) -> int:
        got.append(len(text))
        return len(text)

    async with await house.open(way, Tool(take, limits=CapabilityLimits(max_request_bytes=1000))) as session:
        assert value(await call(session, way, "take", text="x" * 980)) == 980
        refused = await call(session, way, "take", text="x" * 1000)
        assert _code(refused) == "INVALID_ARGUMENTS"
        assert "1000 bytes" in str(refused.error)
        assert got == [980]


@enforces("CapabilityLimits.max_request_bytes")
@every_way
async def test_request_over_every_bound_is_refused_unread(house: House, way: str) -> None:
    async def take(x: Any = None) -> None:
        raise AssertionError("must not be reached")

    bombs: dict[str, list[Any]] = {
        "python": ["'x' * 10_000_000", "a"],
        "typescript": ["'x'.repeat(10_000_000)", "a"],
        "host": ["x" * 10_000_000, _bomb()],
    }
    prepare = {
        "python": "a = [1]\nfor _ in range(60): a = [a, a]",
        "typescript": "let a: any = [1]; for (let i = 0; i < 60; i++) a = [a, a]",
    }
    async with await house.open(way, Tool(take, limits=CapabilityLimits(max_request_bytes=1 << 40))) as session:
        if way != "host":
            await session.run(prepare[way])
        for bomb in bombs[way]:
            if way == "host":
                result = await session.call("take", {"x": bomb})
            else:
                result = await session.run(written(way, "take", f"x={bomb}" if way == "python" else f"{{x: {bomb}}}"))
            assert _code(result) == "INVALID_ARGUMENTS"
            assert [record.status for record in result.external_calls] == [CallStatus.ERROR]


def _bomb() -> Any:
    made: Any = [1]
    for _ in range(60):
        made = [made, made]
    return made


@enforces("CapabilityLimits.max_response_bytes")
@every_way
async def test_response_over_its_bound_fails_that_call_only(house: House, way: str) -> None:
    async def give(size: int) -> str:
        return "x" * size

    async with await house.open(way, Tool(give, limits=CapabilityLimits(max_response_bytes=1000))) as session:
        refused = await call(session, way, "give", size=1000)
        assert (_code(refused), refused.status) == ("RESULT_TOO_LARGE", RunStatus.RESOURCE_EXHAUSTED)
        assert refused.external_calls[0].response_digest is None
        assert len((await call(session, way, "give", size=980)).result) == 980


class Gauge:
    """Counts how many calls are under way at once."""

    def __init__(self) -> None:
        self.running = self.peak = self.done = 0

    async def measure(self) -> None:
        self.running += 1
        self.peak = max(self.peak, self.running)
        for _ in range(10):
            await asyncio.sleep(0)
        self.running -= 1
        self.done += 1


SIX = {
    "python": "import asyncio\nawait asyncio.gather(*[measure() for _ in range(6)])\n'done'",
    "typescript": "await Promise.all([1, 2, 3, 4, 5, 6].map(() => tools.measure())); 'done'",
}


@enforces("CapabilityLimits.concurrency")
@both_languages
@pytest.mark.parametrize("most", [1, 2, 6])
async def test_no_more_calls_run_at_once_than_declared(house: House, language: str, most: int) -> None:
    gauge = Gauge()
    async with await house.open(language, Tool(gauge.measure, limits=CapabilityLimits(concurrency=most))) as session:
        assert value(await session.run(SIX[language])) == "done"
        assert (gauge.peak, gauge.done) == (most, 6)


@enforces("CapabilityLimits.concurrency")
async def test_host_s_own_calls_take_the_same_slots(house: House) -> None:
    gauge = Gauge()
    async with await house.open("host", Tool(gauge.measure, limits=CapabilityLimits(concurrency=2))) as session:
        await asyncio.gather(session.run(SIX["python"]), *[session.call("measure") for _ in range(4)])
        assert (gauge.peak, gauge.done) == (2, 10)


@enforces("CapabilityLimits.concurrency", "CapabilityLimits.timeout_ms")
@both_languages
async def test_wait_for_a_slot_counts_against_the_call_s_own_time(house: House, language: str) -> None:
    stubborn = Stubborn()
    limits = CapabilityLimits(concurrency=1, timeout_ms=300)
    async with await house.open(language, *stubborn.tools(limits)) as session:
        first = await session.run(caught(language, "ignore"))
        assert str(value(first)).startswith("TIMEOUT_TOOL: `ignore` took longer")
        # It was told to stop, and has not: whoever comes next waits for its slot, and not longer than allowed.
        second = await session.run(caught(language, "ignore"))
        assert str(value(second)).startswith("TIMEOUT_TOOL: `ignore` waited longer than 300 ms for its turn")
        await stubborn.told.acquire()
        assert stubborn.told.locked()
        stubborn.let_go.set()
        await stubborn.stopped.wait()
        assert (await session.run(written(language, "ignore"))).ok


THREE = {
    "python": "import asyncio\nawait asyncio.gather(knock(1), knock(2), knock(3))",
    "typescript": "await Promise.all([1, 2, 3].map(n => tools.knock(n)))",
}


@enforces("CapabilityLimits.rate_per_min")
@both_languages
async def test_calls_come_no_faster_than_their_rate(language: str) -> None:
    made: list[int] = []

    async def knock(n: int) -> int:
        made.append(n)
        return n

    clock = HeldClock()
    limits = CapabilityLimits(rate_per_min=2, timeout_ms=60_000)
    made_so = Tool(knock, limits=limits)
    async with (
        House(clock=clock) as house,
        await house.open(language, made_so, limits=SessionLimits(wall_ms=120_000)) as session,
    ):
        run = asyncio.create_task(session.run(THREE[language]))
        await clock.until_asleep()
        assert made == [1, 2]
        assert clock.asleep == [30.0]
        await clock.move(30)
        assert value(await run) == [1, 2, 3]
        # Nobody gains by waiting longer than a minute: there is never more than one minute's worth.
        await clock.move(3600)
        again = asyncio.create_task(session.run(THREE[language]))
        await clock.until_asleep(2)
        assert len(made) == 5
        await clock.move(30)
        assert (await again).ok


@enforces("CapabilityLimits.rate_per_min", "CapabilityLimits.timeout_ms")
@every_way
async def test_wait_for_the_rate_counts_against_the_call_s_own_time(way: str) -> None:
    made: list[int] = []

    async def knock(n: int) -> None:
        made.append(n)

    limits = CapabilityLimits(rate_per_min=1, timeout_ms=500)
    made_so = Tool(knock, limits=limits)
    async with House(clock=HeldClock()) as house, await house.open(way, made_so) as session:
        assert (await call(session, way, "knock", n=1)).ok
        late = await call(session, way, "knock", n=2)
        assert _code(late) == "TIMEOUT_TOOL"
        assert "1 a minute" in str(late.error)
        assert made == [1]


async def test_session_has_a_rate_and_slots_of_its_own(house: House) -> None:
    async def knock() -> str:
        return "in"

    limits = CapabilityLimits(rate_per_min=1, timeout_ms=500)
    made = Tool(knock, limits=limits)
    async with await house.open("host", made) as one, await house.open("host", made) as other:
        assert value(await one.call("knock")) == "in"
        assert value(await other.call("knock")) == "in"
        assert _code(await one.call("knock")) == "TIMEOUT_TOOL"


# -- ApprovalPolicy ---------------------------------------------------------------------------------------------------


def _till(policy: Any, paid: list[int]) -> Tool:
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    return Tool(pay, side_effect="write", approval_policy=policy)


@enforces("ApprovalPolicy.kind", "ApprovalPolicy.kind: none", "Capability.approval_policy")
@every_way
async def test_tool_without_a_policy_asks_nobody(house: House, way: str) -> None:
    paid: list[int] = []
    async with await house.open(way, _till("none", paid)) as session:
        assert value(await call(session, way, "pay", amount=5)) == "paid 5"
        assert await house.cloister.approvals(session_id=session.id) == []


@enforces("ApprovalPolicy.kind", "ApprovalPolicy.kind: manual", "Capability.approval_policy")
@every_way
async def test_tool_with_a_manual_policy_asks_about_every_call(house: House, way: str) -> None:
    paid: list[int] = []
    async with await house.open(way, _till("manual", paid)) as session:
        for amount in (1, 2):
            waiting = await call(session, way, "pay", amount=amount)
            assert waiting.status is RunStatus.WAITING_FOR_APPROVAL
            assert len(paid) == amount - 1
            await house.cloister.decide(waiting.approvals[0].id, "allow")
            assert value(await session.resume(waiting.cell_id)) == f"paid {amount}"


@enforces("ApprovalPolicy.kind", "ApprovalPolicy.kind: auto", "ApprovalPolicy.rule", "Capability.approval_policy")
@every_way
async def test_tool_with_a_rule_asks_when_the_rule_does_not_hold(house: House, way: str) -> None:
    paid: list[int] = []
    rule = 'args.amount < 10 && session.labels.env == "test" && calls.by_name["pay"] < 2'
    async with await house.open(way, _till({"auto": {"rule": rule}}, paid), labels={"env": "test"}) as session:
        assert value(await call(session, way, "pay", amount=9)) == "paid 9"
        larger = await call(session, way, "pay", amount=10)
        assert larger.status is RunStatus.WAITING_FOR_APPROVAL
        assert "args.amount = 10" in larger.approvals[0].reason
        await session.terminate(larger.cell_id)
        assert value(await call(session, way, "pay", amount=8)) == "paid 8"
        assert (await call(session, way, "pay", amount=7)).status is RunStatus.WAITING_FOR_APPROVAL
        assert paid == [9, 8]


# -- Capability -----------------------------------------------------------------------------------------------------


@enforces("Capability.name", "Capability.namespace")
@every_way
async def test_tool_is_called_by_its_full_name_and_no_other(house: House, way: str) -> None:
    async def buy() -> str:
        return "bought"

    async with await house.open(way, Tool(buy, namespace="shop", name="purchase")) as session:
        for wrong in ("purchase", "shop.buy", "store.purchase"):
            assert not (await call(session, way, wrong)).ok
        result = await call(session, way, "shop.purchase")
        assert value(result) == "bought"
        assert [record.name for record in result.external_calls] == ["shop.purchase"]


@enforces("Capability.name", "Capability.namespace")
@pytest.mark.parametrize("name", ["get-order", "", " ", "9lives", "class", "naïve", "a.b"])
def test_name_that_no_program_could_write_is_refused(name: str) -> None:
    def give() -> None: ...

    refused = r"letters, digits and underscores|word of the language"
    with pytest.raises(InvalidToolName, match=refused):
        Tool(give, name=name)
    with pytest.raises(InvalidToolName, match=refused):
        Tool(give, namespace=name)


@enforces("Capability.description")
@both_languages
async def test_description_is_told_to_programs_and_to_those_who_write_them(house: House, language: str) -> None:
    def give() -> None:
        """Give it away.

        All of it.
        """

    async with await house.open(language, Tool(give)) as session:
        assert "Give it away." in session.stubs
        last = "['description']" if language == "python" else ".description"
        assert value(await session.run(f"(await list_tools())[0]{last}")) == "Give it away."
        assert "All of it." in str(value(await session.run(f"(await describe_tool('give')){last}")))


@enforces("Capability.input_schema")
@every_way
async def test_arguments_that_do_not_fit_the_input_schema_never_reach_the_tool(house: House, way: str) -> None:
    got: list[Any] = []

    async def pay(**given: Any) -> None:
        got.append(given)

    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer", "maximum": 10}, "note": {"type": "string", "pattern": "^[a-z]*$"}},
        "required": ["amount"],
        "additionalProperties": False,
    }
    made = Tool.from_schema(name="pay", description="Pay.", input_schema=schema, handler=pay)
    async with await house.open(way, made) as session:
        wrong: list[dict[str, Any]] = [
            {},
            {"amount": 11},
            {"amount": "5"},
            {"amount": 5, "note": "NO"},
            {"amount": 5, "tip": 1},
        ]
        for arguments in wrong:
            refused = await call(session, way, "pay", **arguments)
            assert _code(refused) == "INVALID_ARGUMENTS", arguments
            assert "$" in str(refused.error and refused.error.message)
        assert got == []
        assert (await call(session, way, "pay", amount=10, note="tea")).ok
        assert got == [{"amount": 10, "note": "tea"}]


@enforces("Capability.input_schema")
@every_way
async def test_arguments_that_do_not_fit_the_hints_never_reach_the_tool(house: House, way: str) -> None:
    got: list[Any] = []

    async def pay(amount: int, to: list[str]) -> None:
        got.append((amount, to))

    async with await house.open(way, Tool(pay)) as session:
        wrong: list[dict[str, Any]] = [{"amount": 1}, {"amount": "1", "to": []}, {"amount": 1, "to": [2]}]
        for arguments in wrong:
            assert _code(await call(session, way, "pay", **arguments)) == "INVALID_ARGUMENTS", arguments
        assert (await call(session, way, "pay", amount=1, to=["a"])).ok
        assert got == [(1, ["a"])]


@enforces("Capability.output_schema")
@every_way
async def test_result_that_does_not_fit_the_output_schema_never_reaches_the_program(house: House, way: str) -> None:
    async def give(what: Any) -> Any:
        return what

    async def count(what: Any) -> int:
        return what

    given = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    async with await house.open(way, Tool(give, output_schema=given), Tool(count)) as session:
        wrong: list[tuple[str, Any]] = [("give", {"id": "private"}), ("give", {}), ("give", []), ("count", "private")]
        for name, what in wrong:
            refused = await call(session, way, name, what=what)
            assert _code(refused) == "TOOL_ERROR", what
            assert "output schema" in str(refused.error)
            assert "private" not in str(refused)
        assert value(await call(session, way, "give", what={"id": 5})) == {"id": 5}
        assert value(await call(session, way, "count", what=5)) == 5


@enforces("Capability.side_effect")
@every_way
async def test_side_effect_is_what_rules_see_and_records_say(house: House, way: str) -> None:
    def look() -> str:
        return "seen"

    deny = ['side_effect in ["write", "network"]']
    tools = [Tool(look, name=f"do_{effect}", side_effect=effect) for effect in ("none", "read", "write", "network")]
    async with await house.open(way, *tools, deny=deny) as session:
        results = {tool.side_effect: await call(session, way, tool.name) for tool in tools}
        assert {effect: _code(result) for effect, result in results.items()} == {
            "none": None,
            "read": None,
            "write": "PERMISSION_DENIED",
            "network": "PERMISSION_DENIED",
        }
        assert all(result.external_calls[0].side_effect == effect for effect, result in results.items())


@enforces("Capability.idempotent")
@every_way
async def test_idempotence_is_what_rules_see(house: House, way: str) -> None:
    def look() -> str:
        return "seen"

    tools = (Tool(look, name="safe"), Tool(look, name="unsafe", idempotent=False))
    async with await house.open(way, *tools, deny=["!idempotent"]) as session:
        assert value(await call(session, way, "safe")) == "seen"
        assert _code(await call(session, way, "unsafe")) == "PERMISSION_DENIED"


@enforces("Capability.idempotent")
@both_languages
@pytest.mark.parametrize("idempotent", [True, False])
async def test_only_an_idempotent_call_is_made_again_where_nobody_knows_how_it_ended(
    house: House, language: str, idempotent: bool
) -> None:
    door = Door(idempotent=idempotent)
    async with await house.open(language, door.tool) as session:
        run = asyncio.create_task(session.run(written(language, "knock", "7")))
        await door.until_knocked()
        blob = await session.snapshot()
        run.cancel()
        await asyncio.wait([run])
    door.open()
    async with await house.cloister.restore_session(blob, session_id=f"{session.id}-copy", tools=[door.tool]) as copy:
        result = await copy.resume()
        assert (_code(result), door.arrived) == ((None, [7, 7]) if idempotent else ("OUTCOME_UNKNOWN", [7]))


@enforces("Capability.limits")
@both_languages
async def test_limits_of_a_tool_are_those_of_the_tool_that_replaced_it(house: House, language: str) -> None:
    async def give() -> str:
        return "x" * 1000

    async with await house.open(language, Tool(give)) as session:
        assert (await session.run(written(language, "give"))).ok
        session.tools.replace(Tool(give, limits=CapabilityLimits(max_response_bytes=100)))
        assert _code(await session.run(written(language, "give"))) == "RESULT_TOO_LARGE"


@enforces("Capability.defer_loading")
async def test_deferred_tool_is_not_shown_until_somebody_asks_and_can_be_called(anyio_backend: str) -> None:
    def postponed(n: int) -> int:
        """Comes later."""
        return n + 1

    async with Cloister(tools=[Tool(postponed, defer_loading=True)]) as cloister:
        session = await cloister.open_session()
        assert "postponed" not in session.stubs
        assert (await session.run("await postponed(1)")).result == 2


# -- the table itself -----------------------------------------------------------------------------------------------

KINDS = ("none", "auto", "manual")


def _declared() -> set[str]:
    declarations = (SessionLimits, CapabilityLimits, ApprovalPolicy, Capability)
    fields = {f"{owner.__name__}.{field.name}" for owner in declarations for field in dataclasses.fields(owner)}
    return fields | {f"ApprovalPolicy.kind: {kind}" for kind in KINDS}


def test_every_field_that_can_be_declared_has_a_scenario() -> None:
    assert set(ENFORCED) == _declared()


def test_there_are_no_other_kinds_of_policy() -> None:
    for kind in KINDS:
        ApprovalPolicy(kind, "true" if kind == "auto" else None)
    with pytest.raises(InvalidInput, match=r"'none', 'auto' with a rule, or 'manual'"):
        ApprovalPolicy("sometimes")


@pytest.mark.parametrize("owner", [SessionLimits, CapabilityLimits])
def test_every_limit_is_a_number_that_makes_sense(owner: type[Any]) -> None:
    for field in dataclasses.fields(owner):
        for wrong in (-1, 1.5, "5", True):
            with pytest.raises(InvalidInput, match=field.name):
                owner(**{field.name: wrong})
