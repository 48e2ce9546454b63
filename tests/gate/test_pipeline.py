"""The order of the gate: what comes before what, what is written down when, and what nobody gets to see."""

import asyncio
import json
from typing import Any

import pytest

from cloister.core.approval import ApprovalState
from cloister.core.call import CallStatus
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import digest_json
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.core.wire import to_json
from cloister.gate import Asked, Budget, Outcome
from cloister.gate.hooks import Deny, Hook, HookedCall, Note, Replace
from cloister.ports.engine import Call, Raised, Returned
from cloister.ports.journal import Intent, Settled
from cloister.stores.memory import MemoryJournal
from cloister.tools import CallContext, Tool
from tests.gate.lab import Lab

pytestmark = pytest.mark.anyio

VALUE = "hunter2-hunter2"
SECRETS = {"TOKEN": {"value": VALUE, "allowed": ["send"]}}


def _error(outcome: Outcome) -> ErrorObject:
    assert isinstance(outcome.settlement, Raised)
    return outcome.settlement.error


def _value(outcome: Outcome) -> Any:
    assert isinstance(outcome.settlement, Returned), outcome.settlement
    return outcome.settlement.value


def _status(outcome: Outcome) -> CallStatus:
    assert outcome.record is not None
    return outcome.record.status


class _Diary(MemoryJournal):
    """A journal that also tells when it was written."""

    def __init__(self, lines: list[str], *, breaks_at: str = "") -> None:
        super().__init__()
        self.lines = lines
        self._breaks_at = breaks_at

    async def intend(self, intent: Intent) -> None:
        if self._breaks_at == "intent":
            raise OSError("no space left on device")
        await super().intend(intent)
        self.lines.append(f"intent {intent.key}")

    async def settle(self, settled: Settled) -> None:
        if self._breaks_at == "settlement":
            raise OSError("no space left on device")
        await super().settle(settled)
        self.lines.append(f"settled {settled.key} {settled.status}")


class _Watch(Hook):
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    async def before_call(self, call: HookedCall) -> None:
        self._lines.append(f"before {call.name}")

    async def after_call(self, call: HookedCall, record: Any) -> None:
        self._lines.append(f"after {call.name} {record.status}")


# -- the order ----------------------------------------------------------------------------------------------------


async def test_stages_come_in_their_order() -> None:
    lines: list[str] = []

    async def send(text: str) -> str:
        lines.append(f"sent {text}")
        return text

    lab = Lab([Tool(send)], journal=_Diary(lines), hooks=[_Watch(lines)])
    await lab.call("send", "hello")
    assert lines == ["before send", "intent cel_lab/1", "sent hello", "settled cel_lab/1 ok", "after send ok"]
    assert [kind for kind, _ in lab.events] == ["call.requested", "call.settled"]


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        (("a", "b"), {}, "INVALID_ARGUMENTS"),
        (("a",), {"budget": Budget(0, 0)}, "EXTERNAL_CALLS_EXCEEDED"),
        (("a",), {"deny": ["true"]}, "PERMISSION_DENIED"),
    ],
)
async def test_refused_call_is_never_written_down_as_intended(arguments: Any, options: Any, code: str) -> None:
    lines: list[str] = []

    async def send(text: str) -> str:
        raise AssertionError("must not be reached")

    lab = Lab([Tool(send)], journal=_Diary(lines), **options)
    outcome = await lab.call("send", *arguments)
    assert _error(outcome).code == code
    assert lines == []
    kind, data = lab.events[-1]
    assert kind == ("call.denied" if code == "PERMISSION_DENIED" else "call.settled")
    assert data["record"]["error"]["code"] == code


async def test_bad_arguments_come_before_the_budget_and_the_budget_before_hooks() -> None:
    lines: list[str] = []

    async def send(text: str) -> str:
        return text

    lab = Lab([Tool(send)], hooks=[_Watch(lines)], budget=Budget(0, 0))
    assert _error(await lab.call("send", 5)).code == "INVALID_ARGUMENTS"
    assert _error(await lab.call("send", "a")).code == "EXTERNAL_CALLS_EXCEEDED"
    assert lines == []


