"""`complete()` inside a cell: a program asks a scripted model, through the gate, and pays for an answer once."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, CompleteOptions, tool
from cloister.core.answer import Answer, FinishReason, Piece
from cloister.core.call import CallStatus
from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput, ModelRateLimited, ProviderUnconfigured
from cloister.core.language import Language
from cloister.core.message import AssistantMessage, InputText, OutputText, UserMessage
from cloister.core.usage import Usage
from cloister.ports.model import Asked, Model, ModelCapabilities
from cloister.threads.models import ModelRegistry

pytestmark = pytest.mark.anyio

_SCRIPT = """
answers:
  - - when: capital
      text: Oslo
      usage: {input_tokens: 12, output_tokens: 3}
    - when: fenced
      text: |
        ```json
        {"city": "Oslo", "people": 700000}
        ```
    - when: prose
      text: I think it is Oslo.
    - when: long
      text: Once upon a
      finish: length
    - when: busy
      error: {code: model_rate_limited, message: slow down, status: 429}
    - text: "yes"
"""
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@asynccontextmanager
async def _host(tmp_path: Path, **options: Any) -> AsyncGenerator[Cloister, None]:
    (tmp_path / "answers.yaml").write_text(_SCRIPT)
    complete = options.pop("complete", CompleteOptions(max_calls=3))
    async with (
        ModelRegistry(base=tmp_path) as models,
        Cloister(models=models, model="scripted:answers.yaml", complete=complete, **options) as cloister,
    ):
        yield cloister


async def test_program_asks_a_model_and_its_record_says_what_that_took(tmp_path: Path) -> None:
    async with _host(tmp_path) as cloister:
        session = await cloister.open_session()
        result = await session.run("await complete('the capital of Norway?')")
        assert (result.status, result.result) == ("ok", "Oslo")
        [record] = result.external_calls
        assert (record.name, record.side_effect, record.status) == ("complete", SideEffect.EXTERNAL_SYSTEM, "ok")
        assert record.usage is not None
        assert (record.usage["input_tokens"], record.usage["output_tokens"], record.usage["requests"]) == (12, 3, 1)
        script = await cloister.open_session("script", language=Language.TYPESCRIPT)
        result = await script.run(
            "const both = await Promise.all([complete('the capital?'), tools.complete({prompt: 'fenced', schema: "
            "{type: 'object', required: ['city']}})]);\n[both[0], both[1].people]"
        )
        assert result.result == ["Oslo", 700000]


async def test_without_being_switched_on_there_is_nothing_to_ask(tmp_path: Path) -> None:
    async with _host(tmp_path, complete=None) as cloister:
        result = await (await cloister.open_session()).run("await complete('capital')")
        assert result.error is not None
        assert "complete" in result.error.message
    with pytest.raises(InvalidInput, match="model"):
        Cloister(complete=CompleteOptions())
    with pytest.raises(InvalidInput):
        CompleteOptions(max_calls=0)


async def test_what_goes_wrong_is_an_error_with_a_code_that_a_program_can_catch(tmp_path: Path) -> None:
    catch = "try:\n    said = await complete({})\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
    async with _host(tmp_path, complete=CompleteOptions(max_calls=20)) as cloister:
        session = await cloister.open_session()
        for asked, code in {
            "'busy'": "model_rate_limited",
            "'a long story'": "answer_cut",
            f"'prose', schema={_CITY}": "answer_invalid",
            f"'fenced', schema={ {**_CITY, 'required': ['mayor']} }": "answer_invalid",
            "'capital', schema={'type': 'nonsense'}": "INVALID_ARGUMENTS",
            "''": "INVALID_ARGUMENTS",
            "'capital', model='other'": "INVALID_ARGUMENTS",
        }.items():
            result = await session.run(catch.format(asked))
            assert str(result.result).startswith(code), (asked, result)
        script = await cloister.open_session("script", language=Language.TYPESCRIPT)
        result = await script.run(
            "let code = ''; try { await complete('busy') } catch (error) { code = error.code } code"
        )
        assert result.result == "model_rate_limited"


async def test_cell_may_ask_so_often_and_the_next_cell_again(tmp_path: Path) -> None:
    many = """\
import asyncio
async def ask():
    try:
        return await complete('capital')
    except RuntimeError as error:
        return str(error).split(':')[0]
