"""Spans and measurements of cells and calls, in a host without a server."""

import asyncio
import logging
from pathlib import Path

import pytest
from opentelemetry import trace

from cloister import Cloister, InvalidInput, tool
from tests.telemetry.lab import Seen, attributes, is_child

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_goes_wrong(caplog: pytest.LogCaptureFixture):
    """What cannot be traced is only logged."""
    yield
    assert [record for record in caplog.records if record.name == "cloister.telemetry"] == []


@tool(side_effect="read")
async def weigh(what: str) -> int:
    """Weigh something."""
    return len(what)


@tool(approval_policy="manual")
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


async def test_a_call_is_a_child_of_its_cell_and_the_cell_of_what_the_host_does() -> None:
    seen = Seen()
    async with Cloister(tools=[weigh], telemetry=seen.telemetry) as cloister:
        session = await cloister.open_session("s")
        with seen.provider.get_tracer("host").start_as_current_span("of the host"):
            result = await session.run("await weigh(what='pears')")
    assert result.result == 5
    cell, call = seen.one("cell"), seen.one("execute_tool weigh")
    assert is_child(call, of=cell)
    assert is_child(cell, of=seen.one("of the host"))
    assert attributes(cell) == {
        "cloister.cell.id": result.cell_id,
        "cloister.session.id": "s",
        "cloister.cell.state": "completed",
    }
    assert attributes(call) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weigh",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": result.external_calls[0].id,
        "cloister.cell.id": result.cell_id,
        "cloister.session.id": "s",
        "cloister.call.status": "ok",
        "cloister.call.side_effect": "read",
    }


async def test_what_a_tool_does_belongs_to_its_call() -> None:
    seen = Seen()
    tracer = seen.provider.get_tracer("tool")

    @tool
    async def fetch(name: str) -> str:
        """Fetch something."""
        await asyncio.sleep(0)
        with tracer.start_as_current_span(f"inside {name}"):
            return name

    @tool
    def read(name: str) -> str:
        """Read something, in a thread."""
        with tracer.start_as_current_span(f"inside {name}"):
            return name

    async with Cloister(tools=[fetch, read], telemetry=seen.telemetry) as cloister:
        session = await cloister.open_session()
        code = "import asyncio\nawait asyncio.gather(fetch(name='a'), fetch(name='b'), read(name='c'))"
        assert (await session.run(code)).status == "ok"
    by_id = {attributes(span)["gen_ai.tool.call.id"]: span for span in seen.named("execute_tool")}
    assert len(by_id) == 3
    parents = {span.name: span.parent for span in seen.named("inside")}
    assert len({parent.span_id for parent in parents.values() if parent is not None}) == 3
    assert all(any(is_child(span, of=call) for call in by_id.values()) for span in seen.named("inside"))


async def test_errors_are_codes_and_nothing_that_a_program_says_is_in_it() -> None:
    seen = Seen()
    async with Cloister(tools=[weigh], telemetry=seen.telemetry) as cloister:
        session = await cloister.open_session()
        await session.run("raise ValueError('my darkest secret')")
        await session.run("await weigh(what=['my darkest secret'])")
        await session.run("await weigh(what='my darkest secret')")
    cells = seen.named("cell")
    assert [attributes(cell).get("error.type") for cell in cells] == ["RUNTIME_ERROR", "INVALID_ARGUMENTS", None]
    assert cells[0].status.status_code is trace.StatusCode.ERROR
    assert [attributes(call).get("error.type") for call in seen.named("execute")] == ["INVALID_ARGUMENTS", None]
    assert "darkest" not in seen.everything()


async def test_a_name_that_a_program_made_up_is_no_label() -> None:
    seen = Seen()
    async with Cloister(tools=[weigh], telemetry=seen.telemetry) as cloister:
        session = await cloister.open_session(language="typescript", type_check="off")
        for name in ("nonsense_1", "nonsense_2"):
            await session.run(f"await tools['{name}']({{}}).catch(() => 0)")
        await session.run("await tools.weigh({what: 'x'})")
    labels = [labels for labels, _ in seen.points("cloister.call.duration")]
    assert {one["gen_ai.tool.name"] for one in labels} <= {"weigh", "unknown"}
    assert {"gen_ai.tool.name": "weigh", "cloister.call.status": "ok"} in labels
    assert seen.points("cloister.cell.duration")


async def test_a_cell_that_waits_for_a_person_holds_no_span_and_has_another_when_it_wakes(tmp_path: Path) -> None:
    first, second = Seen(), Seen()
    store = f"sqlite:///{tmp_path}/c.db?synchronous=normal"
    async with Cloister(tools=[pay], store=store, telemetry=first.telemetry) as cloister:
        session = await cloister.open_session("s")
        waiting = await session.run("await pay(to='Ann')")
        assert waiting.status == "waiting_for_approval"
        assert attributes(first.one("cell"))["cloister.cell.state"] == "waiting"
        assert attributes(first.one("execute_tool pay"))["cloister.call.status"] == "approval_pending"
    # In another process, days later.
    async with Cloister(tools=[pay], store=store, telemetry=second.telemetry) as cloister:
        session = await cloister.open_session("s")
        await cloister.decide(waiting.approvals[0].id, "allow")
        ended = await session.wait(waiting.cell_id, yield_ms=60_000)
    assert ended.status == "completed"
    cell, call = second.one("cell"), second.one("execute_tool pay")
    assert is_child(call, of=cell)
    assert attributes(cell)["cloister.resumed"] is True
    assert attributes(cell)["cloister.cell.state"] == "completed"
    assert attributes(call)["cloister.call.status"] == "ok"


async def test_what_breaks_in_it_breaks_no_run(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()

    class Broken:
        def told(self, *_: object) -> None:
            raise RuntimeError("no")

    object.__setattr__(seen.telemetry, "_spans", Broken())
    with caplog.at_level(logging.CRITICAL, "cloister.telemetry"):
        async with Cloister(telemetry=seen.telemetry) as cloister:
            session = await cloister.open_session()
            assert (await session.run("1 + 1")).result == 2


def test_what_is_no_telemetry_is_refused() -> None:
    with pytest.raises(InvalidInput, match="telemetry is an OpenTelemetry, not a str"):
        Cloister(telemetry="http://localhost:4318")  # pyright: ignore[reportArgumentType]
