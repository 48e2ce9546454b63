"""Hooks, through sessions: the host's own say about each call, whoever makes it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from cloister import (
    CallContext,
    CallStatus,
    CapabilityLimits,
    Deny,
    ExternalCallRecord,
    Hook,
    HookedCall,
    Note,
    Replace,
    RunResult,
    RunStatus,
    Tool,
    ToolError,
)
from tests.sessions.door import value
from tests.sessions.ways import LANGUAGES, WAYS, House, call, caught, written

pytestmark = pytest.mark.anyio

both_languages = pytest.mark.parametrize("language", LANGUAGES)
every_way = pytest.mark.parametrize("way", WAYS)
VALUE = "hunter2-hunter2"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


class Post:
    """`send(text)`, and what was sent."""

    def __init__(self, **options: Any) -> None:
        self.sent: list[str] = []
        self.notes: list[dict[str, str]] = []
        self.tool = Tool(self._send, name="send", **options)

    async def _send(self, text: str, ctx: CallContext) -> str:
        self.notes.append(dict(ctx.notes))
        if text == "fail":
            raise ToolError("LOST", "it was lost")
        self.sent.append(text)
        return f"sent {text}"


class Before(Hook):
    """Answers with what it was made with, and remembers what it was asked."""

    def __init__(self, answer: Callable[[HookedCall], Any]) -> None:
        self._answer = answer
        self.asked: list[HookedCall] = []

    async def before_call(self, call: HookedCall) -> Any:
        self.asked.append(call)
        return self._answer(call)


class After(Hook):
    def __init__(self, answer: Callable[[ExternalCallRecord], Any]) -> None:
        self._answer = answer
        self.told: list[ExternalCallRecord] = []

    async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> Any:
        self.told.append(record)
        return self._answer(record)


class Diary(Hook):
    def __init__(self, name: str, lines: list[str]) -> None:
        self._name, self._lines = name, lines

    async def before_call(self, call: HookedCall) -> Note:
        self._lines.append(f"{self._name} before, after {','.join(call.notes)}")
        return Note({self._name: "was here"})

    async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
        self._lines.append(f"{self._name} after {record.status}")


def _text(call: HookedCall) -> str:
    return cast("dict[str, str]", call.arguments)["text"]


def _refused(result: RunResult) -> tuple[str | None, list[CallStatus]]:
    return result.error and result.error.code, [record.status for record in result.external_calls]


DENIED = ("PERMISSION_DENIED", [CallStatus.DENIED])


# -- before a call ------------------------------------------------------------------------------------------------


@every_way
async def test_hooks_of_the_runtime_come_before_those_of_the_session(way: str) -> None:
    lines: list[str] = []
    post = Post()
    async with House(hooks=[Diary("a", lines), Diary("b", lines)]) as house:
        async with await house.open(way, post.tool, hooks=[Diary("c", lines)]) as session:
            assert (await call(session, way, "send", text="hi")).ok
            assert lines == [
                "a before, after ",
                "b before, after a",
                "c before, after a,b",
                "a after ok",
                "b after ok",
                "c after ok",
            ]
            assert post.notes == [{"a": "was here", "b": "was here", "c": "was here"}]


@every_way
async def test_hooks_of_one_session_are_not_asked_about_another_s_calls(house: House, way: str) -> None:
    post, never = Post(), Before(lambda _: Deny("not mine"))
    async with await house.open(way, post.tool, hooks=[never]), await house.open(way, post.tool) as other:
        assert (await call(other, way, "send", text="hi")).ok
        assert never.asked == []


@every_way
async def test_hook_is_told_what_would_be_done(house: House, way: str) -> None:
    post, hook = Post(side_effect="network", idempotent=False, namespace="mail"), Before(lambda _: None)
    async with await house.open(way, post.tool, hooks=[hook]) as session:
        result = await call(session, way, "mail.send", text="hi")
        (asked,) = hook.asked
        assert (asked.name, asked.arguments) == ("mail.send", {"text": "hi"})
        assert (asked.side_effect, asked.idempotent) == ("network", False)
        assert (asked.session_id, asked.cell_id) == (session.id, result.cell_id)
        assert asked.id == result.external_calls[0].id


@both_languages
async def test_call_that_a_hook_denies_is_not_made_and_the_program_can_catch_it(house: House, language: str) -> None:
    post, hook = Post(), Before(lambda _: Deny("not on a Sunday", "try tomorrow"))
    later = Before(lambda _: None)
    async with await house.open(language, post.tool, hooks=[hook, later]) as session:
        text = "text='hi'" if language == "python" else "{text: 'hi'}"
        result = await session.run(caught(language, "send", text))
        assert value(result) == "PERMISSION_DENIED: `send` is denied: not on a Sunday (try tomorrow)"
        assert [record.status for record in result.external_calls] == [CallStatus.DENIED]
        assert (post.sent, later.asked) == ([], [])


@every_way
async def test_denied_call_that_nobody_catches_ends_the_run_as_permission_denied(house: House, way: str) -> None:
    post = Post()
    async with await house.open(way, post.tool, hooks=[Before(lambda _: Deny("no", "never"))]) as session:
        result = await call(session, way, "send", text="hi")
        assert result.status is RunStatus.PERMISSION_DENIED
        assert result.error is not None
        assert (result.error.code, result.error.hint) == ("PERMISSION_DENIED", "never")


@every_way
async def test_tool_is_called_with_what_a_hook_put_in_place_of_the_arguments(house: House, way: str) -> None:
    post = Post()
    shout = Before(lambda call: Replace({"text": _text(call).upper()}))
    twice = Before(lambda call: Replace({"text": _text(call) * 2}))
    async with (
        await house.open(way, post.tool, hooks=[shout, twice]) as session,
        await house.open(way, post.tool) as plain,
    ):
        result = await call(session, way, "send", text="hi")
        assert (value(result), post.sent) == ("sent HIHI", ["HIHI"])
        # What is on record is what was sent.
        as_sent = await call(plain, way, "send", text="HIHI")
        assert result.external_calls[0].request_digest == as_sent.external_calls[0].request_digest


@pytest.mark.parametrize("wrong", [{"text": 5}, {}, {"text": "a", "more": 1}, "text", None, {"text": "x" * 2000}])
async def test_arguments_of_a_hook_are_held_to_what_a_program_s_are(house: House, wrong: Any) -> None:
    post = Post(limits=CapabilityLimits(max_request_bytes=1000))
    async with await house.open("host", post.tool, hooks=[Before(lambda _: Replace(wrong))]) as session:
        result = await session.call("send", {"text": "hi"})
        assert _refused(result) == ("INVALID_ARGUMENTS", [CallStatus.ERROR])
        assert post.sent == []


async def test_policy_and_person_see_what_a_hook_made_of_the_call_and_the_hook_is_asked_once(house: House) -> None:
    post, hook = Post(approval_policy="manual"), Before(lambda _: Replace({"text": "mild"}))
    async with await house.open("python", post.tool, hooks=[hook]) as session:
        waiting = await session.run("await send('rude')")
        assert waiting.approvals[0].arguments == {"text": "mild"}
        await house.cloister.decide(waiting.approvals[0].id, "allow")
        assert value(await session.resume()) == "sent mild"
        assert len(hook.asked) == 1


async def test_hook_that_changes_what_it_was_shown_changes_nothing(house: House) -> None:
    def meddle(call: HookedCall) -> None:
        cast("dict[str, str]", call.arguments)["text"] = "changed"

    post = Post()
    async with await house.open("host", post.tool, hooks=[Before(meddle)]) as session:
        assert value(await session.call("send", {"text": "hi"})) == "sent hi"


@both_languages
async def test_each_of_many_calls_made_at_once_is_asked_about(house: House, language: str) -> None:
    code = {
        "python": "import asyncio\nawait asyncio.gather(*[send(str(n)) for n in range(5)])",
        "typescript": "await Promise.all([0, 1, 2, 3, 4].map(n => tools.send({text: `${n}`})))",
    }
    post, hook = Post(), Before(lambda call: Replace({"text": f"<{_text(call)}>"}))
    async with await house.open(language, post.tool, hooks=[hook]) as session:
        assert value(await session.run(code[language])) == [f"sent <{n}>" for n in range(5)]
        assert len({asked.id for asked in hook.asked}) == 5


# -- hooks that go wrong --------------------------------------------------------------------------------------------


def _raise(error: BaseException) -> Any:
    raise error


WRONG: dict[str, Callable[[Any], Any]] = {
    "raises": lambda _: _raise(ValueError("/etc/private is gone")),
    "raises to end the process": lambda _: _raise(SystemExit("/etc/private")),
    "answers with what is no answer": lambda _: True,
    "denies with a word": lambda _: "deny",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@every_way
async def test_hook_that_goes_wrong_before_a_call_denies_it(
    house: House, way: str, wrong: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    post = Post()
    async with await house.open(way, post.tool, hooks=[Before(wrong)]) as session:
        with caplog.at_level(logging.ERROR):
            result = await call(session, way, "send", text="hi")
        assert _refused(result) == DENIED
        assert "Before" in str(result.error)
        assert "private" not in str(result)
        assert "Before" in caplog.text
        assert post.sent == []


WRONG_AFTER: dict[str, Callable[[Any], Any]] = {**WRONG, "replaces what is over": lambda _: Replace({})}


@pytest.mark.parametrize("wrong", WRONG_AFTER.values(), ids=WRONG_AFTER)
@every_way
async def test_hook_that_goes_wrong_after_a_call_withholds_its_result(
    house: House, way: str, wrong: Callable[[Any], Any]
) -> None:
    post = Post()
    async with await house.open(way, post.tool, hooks=[After(wrong)]) as session:
        result = await call(session, way, "send", text="hi")
        assert _refused(result) == DENIED
        assert "private" not in str(result)
        assert "sent hi" not in str(result)
        assert post.sent == ["hi"]


class Slow(Hook):
    def __init__(self, *, after: bool = False) -> None:
        self._after = after
        self.stopped = 0

    async def _wait(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise

    async def before_call(self, call: HookedCall) -> None:
        if not self._after:
            await self._wait()

    async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
        if self._after:
            await self._wait()


@every_way
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_hook_that_takes_longer_than_the_call_may_denies_it_and_is_stopped(
    house: House, way: str, after: bool
) -> None:
    post, slow = Post(limits=CapabilityLimits(timeout_ms=300)), Slow(after=after)
    async with await house.open(way, post.tool, hooks=[slow]) as session:
        result = await call(session, way, "send", text="hi")
        assert _refused(result) == DENIED
        assert "took longer than 300 ms" in str(result.error)
        assert slow.stopped == 1
        assert post.sent == (["hi"] if after else [])


async def test_hook_is_stopped_when_its_run_is_cancelled(house: House) -> None:
    began = asyncio.Event()

    class Begun(Slow):
        async def before_call(self, call: HookedCall) -> None:
            began.set()
            await super().before_call(call)

    post, hook = Post(), Begun()
    async with await house.open("python", post.tool, hooks=[hook]) as session:
        run = asyncio.create_task(session.run("await send('hi')"))
        await began.wait()
        run.cancel()
        await asyncio.wait([run])
        assert (hook.stopped, post.sent) == (1, [])


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_plain_hook_is_held_to_the_same(house: House, wrong: Callable[[Any], Any]) -> None:
    class Plain:
        def before_call(self, call: HookedCall) -> Any:
            return wrong(call)

    post = Post()
    async with await house.open("host", post.tool, hooks=[Plain()]) as session:
        assert _refused(await session.call("send", {"text": "hi"})) == DENIED
        assert post.sent == []


# -- after a call -------------------------------------------------------------------------------------------------


@both_languages
async def test_hook_can_withhold_the_result_of_a_call_that_was_made(house: House, language: str) -> None:
    post, hook = Post(), After(lambda _: Deny("looks odd", "ask Ann"))
    async with await house.open(language, post.tool, hooks=[hook]) as session:
        result = await session.run(caught(language, "send", "'hi'"))
        assert str(value(result)).startswith(
            "PERMISSION_DENIED: `send` has happened, but its result is withheld: looks odd"
        )
        assert post.sent == ["hi"]
        assert [record.status for record in result.external_calls] == [CallStatus.DENIED]


@every_way
async def test_every_hook_hears_how_a_call_ended_even_if_one_withholds_it(house: House, way: str) -> None:
    post, first, second = Post(), After(lambda _: Deny("no")), After(lambda _: None)
    async with await house.open(way, post.tool, hooks=[first, second]) as session:
        await call(session, way, "send", text="hi")
        await call(session, way, "send", text="fail")
        told = [(record.status, record.error and record.error.code) for record in second.told]
        assert told == [(CallStatus.OK, None), (CallStatus.ERROR, "LOST")]


async def test_call_that_was_never_made_is_not_heard_of_as_made(house: House) -> None:
    post, hook = Post(), After(lambda _: None)
    async with await house.open("host", post.tool, hooks=[hook], deny=["true"]) as session:
        await session.call("send", {"text": "hi"})
        await session.call("send", {"text": 5})
        assert hook.told == []


# -- secrets --------------------------------------------------------------------------------------------------------


@both_languages
async def test_hooks_see_handles_and_never_the_values_of_secrets(house: House, language: str) -> None:
    class Spy(Hook):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        async def before_call(self, call: HookedCall) -> None:
            self.seen.append(call)

        async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
            self.seen.append((call, record))

    post, spy = Post(), Spy()
    secrets = {"TOKEN": {"value": VALUE, "allowed": ["send"]}}
    async with await house.open(language, post.tool, hooks=[spy], secrets=secrets) as session:
        result = await session.run(written(language, "send", "'Bearer ' + secret('TOKEN')"))
        assert value(result) == "sent Bearer [secret TOKEN]"
        assert post.sent == [f"Bearer {VALUE}"]
        handle = (await session.run("secret('TOKEN')")).result
        assert [call.arguments for call in (spy.seen[0], spy.seen[1][0])] == [{"text": f"Bearer {handle}"}] * 2
        assert VALUE not in repr(spy.seen)


async def test_hook_can_put_in_a_handle_but_not_for_a_tool_that_may_not_have_it(house: House) -> None:
    post, other = Post(), Post(namespace="other")
    secrets = {"TOKEN": {"value": VALUE, "allowed": ["send"]}}
    put: dict[str, str] = {}
    hook = Before(lambda _: Replace({"text": put["handle"]}))
    async with await house.open("host", post.tool, other.tool, hooks=[hook], secrets=secrets) as session:
        put["handle"] = (await session.run("secret('TOKEN')")).result
        assert (await session.call("send", {"text": "-"})).ok
        assert post.sent == [VALUE]
        assert _refused(await session.call("other.send", {"text": "-"})) == DENIED
        assert other.sent == []
