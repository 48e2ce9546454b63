"""Sources of tools in sessions: how they are entered, called, changed and lost."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    ApprovalPolicy,
    Capability,
    CapabilityLimits,
    Cloister,
    Completed,
    Event,
    InvalidInput,
    Manifest,
    Overlay,
    SourceCall,
    SourceUnavailable,
    Tool,
    WaitingForApproval,
)
from cloister.core.value import Json
from cloister.gate.refusal import Refusal
from cloister.gate.resolve import make_ready
from cloister.ports.clock import SystemClock
from cloister.sessions.events import EventStream
from cloister.tools.sourced import SourcedTool
from tests.sessions.door import Door, value
from tests.sessions.sources import Shop, object_of
from tests.sessions.ways import LANGUAGES, WAYS, House, call, caught

pytestmark = pytest.mark.anyio
both_languages = pytest.mark.parametrize("language", LANGUAGES)


@pytest.mark.parametrize("way", WAYS)
async def test_tool_of_a_source_is_called_like_any_other(way: str) -> None:
    shop = Shop("shop", "buy", namespace="shop")
    async with House() as house:
        session = await house.open(way, sources=[shop])
        result = await call(session, way, "shop.buy", n=3)
        assert value(result) == {"n": 3}
        assert [(record.name, str(record.side_effect)) for record in result.external_calls] == [("shop.buy", "read")]
        (name, arguments, about) = shop.calls[0]
        assert (name, arguments, about.session_id) == ("shop.buy", {"n": 3}, session.id)
        assert about.remaining_ms > 0


async def next_event(stream: EventStream, kind: str) -> Mapping[str, Any]:
    async with asyncio.timeout(30):
        async for event in stream:
            if event.kind == kind:
                return event.data
    raise AssertionError(f"no {kind}")


# -- who enters, who leaves -------------------------------------------------------------------------------------------


async def test_source_of_two_sessions_is_entered_once_and_left_with_the_last() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        first = await house.open("python", sources=[shop])
        second = await house.open("typescript", sources=[shop])
        assert (shop.entered, shop.read) == (1, 1)
        await first.close()
        assert shop.left == 0
        await second.close()
        assert (shop.entered, shop.left) == (1, 1)
    assert shop.left == 1


async def test_source_of_the_host_lives_as_long_as_the_host() -> None:
    shop = Shop("shop", "buy")
    async with House(sources=[shop]) as house:
        async with await house.open("python") as session:
            assert value(await session.run("await buy(n=1)")) == {"n": 1}
        assert (shop.entered, shop.left) == (1, 0)
    assert shop.left == 1


@pytest.mark.parametrize("whose", ["host", "session"])
async def test_sources_are_opened_and_asked_anew_at_the_same_time(whose: str) -> None:
    class Slow(Shop):
        """Each of the two waits for the other."""

        async def __aenter__(self) -> "Shop":
            await asyncio.wait_for(meeting.wait(), 20)
            return await super().__aenter__()

        async def refresh(self) -> None:
            await asyncio.wait_for(meeting.wait(), 20)

    meeting = asyncio.Barrier(2)
    both = [Slow("one", "buy"), Slow("two", "sell")]
    async with House(sources=both if whose == "host" else []) as house:
        session = await house.open("python", sources=both if whose == "session" else [])
        assert session.tools.names() == ["buy", "sell"]
        await session.refresh()
    assert [shop.left for shop in both] == [1, 1]


async def test_source_that_fails_at_once_is_told_without_waiting_for_one_that_never_comes_up() -> None:
    class Endless(Shop):
        async def __aenter__(self) -> "Shop":
            await asyncio.Event().wait()
            raise AssertionError

    dead = Shop("crm")
    dead.gone = "no route"
    async with House() as house:
        async with asyncio.timeout(30):
            with pytest.raises(SourceUnavailable, match="'crm'"):
                await house.open("python", sources=[Endless("endless"), dead])


async def test_source_is_left_by_the_task_that_entered_it() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        session = await house.open("python", sources=[shop])
        await asyncio.create_task(session.close())
    assert shop.left_in is shop.entered_in


async def test_session_without_the_base_has_only_what_it_was_given() -> None:
    shop, own = Shop("shop", "buy"), Shop("own", "sell")

    async def base() -> int:
        return 1

    async with House(tools=[base], sources=[shop]) as house:
        session = await house.open("python", sources=[own], include_base_tools=False)
        assert session.tools.names() == ["sell"]
        assert (await house.open("python")).tools.names() == ["base", "buy"]


# -- what cannot be opened --------------------------------------------------------------------------------------------


async def test_source_that_cannot_be_reached_is_named_and_nothing_stays_entered() -> None:
    shop, dead = Shop("shop", "buy"), Shop("crm")
    dead.gone = "no route"
    async with House() as house:
        with pytest.raises(SourceUnavailable, match="source 'crm' cannot be reached: no route") as refusal:
            await house.open("python", sources=[shop, dead])
        assert refusal.value.hint == "start it"
        assert (shop.entered, shop.left) == (1, 1)
        assert await house.cloister.list_sessions() == []


async def test_host_does_not_open_without_a_source_that_it_needs() -> None:
    dead = Shop("crm")
    dead.gone = "no route"
    with pytest.raises(SourceUnavailable, match="'crm'"):
        async with House(sources=[dead]):
            raise AssertionError("it opened")


async def test_session_opens_without_an_optional_source_and_has_it_once_it_is_there() -> None:
    crm = Shop("crm", "look", namespace="crm")
    crm.gone = "no route"
    heard: list[Event] = []
    async with House(on_event=heard.append) as house:
        session = await house.open("python", sources=[Overlay(crm, optional=True)])
        (info,) = session.sources
        assert (info.name, info.tools, info.optional) == ("crm", 0, True)
        assert info.missing is not None
        assert "no route" in info.missing
        assert [event.data["source"] for event in heard if event.kind == "source.failed"] == ["crm"]
        crm.gone = None
        (info,) = await session.refresh()
        assert (info.tools, info.missing) == (1, None)
        assert value(await session.run("from crm import look\nawait look(1)")) == {"n": 1}


class _Rung(SystemClock):
    """Who sleeps is woken by the test."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._asleep: list[asyncio.Future[None]] = []
        self._news = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._asleep.append(asyncio.get_running_loop().create_future())
        self._news.set()
        await self._asleep[-1]

    async def until(self, pauses: int) -> None:
        while len(self.pauses) < pauses:
            self._news.clear()
            await self._news.wait()

    def ring(self) -> None:
        for one in self._asleep:
            if not one.done():
                one.set_result(None)


