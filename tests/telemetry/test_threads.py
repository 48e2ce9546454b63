"""Spans of turns, and of what models are asked in them."""

from collections.abc import Generator
from pathlib import Path

import pytest

from cloister import Cloister, CompleteOptions, tool
from cloister.core.answer import Answer
from cloister.core.errors import CloisterError
from cloister.core.item import CellRun
from cloister.core.message import user_text
from cloister.core.thread import ThreadParams
from cloister.core.turn import TurnUsage
from cloister.ports.model import Asked, Model
from cloister.threads import OpenTurn, TurnEnd
from cloister.threads.models import ModelRegistry
from cloister.threads.models.scripted import ScriptedModel, read_script
from tests.telemetry.lab import Seen, attributes, is_child
from tests.threads.lab import Plain, follow, say

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> Generator[None, None, None]:
    yield
    assert [record for record in caplog.records if record.name == "cloister.telemetry"] == []


def scripted(tmp_path: Path) -> Model:
    path = tmp_path / "script.yaml"
    path.write_text(
        "answers:\n"
        "  - text: the moon is silver\n"
        "    usage: {input_tokens: 11, output_tokens: 5}\n"
        "  - error: {code: model_refused, message: not now}\n"
    )
    return ScriptedModel(read_script(path), name="scripted:moon")


async def ask(model: Model, said: str = "what is the moon made of?", *, before: int = 0) -> Answer:
    answer: Answer | None = None
    asked = Asked((user_text(said),), "Be brief.", max_output_tokens=90, answers_before=before)
    async with model.request(asked) as pieces:
        async for piece in pieces:
            if isinstance(piece, Answer):
                answer = piece
    assert answer is not None
    return answer


async def test_turn_model_cell_and_call_are_one_trace(tmp_path: Path) -> None:
    seen = Seen()
    model = seen.telemetry.model(scripted(tmp_path))

    async def drive(turn: OpenTurn) -> TurnEnd:
        await ask(model, before=turn.turn.number - 1)
        item = turn.item(CellRun("1 + 1"))
        await turn.settle("d" * 64, {}, TurnUsage(requests=1, input_tokens=11, output_tokens=5), [item])
        await turn.exec(item, "1 + 1", yield_ms=60_000)
        await turn.end(item)
        return TurnEnd()

    async with Cloister(store=f"sqlite:///{tmp_path}/c.db?synchronous=normal", telemetry=seen.telemetry) as cloister:
        threads = cloister.threads
        threads.drive("code", Plain(drive))
        thread = await threads.create(ThreadParams())
        with seen.provider.get_tracer("host").start_as_current_span("of the host"):
            first = await say(threads, thread.id, "hello")
        with seen.provider.get_tracer("host").start_as_current_span("of another"):
            second = await say(threads, thread.id, "hello again")
        await follow(threads, thread.id, lambda one: one.event == "turn.completed" and one.turn_id == second)
    turns = {attributes(span)["cloister.turn.id"]: span for span in seen.named("invoke_agent")}
    assert set(turns) == {first, second}
    assert is_child(turns[first], of=seen.one("of the host"))
    # It stood in line, and is a child of the one who asked for it all the same.
    assert is_child(turns[second], of=seen.one("of another"))
    turn, chat = turns[first], seen.named("chat")[0]
    assert is_child(chat, of=turn)
    assert is_child(seen.named("cell")[0], of=turn)
    told = attributes(turn)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert told["gen_ai.conversation.id"] == thread.id
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (11, 5)
    # The second answer of the script is an error, and so the end of its turn.
    assert told["cloister.turn.status"] == "completed"
    assert attributes(turns[second])["error.type"] == "model_refused"
    assert {labels["cloister.turn.status"] for labels, _ in seen.points("cloister.turn.duration")} == {
        "completed",
        "failed",
    }


async def test_a_request_to_a_model_says_what_the_conventions_want(tmp_path: Path) -> None:
    seen = Seen()
    model = seen.telemetry.model(scripted(tmp_path))
    await ask(model)
    with pytest.raises(CloisterError):
        await ask(model, before=1)
    good, bad = seen.named("chat moon")
    assert attributes(good) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "moon",
        "gen_ai.request.max_tokens": 90,
        "gen_ai.response.model": "scripted:moon",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 5,
    }
    assert attributes(bad)["error.type"] == "model_refused"
    assert {(labels["gen_ai.token.type"], count) for labels, count in seen.points("gen_ai.client.token.usage")} == {
        ("input", 1),
        ("output", 1),
    }
    assert sum(count for _, count in seen.points("gen_ai.client.operation.duration")) == 2
    assert "silver" not in seen.everything()
    assert "made of" not in seen.everything()


async def test_what_is_said_is_in_it_where_the_host_wants_that(tmp_path: Path) -> None:
    seen = Seen(content=True)
    await ask(seen.telemetry.model(scripted(tmp_path)), "what is the moon made of?" + "x" * 10_000)
    told = attributes(seen.one("chat"))
    assert "what is the moon made of?" in told["gen_ai.input.messages"]
    assert len(told["gen_ai.input.messages"]) < 5_000
    assert told["gen_ai.system_instructions"] == '[{"type": "text", "content": "Be brief."}]'
    assert "the moon is silver" in told["gen_ai.output.messages"]


async def test_a_turn_of_the_real_driver_is_one_trace_from_the_model_to_the_call(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(
        "answers:\n"
        "  - calls:\n"
        "      - {tool: exec, arguments: {code: 'await weigh(what=\"pears\")'}}\n"
        "  - text: it weighs 5\n"
    )
    seen = Seen()

    @tool(side_effect="read")
    async def weigh(what: str) -> int:
        """Weigh something."""
        return len(what)

    async with (
        ModelRegistry(base=tmp_path) as models,
        Cloister(
            tools=[weigh],
            store=f"sqlite:///{tmp_path}/c.db?synchronous=normal",
            models=models,
            model="scripted:script.yaml",
            telemetry=seen.telemetry,
        ) as cloister,
    ):
        thread = await cloister.threads.create(ThreadParams())
        turn_id = await say(cloister.threads, thread.id, "how heavy are pears?")
        await follow(cloister.threads, thread.id, lambda one: one.event == "turn.completed" and one.turn_id == turn_id)
    turn = seen.one("invoke_agent")
    assert attributes(turn)["cloister.turn.status"] == "completed"
    assert [is_child(chat, of=turn) for chat in seen.named("chat")] == [True, True]
    cell = seen.one("cell")
    assert is_child(cell, of=turn)
    assert is_child(seen.one("execute_tool weigh"), of=cell)
    assert "heavy" not in seen.everything()


async def test_a_model_that_a_program_asks_is_asked_by_its_call(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("answers:\n  - text: silver\n")
    seen = Seen()
    models = ModelRegistry(base=tmp_path)
    async with Cloister(
        models=models, model="scripted:script.yaml", complete=CompleteOptions(), telemetry=seen.telemetry
    ) as cloister:
        session = await cloister.open_session()
        assert (await session.run("await complete(prompt='what is the moon made of?')")).result == "silver"
    call = seen.one("execute_tool complete")
    assert is_child(seen.one("chat"), of=call)
    assert is_child(call, of=seen.one("cell"))
