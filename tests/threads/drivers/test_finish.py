"""`finish(value)`: it ends the turns that accept it, and is not there in others."""

from pathlib import Path

import pytest

from cloister import tool
from cloister.core.dynamic import DynamicToolSpec
from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.thread import DriverKind
from cloister.core.turn import Status
from tests.threads.drivers.lab import begin, ended, first, host, said_of, scripted, talk, work

pytestmark = pytest.mark.anyio

CALLS = {
    Language.PYTHON: 'await finish({"n": [1, None]})',
    Language.TYPESCRIPT: "await finish({value: {n: [1, null]}})",
}


@pytest.mark.parametrize("language", list(Language))
async def test_value_of_finish_is_the_answer_and_nothing_more_is_asked(tmp_path: Path, language: Language) -> None:
    model = scripted(f"answers: [{{exec: '{CALLS[language]}'}}, {{text: Never.}}]")
    async with host(tmp_path / "a.db", model) as cloister:
        turn, _ = await talk(cloister.threads, language=language, accepts_finish=True)
        assert (turn.status, turn.finished, turn.answer) == (Status.COMPLETED, True, {"n": [1, None]}), turn.error
        assert len(model.asked) == 1
        assert "finish" in model.asked[0].instructions


async def test_finish_is_unknown_in_turns_that_do_not_accept_it(tmp_path: Path) -> None:
    model = scripted("answers: [{exec: 'await finish(1)'}, {exec: 'await finish(1)'}, {expect: UNKNOWN_TOOL, text: x}]")
    async with host(tmp_path / "a.db", model) as cloister:
        first_turn, _ = await talk(cloister.threads, accepts_finish=True)
        thread = (await cloister.threads.get(first_turn.thread_id)).thread
        turn, items = await talk(cloister.threads, thread=thread)
        assert (turn.status, turn.finished, turn.answer) == (Status.COMPLETED, False, None)
        assert "UNKNOWN_TOOL" in said_of(work(items)[0])
        assert "finish" not in model.asked[-1].instructions


async def test_first_finish_counts_and_what_was_not_begun_is_not_done(tmp_path: Path) -> None:
    model = scripted(
        """
capabilities: {freeform_tools: false}
answers:
  - calls:
    - {tool: exec, arguments: {code: "await finish(1)\\ntry: await finish(2)\\nexcept RuntimeError as e: print(e)"}}
    - {tool: exec, arguments: {code: "await finish(3)"}}
"""
    )
    async with host(tmp_path / "a.db", model) as cloister:
        turn, items = await talk(cloister.threads, accepts_finish=True)
        assert (turn.status, turn.answer) == (Status.COMPLETED, 1)
        ran, _, left = sorted(work(items), key=lambda item: (item.status is Status.CANCELLED, item.id))
        assert "finished already" in said_of(ran)
        assert left.status is Status.CANCELLED


async def test_finish_that_was_called_before_the_host_went_counts_after_it(tmp_path: Path) -> None:
    @tool(approval_policy="manual")
    async def pay() -> str:
        return "paid"

    script, path = "answers: [{exec: \"await finish('first')\\nawait pay()\"}, {text: Never.}]", tmp_path / "a.db"
    async with host(path, scripted(script), tools=[pay]) as cloister:
        turn = await begin(cloister.threads, accepts_finish=True)
        asked = await first(cloister.threads, turn.thread_id, "approval.required")
    model = scripted(script)
    async with host(path, model, tools=[pay]) as cloister:
        await cloister.decide(asked.payload["id"], "deny")
        turn, _ = await ended(cloister.threads, turn)
        assert (turn.status, turn.finished, turn.answer) == (Status.COMPLETED, True, "first")
        assert model.asked == []


async def test_model_finishes_by_itself_where_tools_are_plain_calls(tmp_path: Path) -> None:
    model = scripted("answers: [{calls: [{tool: finish, arguments: {value: 3}}]}]")
    async with host(tmp_path / "a.db", model) as cloister:
        turn, _ = await talk(cloister.threads, driver=DriverKind.NATIVE, accepts_finish=True)
        assert (turn.status, turn.finished, turn.answer) == (Status.COMPLETED, True, 3), turn.error


async def test_tool_of_that_name_is_refused_in_a_turn_that_accepts_it(tmp_path: Path) -> None:
    model = scripted("answers: [{text: Hi.}]")
    async with host(tmp_path / "a.db", model) as cloister:
        with pytest.raises(InvalidInput, match="finish"):
            await begin(cloister.threads, dynamic_tools=(DynamicToolSpec("finish"),), accepts_finish=True)