await asyncio.gather(*[ask() for _ in range(5)])
"""
    async with _host(tmp_path) as cloister:
        session = await cloister.open_session()
        for _ in range(2):
            result = await session.run(many)
            assert sorted(result.result) == ["EXTERNAL_CALLS_EXCEEDED"] * 2 + ["Oslo"] * 3


async def test_policies_say_which_sessions_may_ask(tmp_path: Path) -> None:
    rule = "name == 'complete' && !('may' in session.labels && session.labels.may == 'ask')"
    async with _host(tmp_path, deny=[rule]) as cloister:
        allowed = await cloister.open_session("allowed", labels={"may": "ask"})
        assert (await allowed.run("await complete('capital')")).result == "Oslo"
        refused = await (await cloister.open_session("other")).run("await complete('capital')")
        assert refused.status == "permission_denied"
        bare = await cloister.open_session("bare", include_base_tools=False)
        assert (await bare.run("await complete('capital')")).status != "ok"


class _Counting:
    """A model that says what it is told to, and counts; the wire is what it stands for."""

    provider = "counting"
    name = "counting"
    capabilities = ModelCapabilities()

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most: list[int | None] = []
        self.gone = asyncio.Event()
        self.hold = asyncio.Event()

    @asynccontextmanager
    async def request(self, asked: Asked) -> AsyncGenerator[AsyncIterator[Piece], None]:
        [message] = asked.messages
        assert isinstance(message, UserMessage)
        [part] = message.content
        assert isinstance(part, InputText)
        self.asked.append(part.text)
        self.most.append(asked.max_output_tokens)
        try:
            yield self._pieces(part.text)
        finally:
            self.gone.set()

    async def _pieces(self, said: str) -> AsyncIterator[Piece]:
        if said == "wait":
            await self.hold.wait()
        if said == "fail":
            raise ModelRateLimited("slow down", provider=self.provider, model=self.name)
        message = AssistantMessage((OutputText(f"{said} #{len(self.asked)}"),))
        yield Answer(message, FinishReason.STOP, Usage(input_tokens=1, output_tokens=2, requests=1))


class _Models:
    def __init__(self, model: Model | None) -> None:
        self._model = model

    def get(self, name: str) -> Model:
        if self._model is None:
            raise ProviderUnconfigured(f"there is no key for {name!r}", hint="set COUNTING_KEY")
        return self._model


@tool(side_effect=SideEffect.WRITE, approval_policy="manual")
async def publish(text: str) -> str:
    """Publish it."""
    return text


async def test_settled_answer_is_not_paid_twice_and_counts_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path / 'c.db'}?synchronous=normal"
    program = """\
drafts = [await complete('one'), await complete('two')]
await publish(text=drafts[0])
try:
    drafts.append(await complete('three'))
except RuntimeError as error:
    drafts.append(str(error).split(':')[0])
drafts
"""
    options: dict[str, Any] = {"store": store, "tools": [publish], "complete": CompleteOptions("m", max_calls=2)}
    first = _Counting()
    async with Cloister(models=_Models(first), **options) as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec(program, yield_ms=60_000)
        assert seen.status == "waiting_for_approval"
    second = _Counting()
    async with Cloister(models=_Models(second), **options) as cloister:
        session = await cloister.open_session("s")
        [approval] = await cloister.approvals()
        await cloister.decide(approval.id, "allow")
        seen = await session.wait(seen.cell_id, yield_ms=60_000)
        while seen.status == "yielded":
            seen = await session.wait(seen.cell_id, yield_ms=60_000)
        assert seen.status == "completed"
        # The cell had asked as often as it may, in the process before.
        assert seen.result == ["one #1", "two #2", "EXTERNAL_CALLS_EXCEEDED"]
        assert [call.usage for call in seen.external_calls if call.name == "complete"][:2] == [
            {"input_tokens": 1, "output_tokens": 2, "cached_tokens": 0, "requests": 1}
        ] * 2
    assert (first.asked, second.asked) == (["one", "two"], [])
    assert first.most == [1024, 1024]


async def test_answer_that_was_on_its_way_is_unknown_and_not_asked_for_again(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path / 'c.db'}?synchronous=normal"
    program = "try:\n    said = await complete('wait')\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
    options: dict[str, Any] = {"store": store, "complete": CompleteOptions("m")}
    first, second = _Counting(), _Counting()
    async with Cloister(models=_Models(first), **options) as cloister:
        seen = await (await cloister.open_session("s")).exec(program, yield_ms=0)
        async with asyncio.timeout(30):
            while not first.asked:
                seen = await cloister.session("s").wait(seen.cell_id, yield_ms=20)
    assert first.gone.is_set()
    async with Cloister(models=_Models(second), **options) as cloister:
        seen = await (await cloister.open_session("s")).wait(seen.cell_id, yield_ms=60_000)
        assert seen.status == "completed"
        assert str(seen.result).startswith("OUTCOME_UNKNOWN")
    assert second.asked == []


async def test_request_ends_with_the_cell_that_made_it(tmp_path: Path) -> None:
    model = _Counting()
    async with Cloister(models=_Models(model), complete=CompleteOptions("m")) as cloister:
        session = await cloister.open_session()
        seen = await session.exec("await complete('wait')", yield_ms=0)
        async with asyncio.timeout(30):
            while not model.asked:
                seen = await session.wait(seen.cell_id, yield_ms=20)
            ended = await session.terminate(seen.cell_id)
            await model.gone.wait()
        assert ended.status == "terminated"


async def test_provider_that_is_not_configured_is_named_to_the_program() -> None:
    async with Cloister(models=_Models(None), complete=CompleteOptions("m")) as cloister:
        result = await (await cloister.open_session()).run("await complete('capital')")
        assert result.error is not None
        assert result.external_calls[0].status is CallStatus.ERROR
        assert result.external_calls[0].error is not None
        assert result.external_calls[0].error.code == "provider_unconfigured"
        # How its host is set up is not for programs.
        assert "COUNTING_KEY" not in str(result)
