"""The host's say about each call: what hooks may answer, and that whatever else they do denies."""

import asyncio
import gc
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.gate.hooks import Deny, Hook, HookedCall, Hooks, Note, Replace
from cloister.gate.refusal import Refusal, refuse

pytestmark = pytest.mark.anyio

Answer = Callable[[HookedCall], Any]
RECORD = ExternalCallRecord("cal_1", "shop.pay", SideEffect.WRITE, 1.5, CallStatus.OK, "d" * 64)


def a_call(arguments: Json = None, **notes: str) -> HookedCall:
    return HookedCall("cal_1", "ses_1", "cel_1", "shop.pay", arguments, SideEffect.WRITE, False, notes)


async def untouched(arguments: Json) -> Json:
    raise AssertionError("nothing was replaced")


class Before:
    """An async hook that answers as it is told to, and remembers what it saw."""

    def __init__(self, answer: Answer = lambda call: None) -> None:
        self.answer = answer
        self.seen: list[HookedCall] = []

    async def before_call(self, call: HookedCall) -> Any:
        self.seen.append(call)
        await asyncio.sleep(0)
        return self.answer(call)


class PlainBefore(Before):
    def before_call(self, call: HookedCall) -> Any:
        self.seen.append(call)
        return self.answer(call)


class After:
    def __init__(self, answer: Answer = lambda call: None) -> None:
        self.answer = answer
        self.seen: list[tuple[HookedCall, ExternalCallRecord]] = []

    async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> Any:
        self.seen.append((call, record))
        await asyncio.sleep(0)
        return self.answer(call)


class PlainAfter(After):
    def after_call(self, call: HookedCall, record: ExternalCallRecord) -> Any:
        self.seen.append((call, record))
        return self.answer(call)


async def before(
    *hooks: object,
    call: HookedCall | None = None,
    timeout_ms: int = 5000,
    revalidate: Callable[[Json], Awaitable[Json]] = untouched,
) -> HookedCall:
    return await Hooks(hooks).before(call or a_call(), timeout_ms=timeout_ms, revalidate=revalidate)


async def after(*hooks: object, record: ExternalCallRecord = RECORD, timeout_ms: int = 5000) -> HookedCall:
    return await Hooks(hooks).after(a_call(), record, timeout_ms=timeout_ms)