async def test_hook_that_denies_comes_before_the_policy_that_would_ask() -> None:
    class No(Hook):
        async def before_call(self, call: HookedCall) -> Deny:
            return Deny("not on my watch")

    async def send(text: str) -> str:
        return text

    lab = Lab([Tool(send, approval_policy="manual")], hooks=[No()])
    outcome = await lab.call("send", "a")
    assert _error(outcome).code == "PERMISSION_DENIED"
    assert "not on my watch" in _error(outcome).message
    assert lab.desk.list() == []


async def test_policy_judges_what_hooks_made_of_the_arguments() -> None:
    class Cap(Hook):
        async def before_call(self, call: HookedCall) -> Replace:
            return Replace({"amount": 5})

    got: list[int] = []

    async def pay(amount: int) -> None:
        got.append(amount)

    lab = Lab([Tool(pay, approval_policy={"auto": {"rule": "args.amount < 10"}})], hooks=[Cap()])
    outcome = await lab.call("pay", 500)
    assert _value(outcome) is None
    assert got == [5]
    assert outcome.record is not None
    assert outcome.record.request_digest == digest_json(["pay", {"amount": 5}])


async def test_arguments_that_a_hook_puts_in_are_validated_like_a_program_s() -> None:
    class Wrong(Hook):
        async def before_call(self, call: HookedCall) -> Replace:
            return Replace({"amount": "much"})

    async def pay(amount: int) -> None:
        raise AssertionError("must not be reached")

    assert _error(await Lab([Tool(pay)], hooks=[Wrong()]).call("pay", 1)).code == "INVALID_ARGUMENTS"


async def test_arguments_that_a_hook_puts_in_are_held_to_the_size_of_the_tool() -> None:
    class Much(Hook):
        async def before_call(self, call: HookedCall) -> Replace:
            return Replace({"text": "x" * 2000})

    async def send(text: str) -> None:
        raise AssertionError("must not be reached")

    lab = Lab([Tool(send, limits=CapabilityLimits(max_request_bytes=1000))], hooks=[Much()])
    assert "1000" in _error(await lab.call("send", "a")).message


async def test_after_hook_can_withhold_the_result_of_a_call_that_was_made() -> None:
    class Withhold(Hook):
        async def after_call(self, call: HookedCall, record: Any) -> Deny:
            return Deny("looks odd")

    made: list[int] = []

    async def send() -> str:
        made.append(1)
        return "private"

    lab = Lab([Tool(send)], hooks=[Withhold()])
    outcome = await lab.call("send")
    assert made == [1]
    assert _error(outcome).code == "PERMISSION_DENIED"
    assert _status(outcome) is CallStatus.DENIED
    entry = await lab.journal.look_up("cel_lab/1")
    assert entry is not None
    assert entry.settled is not None
    assert entry.settled.status is CallStatus.OK


async def test_notes_of_a_hook_reach_the_tool() -> None:
    class Trace(Hook):
        async def before_call(self, call: HookedCall) -> Note:
            return Note({"trace": "t-1"})

    async def send(ctx: CallContext) -> dict[str, str]:
        return dict(ctx.notes)

    assert _value(await Lab([Tool(send)], hooks=[Trace()]).call("send")) == {"trace": "t-1"}


# -- the journal --------------------------------------------------------------------------------------------------


async def test_call_that_cannot_be_written_down_is_not_made() -> None:
    async def send() -> None:
        raise AssertionError("must not be reached")

    outcome = await Lab([Tool(send)], journal=_Diary([], breaks_at="intent")).call("send")
    assert _error(outcome).code == "TOOL_ERROR"
    assert "not made" in _error(outcome).message
    assert "space" not in str(_error(outcome))


async def test_result_that_cannot_be_written_down_is_not_shown() -> None:
    async def send() -> str:
        return "done"

    outcome = await Lab([Tool(send)], journal=_Diary([], breaks_at="settlement")).call("send")
    assert _error(outcome).code == "OUTCOME_UNKNOWN"
    assert _status(outcome) is CallStatus.UNKNOWN
    assert outcome.record is not None
    assert outcome.record.response_digest is None