async def changed(events: EventStream) -> Mapping[str, Any]:
    async for event in events:
        if event.kind == "catalog.changed":
            return event.data
    raise AssertionError("it ended")


async def test_missing_source_is_tried_by_nobody_but_the_host_and_comes_back_by_itself() -> None:
    crm, wiki, clock = Shop("crm", "look"), Shop("wiki", "read"), _Rung()
    crm.gone = wiki.gone = "no route"
    heard: list[Event] = []
    async with House(sources=[Overlay(crm, optional=True)], on_event=heard.append, clock=clock) as house:
        first = await house.open("python")
        second = await house.open("python", sources=[Overlay(wiki, optional=True)])
        assert first.tools.names() == []
        await clock.until(2)
        assert (crm.entered, wiki.entered) == (1, 1)
        wiki.gone, crm.gone = None, "still none"
        async with first.events() as events, second.events() as others:
            clock.ring()
            assert (await changed(others))["added"] == ["read"]
            assert value(await second.run("await read(1)")) == {"n": 1}
            await clock.until(3)
            # For longer each time; and what is said of it is what was found last.
            assert max(clock.pauses[:2]) <= 0.5 <= clock.pauses[2]
            assert ["still none" in str(one.sources[0].missing) for one in (first, second)] == [True, True]
            crm.gone = None
            clock.ring()
            assert (await changed(events))["added"] == (await changed(others))["added"] == ["look"]
        assert value(await first.run("await look(1)")) == {"n": 1}
        assert [info.missing for info in second.sources] == [None, None]
        told = [(event.session_id, event.data) for event in heard if event.kind == "source.opened"]
        here = {"source": "crm", "tools": 1}
        assert told == [(second.id, {"source": "wiki", "tools": 1}), (first.id, here), (second.id, here)]
        # Entered once for both, and left when nobody has it any more.
        assert (crm.entered, crm.left) == (3, 0)
    assert (crm.left, wiki.left) == (1, 1)
    gone = Shop("gone")
    gone.gone = "no route"
    async with House(sources=[Overlay(gone, optional=True)], clock=(clock := _Rung())):
        await clock.until(1)
    # Who closes seeks no more.
    clock.ring()
    await asyncio.sleep(0)
    assert gone.entered == 1


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ((Shop("a", "buy"), Shop("b", "buy")), "'buy' is a tool of source 'a' and of source 'b'"),
        ((Shop("a", "buy"), Shop("a", "sell")), "two sources called 'a'"),
        ((Shop("a", "shop"), Shop("b", "buy", namespace="shop")), "'shop' cannot be a namespace as well"),
        ((Shop("a", "buy", namespace="shop"), Shop("b", "shop")), "'shop' cannot be a tool as well"),
        ((Shop("a", "mine"),), "'mine' is a tool of the host and of source 'a'"),
        ((Shop,), "is not a source"),
        (("shop",), "is not a source"),
    ],
)
async def test_names_that_would_mean_two_things_are_refused_with_both_named(
    sources: tuple[object, ...], said: str
) -> None:
    async def mine() -> int:
        return 1

    async with House(tools=[mine]) as house:
        with pytest.raises(InvalidInput, match=said):
            await house.open("python", sources=sources)
        assert await house.cloister.list_sessions() == []
    assert all(shop.left == shop.entered for shop in sources if isinstance(shop, Shop))


