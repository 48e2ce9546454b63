"""The code driver, with scripted models, real sessions and a real store."""

import asyncio
from pathlib import Path

import pytest

from cloister import tool
from cloister.core.item import AgentMessage, AgentReasoning, CellRun, ToolCall
from cloister.core.language import Language
from cloister.core.message import AssistantMessage, ToolResult, UserMessage
from cloister.core.offer import FreeformTool, FunctionTool
from cloister.core.thread import DriverKind
from cloister.core.turn import Status, TurnBudget
from cloister.threads.drivers.journal import Transport
from cloister.threads.drivers.tools import offered
from tests.threads.drivers.lab import FENCED, FUNCTIONS, host, results, said_of, scripted, talk, work

pytestmark = pytest.mark.anyio

LANGUAGES = list(Language)
ORDERS = {
    Language.PYTHON: 'o = await get_order(order_id="A7")\nprint("seen")\no["total"]',
    Language.TYPESCRIPT: 'const o = await tools.get_order({order_id: "A7"});\nconsole.log("seen");\no.total',
}


@tool
async def get_order(order_id: str) -> dict[str, object]:
    """An order."""
    return {"id": order_id, "total": 12}


def ordering(language: Language) -> str:
    code = ORDERS[language].replace("\n", "\n      ")
    return f"""
answers:
  - reasoning: They ask for an order.
    text: I will look.
    exec: |
      {code}
    language: {language}
    pieces: 3
    usage: {{input_tokens: 10, output_tokens: 5, cached_tokens: 2}}
  - expect: "12"
    text: It is 12.
    usage: {{input_tokens: 20, output_tokens: 4}}
"""


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("capabilities", [None, FUNCTIONS, FENCED], ids=["freeform", "functions", "fenced"])
async def test_model_writes_a_program_and_says_what_came_of_it(
    tmp_path: Path, language: Language, capabilities: dict[str, bool] | None
) -> None:
    model = scripted(ordering(language), capabilities=capabilities)
    async with host(tmp_path / "a.db", model, tools=[get_order]) as cloister:
        turn, items = await talk(cloister.threads, "what is A7?", language=language)
        assert (turn.status, turn.error, turn.model) == (Status.COMPLETED, None, "demo")
        assert (turn.usage.requests, turn.usage.input_tokens, turn.usage.output_tokens) == (2, 30, 9)
        assert turn.usage.cache_read_tokens == 2
        [cell] = work(items)
        assert isinstance(cell.detail, CellRun)
        assert (cell.detail.code.strip(), cell.detail.language) == (ORDERS[language], language)
        assert (cell.status, cell.detail.outcome) == (Status.COMPLETED, "completed")
        assert said_of(cell) == "seen\n\n[completed] result: 12"
        assert [one.detail.text for one in items if isinstance(one.detail, AgentReasoning)] == [
            "They ask for an order."
        ]
        assert [one.detail.text for one in items if isinstance(one.detail, AgentMessage)][-1] == "It is 12."
        # The model is told how to write programs, and which tools there are, with its request.
        assert "get_order" in model.asked[0].instructions
        assert language in model.asked[0].instructions.lower()
        thread = (await cloister.threads.get(turn.thread_id)).thread
        assert (thread.provider, thread.model) == ("scripted", "demo")


async def test_texts_of_its_tools_are_short_and_say_what_they_take() -> None:
    for language in LANGUAGES:
        for transport in Transport:
            tools = offered(transport, language)
            if transport is Transport.FENCED:
                assert tools == ()
                continue
            assert [one.name for one in tools] == ["exec", "wait", "search_tools"]
            assert all(len(one.description) <= 160 for one in tools)
            if transport is Transport.FREEFORM:
                assert isinstance(tools[0], FreeformTool)
            else:
                assert isinstance(tools[0], FunctionTool)
                assert tools[0].input_schema["required"] == ["code"]
                assert tools[0].input_schema["properties"]["language"] == {"type": "string", "enum": [str(language)]}


async def test_system_prompt_is_told_behind_what_programs_can_do(tmp_path: Path) -> None:
    model = scripted("answers: [{text: Hello.}]")
    async with host(tmp_path / "a.db", model) as cloister:
        thread = await cloister.threads.create()
        thread = await cloister.threads.patch(thread.id, {"system_prompt": "Be brief."})
        await talk(cloister.threads, thread=thread)
        assert model.asked[0].instructions.endswith("\n\nBe brief.")


async def test_conversation_is_told_whole_and_in_order_turn_after_turn(tmp_path: Path) -> None:
    model = scripted(
        """
answers:
  - calls: [{tool: exec, arguments: {code: "x = 40"}}, {tool: exec, arguments: {code: "x + 2"}}]
  - text: Forty-two.
  - exec: x
  - text: Forty.
""",
        capabilities=FUNCTIONS,
    )
    async with host(tmp_path / "a.db", model) as cloister:
        turn, _ = await talk(cloister.threads, "one")
        thread = (await cloister.threads.get(turn.thread_id)).thread
        await talk(cloister.threads, "two", thread=thread)
        assert [type(one) for one in model.asked[-1].messages] == [
            UserMessage,
            AssistantMessage,
            ToolResult,
            ToolResult,
            AssistantMessage,
            UserMessage,
            AssistantMessage,
            ToolResult,
        ]
        assert [one.call_id for one in results(model.asked[-1])] == ["call_1_1", "call_1_2", "call_3_1"]
        assert "result: 42" in model.told()
        assert "result: 40" in model.told()
        # What was said before is said again to the letter.
        for before, after in zip(model.asked, model.asked[1:], strict=False):
            assert after.messages[: len(before.messages)] == before.messages
            assert after.instructions == before.instructions