async def test_intent_and_settlement_hold_what_the_record_says() -> None:
    async def add(a: int, b: int = 2) -> int:
        return a + b

    lab = Lab([Tool(add, side_effect="write", idempotent=False)])
    record = (await lab.call("add", 1)).record
    entry = await lab.journal.look_up("cel_lab/1")
    assert record is not None
    assert entry is not None
    assert entry.settled is not None
    intent, settled = entry.intent, entry.settled
    assert (intent.call_id, intent.name, intent.arguments) == (record.id, "add", {"a": 1})
    assert (intent.request_digest, settled.response_digest) == (record.request_digest, record.response_digest)
    assert (intent.side_effect, intent.idempotent, settled.value) == ("write", False, 3)


async def test_tool_is_given_the_key_of_its_call_and_where_it_comes_from() -> None:
    async def send(ctx: CallContext) -> list[Any]:
        return [ctx.session_id, ctx.cell_id, ctx.name, ctx.idempotency_key, ctx.cancelled, ctx.remaining_ms > 0]

    lab = Lab([Tool(send, namespace="mail")])
    assert _value(await lab.call("mail.send")) == ["lab", "cel_lab", "mail.send", "cel_lab/1", False, True]


async def test_progress_of_a_tool_is_an_event() -> None:
    async def send(ctx: CallContext) -> None:
        ctx.progress("half way", 0.5)
        # Said from any thread, so it is heard on the loop's next round.
        await asyncio.sleep(0)

    lab = Lab([Tool(send)])
    await lab.call("send")
    kind, data = lab.events[1]
    assert (kind, data["message"], data["fraction"]) == ("call.progressed", "half way", 0.5)