@both_languages
async def test_namespace_of_an_overlay_tells_two_sources_apart(language: str) -> None:
    first, second = Shop("a", "buy"), Shop("a", "buy")
    async with House() as house:
        session = await house.open(language, sources=[first, Overlay(second, namespace="other")])
        assert session.tools.names() == ["buy", "other.buy"]
        assert value(await call(session, language, "other.buy", n=2)) == {"n": 2}
        assert (first.calls, [name for name, _, _ in second.calls]) == ([], ["buy"])


# -- contracts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_contract_is_enforced_by_the_gate(way: str) -> None:
    shop = Shop()
    shop.offer("buy", output_schema={"type": "string"}, answer=_number)
    async with House() as house:
        session = await house.open(way, sources=[shop])
        bad = await call(session, way, "buy", n="three")
        assert bad.error is not None
        assert (bad.error.code, shop.calls) == ("INVALID_ARGUMENTS", [])
        wrong = await call(session, way, "buy", n=3)
        assert wrong.error is not None
        assert (wrong.error.code, len(shop.calls)) == ("TOOL_ERROR", 1)


async def _number(_arguments: Any, _about: SourceCall) -> Json:
    return 5


async def test_contract_of_a_deferred_tool_is_asked_for_on_first_use_and_once() -> None:
    shop = Shop("shop", "buy", "sell", deferred=True)
    async with House(type_check="strict") as house:
        session = await house.open("python", sources=[shop])
        assert shop.asked == []
        assert "buy" not in session.stubs
        assert "async def buy(" not in session.preamble().text
        assert value(await session.run("await buy(n=1)\nawait buy(n=2)")) == {"n": 2}
        assert shop.asked == ["buy"]
        # From now on the model is told of it, and a type checker too.
        assert "async def buy(n: int)" in session.stubs
        assert "async def buy(n: int)" in session.preamble().text
        assert "sell" not in session.stubs
        wrong = await session.run("await buy(n='x')")
        assert wrong.error is not None
        assert wrong.error.code == "TYPE_ERROR"


@both_languages
async def test_described_tool_is_hidden_no_longer_and_is_found_before(language: str) -> None:
    shop = Shop()
    shop.offer("buy", description="Purchase goods.", deferred=True, namespace="shop")
    async with House() as house:
        session = await house.open(language, sources=[shop])
        assert value(await session.run("await list_tools()")) == []
        found: Any = value(await call(session, language, "search_tools", query="purchase"))
        assert [(tool["name"], tool["signature"]) for tool in found] == [("shop.buy", None)]
        told: Any = value(await call(session, language, "describe_tool", name="shop.buy"))
        assert told["side_effect"] == "read"
        assert "buy" in session.stubs
        other = await house.open(language, sources=[shop])
        assert "buy" not in other.stubs