async def denied(asking: Awaitable[HookedCall]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await asking
    assert caught.value.status == CallStatus.DENIED
    assert caught.value.error.code == "PERMISSION_DENIED"
    return caught.value


def raises(error: BaseException) -> Answer:
    def answer(call: HookedCall) -> None:
        raise error

    return answer


def dates(call: HookedCall) -> Replace:
    assert isinstance(call.arguments, dict)
    return Replace({**call.arguments, "dated": True})


# -- before ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Before, PlainBefore])
async def test_hook_that_says_nothing_lets_the_call_go_on_as_it_is(kind: type[Before]) -> None:
    hook = kind()
    call = a_call({"amount": 5}, earlier="note")
    assert await before(hook, call=call) == call
    assert hook.seen == [call]


@pytest.mark.parametrize("kind", [Before, PlainBefore])
async def test_hook_that_denies_ends_the_call_with_its_own_words(kind: type[Before]) -> None:
    later = Before()
    refusal = await denied(before(kind(lambda call: Deny("not on Sundays", "try on Monday")), later))
    assert refusal.error.message == "`shop.pay` is denied: not on Sundays"
    assert refusal.error.hint == "try on Monday"
    assert not later.seen


async def test_hooks_are_asked_in_the_order_in_which_they_were_given() -> None:
    order: list[int] = []
    await before(*(kind(lambda call, n=n: order.append(n)) for n, kind in enumerate([Before, PlainBefore] * 3)))
    assert order == list(range(6))


@pytest.mark.parametrize("kind", [Before, PlainBefore])
async def test_replaced_arguments_are_validated_and_the_next_hook_sees_what_came_of_it(kind: type[Before]) -> None:
    checked: list[Json] = []

    async def revalidate(arguments: Json) -> Json:
        checked.append(arguments)
        return {"as": "validated"}

    later = Before()
    call = await before(kind(dates), later, call=a_call({"amount": 5}), revalidate=revalidate)
    assert checked == [{"amount": 5, "dated": True}]
    assert call.arguments == {"as": "validated"}
    assert later.seen[0].arguments == {"as": "validated"}


async def test_replaced_arguments_that_do_not_fit_end_the_call_with_the_refusal_of_the_validation() -> None:
    async def revalidate(arguments: Json) -> Json:
        raise refuse("INVALID_ARGUMENTS", "no such field")

    later = Before()
    with pytest.raises(Refusal) as caught:
        await before(Before(lambda call: Replace({"x": 1})), later, revalidate=revalidate)
    assert caught.value.error.code == "INVALID_ARGUMENTS"
    assert not later.seen


async def test_arguments_that_a_hook_changes_in_place_stay_as_they_are() -> None:
    def meddle(call: HookedCall) -> None:
        assert isinstance(call.arguments, dict)
        cast("list[int]", call.arguments["ids"]).append(666)
        call.arguments["extra"] = True

    for size in (1, 5000):
        ids: list[Json] = list(range(size))
        later = PlainBefore()
        call = await before(Before(meddle), PlainBefore(meddle), later, call=a_call({"ids": ids}))
        assert call.arguments == {"ids": list(range(size))}
        assert later.seen[0].arguments == {"ids": list(range(size))}


async def test_large_arguments_are_copied_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    import cloister.gate.hooks as module

    threads: list[bool] = []
    real = module.plain

    def watched(*args: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return real(*args)

    monkeypatch.setattr(module, "plain", watched)
    large: list[Json] = list(range(100_000))
    await before(Before(), call=a_call(large))
    assert threads == [True, False]


async def test_arguments_are_plain_json_for_a_hook() -> None:
    hook = Before(lambda call: Note({"as": json.dumps(call.arguments)}))
    call = await before(hook, call=a_call({"ids": [1, 2]}))
    assert call.notes == {"as": '{"ids": [1, 2]}'}


# -- notes -------------------------------------------------------------------------------------------------------------


async def test_notes_are_merged_and_later_hooks_see_them() -> None:
    last = Before()
    call = await before(
        Before(lambda call: Note({"a": "1", "b": "1"})), PlainBefore(lambda call: Note({"b": "2"})), last
    )
    assert call.notes == last.seen[0].notes == {"a": "1", "b": "2"}


async def test_notes_cannot_be_changed_behind_the_gate_s_back() -> None:
    def meddle(call: HookedCall) -> None:
        cast("dict[str, str]", call.notes)["x"] = "y"

    await denied(before(Before(meddle), call=a_call(a="1")))


async def test_sixteen_notes_fit_and_one_more_denies() -> None:
    eight = Before(lambda call: Note({f"{len(call.notes)}.{n}": "x" for n in range(8)}))
    assert len((await before(eight, eight)).notes) == 16
    refusal = await denied(before(eight, eight, PlainBefore(lambda call: Note({"more": "x"}))))
    assert refusal.error.message == "`shop.pay` is denied: the hook PlainBefore noted too much"
    # To write over a note is not one more.
    assert (await before(eight, eight, PlainBefore(lambda call: Note({"0.0": "y"})))).notes["0.0"] == "y"


async def test_note_has_at_most_500_characters() -> None:
    Note({"k" * 500: "x" * 500})
    with pytest.raises(InvalidInput, match="note 'a' has 501 characters; 500 are allowed"):
        Note({"a": "x" * 501})
    with pytest.raises(InvalidInput, match="key of a note has 501 characters"):
        Note({"k" * 501: ""})


@pytest.mark.parametrize("notes", [{"a": 1}, {1: "a"}, {"a": None}, ["a"], "a", None])
async def test_note_that_is_no_text_is_refused(notes: Any) -> None:
    with pytest.raises(InvalidInput, match="not"):
        Note(notes)
    await denied(before(Before(lambda call: Note(notes))))


@pytest.mark.parametrize("words", [(None,), (1,), ("no", 2)])
async def test_deny_speaks_in_texts(words: Any) -> None:
    with pytest.raises(InvalidInput, match="a Deny is text, not"):
        Deny(*words)


# -- hooks that fail ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [ValueError("s3cret"), asyncio.CancelledError("s3cret"), SystemExit("s3cret"), KeyboardInterrupt("s3cret")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", [Before, PlainBefore])
async def test_hook_that_raises_denies_and_what_it_raised_is_only_logged(
    kind: type[Before], error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    later = Before()
    refusal = await denied(before(kind(raises(error)), later))
    assert refusal.error.message == f"`shop.pay` is denied: the hook {kind.__name__} failed"
    assert refusal.error.hint is None
    assert not later.seen
    [record] = caplog.records
    assert (record.name, record.levelname) == ("cloister.gate", "ERROR")
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("answer", [True, False, "allow", {"deny": "x"}, Deny, Refusal, 0, "", [], a_call()], ids=repr)
@pytest.mark.parametrize("kind", [Before, PlainBefore])
async def test_answer_that_is_none_of_the_four_denies(
    kind: type[Before], answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = await denied(before(kind(lambda call: answer)))
    assert refusal.error.message == f"`shop.pay` is denied: the hook {kind.__name__} failed"
    assert f"answered with {type(answer).__name__}" in caplog.text


async def test_hook_that_forgot_to_await_denies() -> None:
    async def forgotten() -> None:
        raise AssertionError("it was begun")

    await denied(before(Before(lambda call: forgotten())))
    gc.collect()


async def test_async_hook_that_takes_too_long_is_stopped_and_denies() -> None:
    stopped: list[str] = []

    class Slow:
        async def before_call(self, call: HookedCall) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("stopped")

    refusal = await denied(before(Slow(), timeout_ms=20))
    assert refusal.error.message == "`shop.pay` is denied: the hook Slow took longer than 20 ms"
    assert stopped == ["stopped"]


async def test_plain_hook_that_took_too_long_denies_though_it_said_yes() -> None:
    refusal = await denied(before(PlainBefore(lambda call: time.sleep(0.02)), timeout_ms=10))
    assert refusal.error.message == "`shop.pay` is denied: the hook PlainBefore took longer than 10 ms"


async def test_each_hook_has_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    real, passed = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + passed)

    def a_minute(call: HookedCall) -> None:
        nonlocal passed
        passed += 60

    await before(PlainBefore(a_minute), PlainBefore(a_minute), timeout_ms=100_000)
    await denied(before(PlainBefore(a_minute), timeout_ms=50_000))


async def test_hook_that_does_not_stop_cannot_hold_the_call() -> None:
    let_go, over = asyncio.Event(), asyncio.Event()

    class Stubborn:
        async def before_call(self, call: HookedCall) -> None:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            over.set()

    await denied(before(Stubborn(), timeout_ms=20))
    assert not over.is_set()
    # It goes on alone, and in peace.
    let_go.set()
    await over.wait()


async def test_caller_that_is_cancelled_takes_the_hook_along_and_that_is_no_denial(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    class Slow:
        async def before_call(self, call: HookedCall) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    asking = asyncio.create_task(before(Slow()))
    await began.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert stopped.is_set()
    assert not caplog.records


async def test_loop_that_ends_before_the_hook_s_first_step_leaves_no_warning() -> None:
    hook = Before()
    asking = asyncio.create_task(before(hook))
    others = asyncio.all_tasks()
    await asyncio.sleep(0)
    # What asyncio.run() does at its end, in the one moment in which the hook's task is there and has not begun.
    [asked] = asyncio.all_tasks() - others
    asked.cancel()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not hook.seen
    gc.collect()


# -- after -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [After, PlainAfter])
async def test_after_hook_sees_the_call_and_its_record(kind: type[After]) -> None:
    hook = kind()
    assert await after(hook) == a_call()
    assert hook.seen == [(a_call(), RECORD)]


async def test_after_hooks_are_asked_in_the_same_order() -> None:
    order: list[int] = []
    await after(*(kind(lambda call, n=n: order.append(n)) for n, kind in enumerate([After, PlainAfter] * 3)))
    assert order == list(range(6))


async def test_after_hook_may_note() -> None:
    last = After()
    call = await after(After(lambda call: Note({"a": "1"})), last)
    assert call.notes == last.seen[0][0].notes == {"a": "1"}


@pytest.mark.parametrize("kind", [After, PlainAfter])
async def test_after_hook_that_denies_withholds_the_result_and_says_that_it_has_happened(kind: type[After]) -> None:
    refusal = await denied(after(kind(lambda call: Deny("it has a name in it", "ask for less"))))
    assert refusal.error.message == "`shop.pay` has happened, but its result is withheld: it has a name in it"
    assert refusal.error.hint == "ask for less"


@pytest.mark.parametrize("status", [CallStatus.ERROR, CallStatus.TIMEOUT, CallStatus.UNKNOWN])
async def test_of_a_call_that_failed_nobody_says_that_it_has_happened(status: CallStatus) -> None:
    record = ExternalCallRecord("cal_1", "shop.pay", SideEffect.WRITE, 1.5, status, "d" * 64)
    refusal = await denied(after(After(lambda call: Deny("no")), record=record))
    assert refusal.error.message == "`shop.pay` was called and may have happened, but its result is withheld: no"


@pytest.mark.parametrize("answer", [True, Replace({}), "x"], ids=repr)
async def test_after_hook_that_answers_what_it_may_not_denies(answer: object) -> None:
    refusal = await denied(after(After(lambda call: answer)))
    assert refusal.error.message == "`shop.pay` has happened, but its result is withheld: the hook After failed"


async def test_after_hook_that_fails_or_takes_too_long_denies() -> None:
    class Slow:
        async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
            await asyncio.Event().wait()

    assert "the hook After failed" in (await denied(after(After(raises(ValueError("s3cret")))))).error.message
    assert "the hook Slow took longer than 20 ms" in (await denied(after(Slow(), timeout_ms=20))).error.message


async def test_every_after_hook_hears_of_the_call_and_the_first_denial_counts() -> None:
    hooks = [
        After(),
        After(lambda call: Deny("first")),
        After(raises(ValueError())),
        After(lambda call: Deny("last")),
        PlainAfter(),
    ]
    assert (await denied(after(*hooks))).error.message.endswith("withheld: first")
    assert [len(hook.seen) for hook in hooks] == [1] * 5


# -- what is a hook ----------------------------------------------------------------------------------------------------


class Both(Hook):
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def before_call(self, call: HookedCall) -> None:
        self.heard.append("before")

    async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
        self.heard.append("after")


async def test_hook_may_have_both_methods() -> None:
    hook = Both()
    await before(hook)
    await after(hook)
    assert hook.heard == ["before", "after"]


async def test_no_hooks_are_nothing() -> None:
    assert not Hooks()
    assert not Hooks.parse(None)
    assert not Hooks.parse([])
    assert await before() == a_call()
    assert await after() == a_call()


async def test_hook_that_overrides_nothing_is_never_asked() -> None:
    class Idle(Hook):
        pass

    class Half(Hook):
        def __init__(self) -> None:
            self.heard = 0

        async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
            self.heard += 1

    assert not Hooks([Hook(), Idle()])
    half = Half()
    assert Hooks([half])
    await before(half)
    await after(half)
    assert half.heard == 1
    assert (await Hook().before_call(a_call()), await Hook().after_call(a_call(), RECORD)) == (None, None)


@pytest.mark.parametrize(
    ("value", "reason", "fix"),
    [
        (Before(), "a list of them, not Before", "hooks=[...]"),
        ("before_call", "a list of them, not str", "hooks=[...]"),
        ([Before], "Before is a class", "Before()"),
        ([a_call], "'a_call' is not a hook", "derive from cloister.Hook"),
        ([untouched], "'untouched' is not a hook", "derive from cloister.Hook"),
        ([None], "'NoneType' is not a hook", "derive from cloister.Hook"),
        ([object()], "'object' is not a hook", "derive from cloister.Hook"),
    ],
)
async def test_what_is_no_hook_is_refused_when_it_is_declared(value: object, reason: str, fix: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Hooks.parse(value)
    assert reason in caught.value.message
    assert caught.value.hint is not None
    assert fix in caught.value.hint


async def test_method_that_cannot_be_called_is_refused_when_it_is_declared() -> None:
    class Nothing:
        def before_call(self) -> None: ...

    class TooMuch:
        def before_call(self, call: HookedCall, more: int) -> None: ...

    class NoFunction:
        before_call = None

    class NoRecord:
        def after_call(self, call: HookedCall) -> None: ...

    for hook in (Nothing(), TooMuch(), NoFunction()):
        with pytest.raises(InvalidInput, match=f"{type(hook).__name__}.before_call cannot be called with \\(call\\)"):
            Hooks([hook])
    with pytest.raises(InvalidInput, match=r"NoRecord\.after_call") as caught:
        Hooks([NoRecord()])
    assert caught.value.hint == "write `async def after_call(self, call, record)`"


async def test_hooks_are_parsed_from_what_a_host_gives() -> None:
    hook = Before(lambda call: Deny("no"))
    for given in ([hook], (hook,), Hooks([hook])):
        parsed = Hooks.parse(given)
        assert parsed
        await denied(parsed.before(a_call(), timeout_ms=1000, revalidate=untouched))