async def test_cell_that_goes_on_is_told_and_waited_for(tmp_path: Path) -> None:
    model = scripted(
        """
answers:
  - exec: |
      print("early")
      yield_control()
      print("late")
      7
  - expect: "goes on"
    wait: {yield_ms: 60000}
  - expect: "7"
    calls: [{tool: wait, arguments: {cell_id: nobody}}]
  - expect: not found
    text: Done.
"""
    )
    async with host(tmp_path / "a.db", model) as cloister:
        turn, items = await talk(cloister.threads)
        assert turn.status is Status.COMPLETED, turn.error
        cell, waited, lost = work(items)
        assert isinstance(cell.detail, CellRun)
        assert isinstance(waited.detail, ToolCall)
        assert (cell.detail.outcome, waited.detail.success, lost.status) == ("yielded", True, Status.FAILED)
        assert waited.detail.cell_id == cell.detail.cell_id
        # Its worker does not wait for who looks: what it says next may be there already when the first observer goes.
        assert "early" in said_of(cell)
        assert (said_of(cell) + said_of(waited)).count("late") == 1


async def test_tools_are_found_by_words(tmp_path: Path) -> None:
    model = scripted(
        """
answers:
  - calls:
    - {tool: search_tools, arguments: {query: order, limit: 3}}
    - {tool: search_tools, arguments: {query: order, limit: none}}
  - text: Found.
"""
    )
    async with host(tmp_path / "a.db", model, tools=[get_order]) as cloister:
        _, items = await talk(cloister.threads)
        found, refused = work(items)
        assert "- get_order: An order." in said_of(found)
        assert (found.status, refused.status) == (Status.COMPLETED, Status.FAILED)
        assert "limit" in said_of(refused)


async def test_budget_is_checked_before_each_request(tmp_path: Path) -> None:
    model = scripted(
        "answers: [{exec: '1', usage: {input_tokens: 90}}, {exec: '2', usage: {input_tokens: 90}}, {text: x}]"
    )
    async with host(tmp_path / "a.db", model) as cloister:
        turn, items = await talk(cloister.threads, budget=TurnBudget(iterations=1))
        assert turn.error is not None
        assert (turn.status, turn.error.code, len(work(items))) == (Status.FAILED, "BUDGET_SPENT", 1)
        turn, _ = await talk(cloister.threads, budget=TurnBudget(tokens=150))
        assert turn.error is not None
        assert (turn.error.code, turn.usage.requests) == ("BUDGET_SPENT", 2)


@pytest.mark.parametrize("driver", list(DriverKind))
async def test_time_that_is_up_ends_the_turn_with_what_it_had_begun(tmp_path: Path, driver: DriverKind) -> None:
    @tool
    async def forever() -> None:
        await asyncio.Event().wait()

    doing = "exec: await forever()" if driver is DriverKind.CODE else "calls: [{tool: forever}]"
    model = scripted(
        f"""
answers:
  - - when: again
      text: Well.
    - {doing}
  - text: Well.
"""
    )
    async with host(tmp_path / "a.db", model, tools=[forever]) as cloister:
        turn, items = await talk(cloister.threads, driver=driver, budget=TurnBudget(wall_ms=500))
        assert turn.error is not None
        assert (turn.status, turn.error.code) == (Status.FAILED, "BUDGET_SPENT")
        assert all(item.status.is_final for item in items)
        thread = (await cloister.threads.get(turn.thread_id)).thread
        assert await cloister.session(thread.session_id).cells() == []
        turn, _ = await talk(cloister.threads, "again", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error


async def test_answer_that_was_cut_off_is_never_run(tmp_path: Path) -> None:
    model = scripted(
        """
answers:
  - exec: "open('/ran', 'w').write('x')"
    finish: length
  - expect: cut off
    text: Half a
    finish: length
"""
    )
    async with host(tmp_path / "a.db", model) as cloister:
        turn, items = await talk(cloister.threads)
        [cell] = work(items)
        assert cell.status is Status.FAILED
        assert turn.error is not None
        assert (turn.status, turn.error.code) == (Status.FAILED, "answer_cut")
        session = cloister.session((await cloister.threads.get(turn.thread_id)).thread.session_id)
        assert await session.files.list("/") == []


async def test_images_that_the_model_cannot_see_are_said_to_be_there(tmp_path: Path) -> None:
    pixel = "data:image/png;base64,iVBORw0KGgo="
    script = f"answers: [{{exec: \"image('{pixel}')\"}}, {{text: Seen.}}]"
    for can in (True, False):
        model = scripted(script, capabilities={"images_in_results": can})
        async with host(tmp_path / f"{can}.db", model) as cloister:
            turn, _ = await talk(cloister.threads)
            assert turn.status is Status.COMPLETED
            assert ("[image]" in model.told()) is can
            assert ("takes none" in model.told()) is not can