async def test_deferred_tool_of_a_namespace_can_be_imported_under_strict_types() -> None:
    shop = Shop("shop", "buy", namespace="shop", deferred=True)
    async with House(type_check="strict") as house:
        session = await house.open("python", sources=[shop])
        assert value(await session.run("from shop import buy\nawait buy(n=4)")) == {"n": 4}


async def test_deferred_function_of_the_host_is_hidden_and_can_be_called() -> None:
    async def rare(n: int) -> int:
        """Do something rare."""
        return n

    async with House() as house:
        session = await house.open("python", Tool(rare, defer_loading=True))
        assert "rare" not in session.stubs
        assert [tool["name"] for tool in await session.search_tools("something rare")] == ["rare"]
        assert value(await session.run("await rare(3)")) == 3
        assert "rare" in session.stubs


@pytest.mark.parametrize("deferred", [True, False])
async def test_tool_with_an_unusable_contract_costs_no_other_tool(deferred: bool) -> None:
    shop = Shop("shop", "good", deferred=deferred)
    shop.offer("bad", {"type": "object", "properties": {"n": {"type": "nonsense"}}}, deferred=deferred)
    async with House() as house:
        session = await house.open("python", sources=[shop])
        result = await session.run("await good(1)\nawait bad()")
        assert result.error is not None
        assert result.error.code == "TOOL_ERROR"
        assert "`bad` cannot be called" in result.error.message
        assert [record.name for record in result.external_calls] == ["good", "bad"]


async def test_contract_of_another_name_is_not_taken() -> None:
    class Liar(Shop):
        async def contract(self, full_name: str) -> Capability:
            return Capability("other", input_schema=object_of())

    async with House() as house:
        session = await house.open("python", sources=[Liar("liar", "buy")])
        result = await session.run("await buy(n=1)")
        assert result.error is not None
        assert "was asked for 'buy' and told of 'other'" in result.error.message
        assert session.sources[0].notes != ()


async def test_manifests_that_fit_nothing_are_left_out_and_noted() -> None:
    class Odd(Shop):
        async def manifests(self) -> Sequence[Manifest]:
            return [Manifest("ok"), Manifest("ok"), Manifest("not-a-name"), Manifest("a", "b.c"), *()]

        async def contract(self, full_name: str) -> Capability:
            return Capability("ok", input_schema=object_of())

    async with House() as house:
        session = await house.open("python", sources=[Odd("odd")])
        (info,) = session.sources
        assert (info.tools, len(info.notes)) == (1, 3)
        assert "ok is there twice" in info.notes[0]
        assert "'not-a-name'" in info.notes[1]


async def test_contract_that_never_comes_is_a_timeout_of_the_call() -> None:
    class Slow(Shop):
        async def contract(self, full_name: str) -> Capability:
            await asyncio.Event().wait()
            raise AssertionError

    tool = SourcedTool(Slow("slow"), Manifest("wait", defer_loading=True))
    tool.limits = CapabilityLimits(timeout_ms=20)
    with pytest.raises(Refusal) as refusal:
        await make_ready(tool)
    assert refusal.value.error.code == "TIMEOUT_TOOL"


# -- what changes -----------------------------------------------------------------------------------------------------


async def test_new_tool_of_a_source_is_there_for_the_next_cell() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        session = await house.open("python", sources=[shop])
        events = session.events()
        shop.offer("sell")
        shop.tell()
        told = await next_event(events, "catalog.changed")
        assert (told["added"], told["removed"], told["changed"]) == (["sell"], [], [])
        assert value(await session.run("await sell(1)")) == {"n": 1}


async def test_refresh_reads_a_source_that_did_not_tell() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        session = await house.open("python", sources=[shop])
        shop.offer("sell")
        assert session.tools.names() == ["buy"]
        await session.refresh()
        assert session.tools.names() == ["buy", "sell"]