async def test_cancelled_call_is_unknown_in_the_journal() -> None:
    started = asyncio.Event()

    async def send() -> None:
        started.set()
        await asyncio.Event().wait()

    lab = Lab([Tool(send)])
    task = asyncio.create_task(lab.call("send"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    entry = await lab.journal.look_up("cel_lab/1")
    assert entry is not None
    assert entry.settled is not None
    assert entry.settled.status is CallStatus.UNKNOWN


# -- what was under way -------------------------------------------------------------------------------------------


async def _interrupted(idempotent: bool) -> tuple[Lab, list[int]]:
    """A gate whose call 1 was begun and whose end nobody knows."""
    made: list[int] = []

    async def send(n: int) -> int:
        made.append(n)
        return n

    lab = Lab([Tool(send, idempotent=idempotent)])
    intent = Intent(
        "cel_lab/1", "cal_0", "lab", "cel_lab", 1, "send", lab.registry.capabilities()[0].side_effect, idempotent,
        {"n": 7}, digest_json(["send", {"n": 7}]), 0,
    )  # fmt: skip
    await lab.journal.intend(intent)
    return lab, made


async def test_call_that_is_settled_is_replayed_and_not_repeated() -> None:
    made: list[int] = []

    async def send(n: int) -> int:
        made.append(n)
        return n

    lab = Lab([Tool(send, idempotent=False)])
    first = await lab.call("send", 7)
    again = await lab.gate.recall(Call(1, "send", (7,)), lab.caller)
    assert again is not None
    assert again.settlement == first.settlement
    assert made == [7]


async def test_call_of_unknown_outcome_is_made_again_under_its_key_if_it_may_be() -> None:
    lab, made = await _interrupted(idempotent=True)
    call = Call(1, "send", (7,))
    assert await lab.gate.recall(call, lab.caller) is None
    assert _value(await lab.call("send", 7)) == 7
    entry = await lab.journal.look_up("cel_lab/1")
    assert entry is not None
    assert entry.attempts == 2
    assert made == [7]


async def test_call_of_unknown_outcome_that_must_not_be_repeated_is_unknown() -> None:
    lab, made = await _interrupted(idempotent=False)
    outcome = await lab.gate.recall(Call(1, "send", (7,)), lab.caller)
    assert outcome is not None
    assert _error(outcome).code == "OUTCOME_UNKNOWN"
    assert _status(outcome) is CallStatus.UNKNOWN
    assert made == []


# -- approvals, at the gate ---------------------------------------------------------------------------------------


async def _sent(lab: Lab, asked: Asked) -> Any:
    passed = await lab.gate.proceed(asked)
    assert isinstance(passed, Outcome)
    return passed


async def test_answer_to_a_question_about_other_arguments_executes_nothing() -> None:
    made: list[int] = []

    async def pay(amount: int) -> None:
        made.append(amount)

    lab = Lab([Tool(pay, approval_policy="manual")])
    asked = await lab.ask("pay", 5)
    lab.desk.decide(asked.approval.id, "allow")
    # Somebody changed what would be done after the question was asked.
    asked.passage.arguments = {"amount": 5000}
    asked.passage.request_digest = digest_json(["pay", {"amount": 5000}])
    again = await lab.gate.proceed(asked)
    assert isinstance(again, Asked)
    assert again.approval.id != asked.approval.id
    assert again.approval.arguments == {"amount": 5000}
    assert made == []
    assert lab.desk.get(asked.approval.id).state is ApprovalState.CANCELLED


async def test_allowed_call_is_made_once_however_often_it_goes_on() -> None:
    made: list[int] = []

    async def pay(amount: int) -> None:
        made.append(amount)

    lab = Lab([Tool(pay, approval_policy="manual")])
    asked = await lab.ask("pay", 5)
    lab.desk.decide(asked.approval.id, "allow")
    passed = await asyncio.gather(*[lab.gate.proceed(asked) for _ in range(100)])
    assert made == [5]
    settled = [one.settlement for one in passed if isinstance(one, Outcome)]
    assert sum(isinstance(settlement, Returned) for settlement in settled) == 1


async def test_person_cannot_allow_what_is_denied_by_the_time_of_the_answer() -> None:
    made: list[int] = []

    async def pay(amount: int) -> None:
        made.append(amount)

    lab = Lab([Tool(pay, approval_policy="manual")], deny=['calls.by_name["pay"] >= 1'])
    first, second = await lab.ask("pay", 1), await lab.ask("pay", 2)
    for asked in (first, second):
        lab.desk.decide(asked.approval.id, "allow")
    await _sent(lab, first)
    assert _error(await _sent(lab, second)).code == "PERMISSION_DENIED"
    assert made == [1]


async def test_waiting_for_a_person_costs_the_budget_once() -> None:
    async def pay(amount: int) -> None: ...

    lab = Lab([Tool(pay, approval_policy="manual")], budget=Budget(1, 1))
    asked = await lab.ask("pay", 5)
    lab.desk.decide(asked.approval.id, "allow")
    assert _value(await _sent(lab, asked)) is None
    assert lab.budget.left == 0


async def test_timeout_of_a_tool_starts_when_it_is_allowed() -> None:
    async def pay(amount: int, ctx: CallContext) -> bool:
        return ctx.remaining_ms > 500

    lab = Lab([Tool(pay, approval_policy="manual", limits=CapabilityLimits(timeout_ms=1000))])
    asked = await lab.ask("pay", 5)
    asked.passage.entered -= 3600
    lab.desk.decide(asked.approval.id, "allow")
    assert _value(await _sent(lab, asked)) is True


# -- secrets ------------------------------------------------------------------------------------------------------


def _everything(lab: Lab, outcome: Outcome) -> str:
    return json.dumps([to_json(outcome.record), to_json(outcome.settlement), [to_json(data) for _, data in lab.events]])


async def test_tool_gets_the_value_and_everybody_else_the_handle() -> None:
    got: list[str] = []

    async def send(header: str) -> str:
        got.append(header)
        return f"you sent {header}"

    lab = Lab([Tool(send)], secrets=SECRETS)
    outcome = await lab.call("send", f"Bearer {lab.handle('TOKEN')}")
    assert got == [f"Bearer {VALUE}"]
    assert _value(outcome) == "you sent Bearer [secret TOKEN]"
    assert VALUE not in _everything(lab, outcome)
    entry = await lab.journal.look_up("cel_lab/1")
    assert VALUE not in json.dumps(to_json(entry))
    assert outcome.record is not None
    assert outcome.record.request_digest == digest_json(["send", {"header": f"Bearer {lab.handle('TOKEN')}"}])
    assert outcome.record.response_digest == digest_json("you sent Bearer [secret TOKEN]")


async def test_secret_for_another_tool_is_refused_and_goes_nowhere() -> None:
    async def leak(text: str) -> None:
        raise AssertionError("must not be reached")

    lab = Lab([Tool(leak)], secrets=SECRETS)
    outcome = await lab.call("leak", lab.handle("TOKEN"))
    assert _error(outcome).code == "PERMISSION_DENIED"
    assert _status(outcome) is CallStatus.DENIED


async def test_validation_looks_at_the_value_and_its_error_does_not_show_it() -> None:
    from typing import Annotated

    from pydantic import Field

    async def send(token: Annotated[str, Field(max_length=8)]) -> None: ...

    lab = Lab([Tool(send)], secrets=SECRETS)
    outcome = await lab.call("send", lab.handle("TOKEN"))
    assert _error(outcome).code == "INVALID_ARGUMENTS"
    assert VALUE not in _everything(lab, outcome)


async def test_value_is_looked_up_when_the_call_is_made_not_when_it_was_asked() -> None:
    got: list[str] = []

    async def send(token: str) -> None:
        got.append(token)

    lab = Lab([Tool(send, approval_policy="manual")], secrets=SECRETS)
    asked = await lab.ask("send", lab.handle("TOKEN"))
    assert VALUE not in json.dumps(to_json(asked.approval))
    from cloister.ports.secrets import Secret

    lab.provider.set("TOKEN", Secret("rotated-rotated", ("send",)))
    lab.desk.decide(asked.approval.id, "allow")
    await _sent(lab, asked)
    assert got == ["rotated-rotated"]


async def test_log_of_a_broken_tool_does_not_show_the_value(caplog: pytest.LogCaptureFixture) -> None:
    async def send(token: str) -> None:
        raise ValueError(f"could not log in with {token}")

    lab = Lab([Tool(send)], secrets=SECRETS)
    outcome = await lab.call("send", lab.handle("TOKEN"))
    assert _error(outcome).message == "`send` failed"
    assert "could not log in with [secret TOKEN]" in caplog.text
    assert VALUE not in caplog.text


async def test_what_a_tool_says_and_reports_is_scrubbed() -> None:
    from cloister.tools import ToolError

    async def send(token: str, ctx: CallContext) -> None:
        ctx.progress(f"trying {token}")
        raise ToolError("BAD_LOGIN", f"{token} was refused", f"is {token} right?")

    lab = Lab([Tool(send)], secrets=SECRETS)
    outcome = await lab.call("send", lab.handle("TOKEN"))
    await asyncio.sleep(0)
    assert _error(outcome).message == "[secret TOKEN] was refused"
    assert VALUE not in _everything(lab, outcome)


# -- responses ----------------------------------------------------------------------------------------------------


async def test_result_that_does_not_fit_the_output_schema_is_the_tool_s_fault_and_not_shown() -> None:
    def liar() -> Any:
        return {"id": "private-private"}

    lab = Lab([Tool(liar, output_schema={"type": "object", "properties": {"id": {"type": "integer"}}})])
    outcome = await lab.call("liar")
    assert _error(outcome).code == "TOOL_ERROR"
    assert "$.id" in _error(outcome).message
    assert "private" not in str(_error(outcome))


async def test_input_schema_given_by_hand_is_enforced() -> None:
    async def pay(amount: int) -> None:
        raise AssertionError("must not be reached")

    schema = {"type": "object", "properties": {"amount": {"type": "integer", "maximum": 10}}, "required": ["amount"]}
    outcome = await Lab([Tool(pay, input_schema=schema)]).call("pay", 11)
    assert _error(outcome).code == "INVALID_ARGUMENTS"


# -- the same gate for everybody ------------------------------------------------------------------------------------


def _comparable(outcome: Outcome) -> dict[str, Any]:
    shown = to_json(outcome.record)
    del shown["id"], shown["duration_ms"]
    return shown


@pytest.mark.parametrize("arguments", [{"order_id": "A7"}, {"order_id": 5}, {}, {"order_id": "A7", "extra": 1}])
async def test_record_of_a_call_is_the_same_from_every_language(arguments: dict[str, Any]) -> None:
    async def get_order(order_id: str) -> dict[str, str]:
        return {"id": order_id}

    seen: list[dict[str, Any]] = []
    for language in Language:
        lab = Lab([Tool(get_order, side_effect="read")], language=language)
        seen.append(_comparable(await lab.call("get_order", **arguments)))
    assert seen[0] == seen[1]


async def test_position_and_name_make_the_same_request() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    lab = Lab([Tool(add)])
    by_place, by_name, mixed = (
        await lab.call("add", 1, 2),
        await lab.call("add", b=2, a=1),
        await lab.call("add", 1, b=2),
    )
    digests = {outcome.record.request_digest for outcome in (by_place, by_name, mixed) if outcome.record is not None}
    assert len(digests) == 1


# -- inside a cell --------------------------------------------------------------------------------------------------


def _tools() -> list[Tool]:
    async def buy(sku: str, count: int = 1) -> str:
        """Buy something.

        It is sent at once.
        """
        return sku

    async def look(sku: str) -> str:
        """Look at it."""
        return sku

    return [Tool(buy, namespace="shop", side_effect="write", approval_policy="manual"), Tool(look)]


async def test_list_tools_shows_what_there_is() -> None:
    lab = Lab([*_tools()])
    outcome = await lab.call("list_tools")
    assert _value(outcome) == [
        {"name": "look", "description": "Look at it.", "side_effect": "none", "approval": "none"},
        {"name": "shop.buy", "description": "Buy something.", "side_effect": "write", "approval": "manual"},
    ]
    assert outcome.record is None
    assert lab.budget.left == 99


async def test_describe_tool_tells_all_about_one() -> None:
    lab = Lab([*_tools()])
    told = _value(await lab.call("describe_tool", "shop.buy"))
    assert told["signature"].startswith("shop.buy(sku: str, count: int = 1)")
    assert told["input_schema"]["required"] == ["sku"]
    assert told["limits"]["timeout_ms"] == 5000
    error = _error(await lab.call("describe_tool", name="shop.by"))
    assert (error.code, error.hint) == ("UNKNOWN_TOOL", "did you mean `shop.buy`?")


async def test_current_policy_tells_the_terms_and_what_is_left() -> None:
    lab = Lab([*_tools()], deny=[{"rule": "args.count > 5", "tools": ["shop.buy"]}], budget=Budget(7, 9))
    told = _value(await lab.call("current_policy"))
    assert told["calls"] == {"limit": 9, "left": 7}
    assert [one["approval"] for one in told["tools"]] == ["none", "manual"]
    assert told["deny"][0]["rule"] == "args.count > 5"


@pytest.mark.parametrize("call", [("list_tools", 1), ("describe_tool",), ("describe_tool", "a", "b")])
async def test_own_function_with_wrong_arguments_says_how_it_is_called(call: tuple[Any, ...]) -> None:
    error = _error(await Lab([*_tools()]).call(call[0], *call[1:]))
    assert error.code == "INVALID_ARGUMENTS"
    assert error.hint is not None
    assert call[0] in error.hint


async def test_tool_of_the_host_with_the_name_of_an_own_function_comes_first() -> None:
    async def list_tools() -> str:
        return "mine"

    assert _value(await Lab([Tool(list_tools)]).call("list_tools")) == "mine"


async def test_rule_that_counts_holds_for_large_arguments_made_together() -> None:
    made: list[int] = []

    async def pay(text: str) -> None:
        made.append(len(text))

    lab = Lab([Tool(pay, approval_policy={"auto": {"rule": 'calls.by_name["pay"] < 1'}})])
    # Large ones are bound in threads, so all of them arrive at the policy together.
    calls = [Call(number, "pay", ("x" * 100_000,), size=100_000) for number in range(1, 6)]
    passed = await asyncio.gather(*[lab.pass_call(call) for call in calls])
    assert len(made) == 1
    assert sum(isinstance(one, Asked) for one in passed) == 4