async def test_source_that_did_not_change_changes_nothing() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        session = await house.open("python", sources=[shop])
        before, generation = session.tools.get("buy"), session.tools.generation
        await session.refresh()
        assert (session.tools.get("buy"), session.tools.generation) == (before, generation)


@both_languages
async def test_running_cell_goes_on_with_the_contract_that_it_began_with(language: str) -> None:
    shop, door = Shop("shop", "buy"), Door(name="knock")
    code = {"python": "await knock(0)\nawait buy(n=1)", "typescript": "await knock({n: 0}); await buy({n: 1})"}
    async with House() as house:
        session = await house.open(language, door.tool, sources=[shop])
        running = asyncio.create_task(session.run(code[language]))
        await door.until_knocked()
        shop.offer("buy", object_of(count="integer"))
        await session.refresh()
        door.open()
        assert value(await running) == {"n": 1}
        after = await call(session, language, "buy", n=1)
        assert after.error is not None
        assert after.error.code == "INVALID_ARGUMENTS"
        assert value(await call(session, language, "buy", count=1)) == {"count": 1}


@both_languages
async def test_tool_that_its_source_dropped_is_refused_by_name_and_comes_back(language: str) -> None:
    shop, door = Shop("shop", "buy"), Door(name="knock")
    asked = {
        "python": "await knock(0)\n" + caught("python", "buy", "n=1"),
        "typescript": "await knock({n: 0});\n" + caught("typescript", "buy", "{n: 1}"),
    }
    async with House() as house:
        session = await house.open(language, door.tool, sources=[shop])
        running = asyncio.create_task(session.run(asked[language]))
        await door.until_knocked()
        shop.withdraw("buy")
        await session.refresh()
        door.open()
        said = value(await running)
        assert isinstance(said, str)
        assert "the tool `buy` is gone: source 'shop' does not offer it any more" in said
        result = await session.call("buy", {"n": 1})
        assert result.error is not None
        assert (result.error.code, shop.calls) == ("UNKNOWN_TOOL", [])
        shop.offer("buy")
        await session.refresh()
        assert value(await call(session, language, "buy", n=2)) == {"n": 2}


@pytest.mark.parametrize("types", ["off", "strict"])
@both_languages
async def test_program_that_begins_after_its_tool_has_gone_is_refused_by_name(language: str, types: str) -> None:
    shop = Shop("shop", "buy")
    shop.offer("sell", namespace="odd")
    async with House() as house:
        session = await house.open(language, sources=[shop], type_check=types)
        await session.remove_source("shop")
        assert session.tools.names() == []
        for name in ("buy", "odd.sell"):
            said = str(value(await session.run(caught(language, name, "n=1" if language == "python" else "{n: 1}"))))
            assert said.startswith(f"UNKNOWN_TOOL: the tool `{name}` is gone: source 'shop' does not offer it any more")
        assert value(await session.run("await list_tools()")) == []
        assert "sell" not in session.stubs


async def test_name_of_a_tool_that_has_gone_can_be_given_to_another() -> None:
    async def odd() -> str:
        return "mine"

    shop = Shop()
    shop.offer("sell", namespace="odd")
    shop.offer("text")
    async with House() as house:
        session = await house.open("python", sources=[shop])
        await session.remove_source("shop")
        session.tools.register(odd)
        assert value(await session.run("text('ours again')\nawait odd()")) == "mine"


async def test_program_that_slept_over_the_loss_of_its_tool_is_refused_by_name() -> None:
    shop = Shop("shop")
    shop.offer("buy", approval_policy=ApprovalPolicy("manual"))
    async with House() as house:
        session = await house.open("python", sources=[shop])
        waiting = await session.run(
            "try:\n    said = await buy(n=1)\nexcept RuntimeError as e:\n    said = str(e)\nsaid"
        )
        shop.withdraw("buy")
        await session.refresh()
        await house.cloister.decide(waiting.approvals[0].id, "allow")
        said = str(value(await session.resume(waiting.cell_id)))
        assert said.startswith("UNKNOWN_TOOL: the tool `buy` is gone")
        assert shop.calls == []


async def test_source_whose_other_side_is_gone_keeps_its_tools_and_their_calls_say_so() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        session = await house.open("python", sources=[shop])
        shop.gone = "the server has ended"
        result = await session.run("await buy(n=1)")
        assert result.error is not None
        assert (result.error.code, result.error.hint) == ("SOURCE_UNAVAILABLE", "wait")
        assert "the server has ended" in result.error.message
        events = session.events()
        await session.refresh()
        assert (await next_event(events, "source.failed"))["reason"] == "the server has ended"
        shop.gone = None
        assert value(await session.run("await buy(n=1)")) == {"n": 1}


async def test_name_that_somebody_has_is_not_taken_over_by_another_source() -> None:
    first, second = Shop("first", "a"), Shop("second", "b")
    async with House() as house:
        session = await house.open("python", sources=[first, second])
        events = session.events()
        first.offer("b")
        first.tell()
        assert (await next_event(events, "catalog.changed"))["conflicts"] == ["b"]
        assert value(await session.run("await b(n=1)")) == {"n": 1}
        assert ([name for name, _, _ in second.calls], first.calls) == (["b"], [])


async def test_source_can_be_added_and_removed() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        session = await house.open("python")
        assert (await session.add_source(shop)).tools == 1
        assert value(await session.run("await buy(1)")) == {"n": 1}
        with pytest.raises(InvalidInput, match="two sources called 'shop'"):
            await session.add_source(Shop("shop", "other"))
        await session.remove_source("shop")
        assert shop.left == 1
        assert session.tools.names() == []
        with pytest.raises(InvalidInput, match="no source 'shop'"):
            await session.remove_source("shop")
        clash = Shop("clash", "mine")

        async def mine() -> int:
            return 1

        session.tools.register(mine)
        with pytest.raises(InvalidInput, match="'mine'"):
            await session.add_source(clash)
        assert (clash.left, session.sources) == (1, [])


async def test_tool_registered_by_hand_cannot_take_the_name_of_an_offered_one() -> None:
    async def buy() -> int:
        return 1

    async with House() as house:
        session = await house.open("python", sources=[Shop("shop", "buy"), Shop("x", "y", namespace="space")])
        with pytest.raises(InvalidInput, match="'buy' is a tool of source 'shop' already"):
            session.tools.register(buy)
        with pytest.raises(InvalidInput, match="'space'"):
            session.tools.register(Tool(buy, name="space"))


# -- elsewhere --------------------------------------------------------------------------------------------------------


async def test_fork_and_copy_have_the_sources_of_the_original() -> None:
    shop = Shop("shop", "buy")
    async with House() as house:
        session = await house.open("python", sources=[shop])
        assert (await session.run("x = (await buy(n=1))['n']")).ok
        fork = await session.fork()
        copy = await house.cloister.restore_session(await session.snapshot(), session_id="copy")
        await session.close()
        for other in (fork, copy):
            assert value(await other.run("(await buy(n=x))['n']")) == 1
        assert (shop.entered, shop.left) == (1, 0)


async def test_reopened_session_is_held_until_its_sources_are_given_again(tmp_path: Path) -> None:
    shop = Shop("shop")
    shop.offer("buy", approval_policy=ApprovalPolicy("manual"))
    url = f"sqlite:///{tmp_path}/s.db"
    async with Cloister(store=url, snapshot_key=b"k" * 32) as cloister:
        session = await cloister.open_session("s", sources=[shop])
        waiting = await session.exec("(await buy(n=1))['n'] + 1")
        assert isinstance(waiting, WaitingForApproval)
    async with Cloister(store=url, snapshot_key=b"k" * 32) as cloister:
        (cell,) = (await cloister.recovery_report()).cells
        assert (cell.outcome, "sources" in str(cell.reason)) == ("held", True)
        session = await cloister.open_session("s", sources=[shop])
        await cloister.decide(waiting.approvals[0].id, "allow")
        seen = await session.wait(cell.cell_id, yield_ms=10_000)
        while not isinstance(seen, Completed):
            seen = await session.wait(cell.cell_id, yield_ms=10_000)
        assert seen.result == 2
        assert len(shop.calls) == 1
