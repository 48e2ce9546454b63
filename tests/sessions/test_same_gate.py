"""There is one gate: a call by a Python program, by a TypeScript program and by the host meets the same one.

What is on record, what those who listen hear and what the tool receives is equal, but for ids and durations.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest

from cloister import (
    CapabilityLimits,
    Deny,
    Event,
    Hook,
    HookedCall,
    Note,
    RunStatus,
    Session,
    SessionLimits,
    Tool,
    ToolError,
)
from cloister.core.wire import to_json
from tests.sessions.ways import LANGUAGES, WAYS, House, call, caught

pytestmark = pytest.mark.anyio

VALUE = "hunter2-hunter2"


class Desk:
    """A tool for each situation, and what reached them."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    async def send(self, text: str, times: int = 1, to: list[str] | None = None) -> dict[str, Any]:
        """Send a text."""
        self.got.append((text, times, to))
        return {"sent": text * times, "to": to}

    async def never(self) -> None:
        self.got.append("never")
        await asyncio.Event().wait()

    async def refuse(self) -> None:
        self.got.append("refuse")
        raise ToolError("OUT_OF_STOCK", "none left", "try tomorrow")

    def explode(self, path: str) -> None:
        self.got.append(path)
        raise ValueError(f"/etc/private/{path} is not there")

    async def much(self) -> str:
        self.got.append("much")
        return "x" * 2000

    async def lie(self) -> Any:
        self.got.append("lie")
        return {"id": "private-private"}

    def tools(self) -> list[Tool]:
        small = CapabilityLimits(max_request_bytes=500)
        return [
            Tool(self.send, side_effect="write", idempotent=False, limits=small),
            Tool(self.send, name="post", namespace="mail", side_effect="network", limits=small),
            Tool(self.send, name="ask_first", side_effect="write", approval_policy="manual"),
            Tool(self.never, limits=CapabilityLimits(timeout_ms=60)),
            Tool(self.refuse, side_effect="read"),
            Tool(self.explode, side_effect="database"),
            Tool(self.much, limits=CapabilityLimits(max_response_bytes=1000)),
            Tool(self.lie, output_schema={"type": "object", "properties": {"id": {"type": "integer"}}}),
        ]


class Watch(Hook):
    """Denies one text, and notes down everything that it is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def before_call(self, call: HookedCall) -> Deny | Note | None:
        self.heard.append(("before", call.name, call.arguments, call.side_effect, call.idempotent, dict(call.notes)))
        if isinstance(call.arguments, dict) and call.arguments.get("text") == "no hook would":
            return Deny("not this one", "another one")
        return Note({"seen": "yes"})

    async def after_call(self, call: HookedCall, record: Any) -> None:
        self.heard.append(("after", call.name, call.arguments, dict(call.notes), bare(to_json(record))))


@dataclass(frozen=True)
class Situation:
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # What is on record: the status, and the code of the error if there is one.
    status: str = "ok"
    code: str | None = None
    reached: bool = False


SITUATIONS = {
    "ok": Situation("send", {"text": "hi", "times": 2, "to": ["a", "b"]}, reached=True),
    "ok with a default": Situation("send", {"text": "hi"}, reached=True),
    "ok in a namespace": Situation("mail.post", {"text": "hi"}, reached=True),
    "a wrong type": Situation("send", {"text": 5}, "error", "INVALID_ARGUMENTS"),
    "a wrong type further in": Situation("send", {"text": "a", "to": ["b", 5]}, "error", "INVALID_ARGUMENTS"),
    "a missing argument": Situation("send", {"times": 2}, "error", "INVALID_ARGUMENTS"),
    "an unknown argument": Situation("send", {"text": "a", "txet": "b"}, "error", "INVALID_ARGUMENTS"),
    "just small enough": Situation("send", {"text": "a" * 485}, reached=True),
    "just small enough, in two bytes each": Situation("send", {"text": "é" * 242}, reached=True),
    "small enough, in pieces": Situation("send", {"text": "a" * 190, "to": ["b" * 90] * 3}, reached=True),
    "too large": Situation("send", {"text": "a" * 500}, "error", "INVALID_ARGUMENTS"),
    "too large, in two bytes each": Situation("send", {"text": "é" * 250}, "error", "INVALID_ARGUMENTS"),
    "too large, by far": Situation("send", {"text": "a" * 100_000}, "error", "INVALID_ARGUMENTS"),
    "denied by a rule": Situation("send", {"text": "no rule would"}, "denied", "PERMISSION_DENIED"),
    "denied by a hook": Situation("send", {"text": "no hook would"}, "denied", "PERMISSION_DENIED"),
    "asked about": Situation("ask_first", {"text": "may I"}, "approval_pending"),
    "timeout": Situation("never", {}, "timeout", "TIMEOUT_TOOL", reached=True),
    "an error of the tool's choice": Situation("refuse", {}, "error", "OUT_OF_STOCK", reached=True),
    "an exception of the host": Situation("explode", {"path": "p"}, "error", "TOOL_ERROR", reached=True),
    "too large a response": Situation("much", {}, "error", "RESULT_TOO_LARGE", reached=True),
    "a response that breaks its schema": Situation("lie", {}, "error", "TOOL_ERROR", reached=True),
}


def bare(said: Any) -> Any:
    """Without ids, times and durations."""
    if isinstance(said, dict):
        ids = {"id", "call_id", "cell_id", "session_id", "duration_ms", "created_at", "expires_at", "request_digest"}
        # The digest of a question is bound to its session and call; that of a record is not.
        drop = ids if "reason" in said else ids - {"request_digest"}
        return {key: bare(value) for key, value in cast("dict[str, Any]", said).items() if key not in drop}
    return [bare(item) for item in cast("list[Any]", said)] if isinstance(said, list) else said


@dataclass(frozen=True)
class Seen:
    """All that one call left behind."""

    records: Any
    events: Any
    approvals: Any
    hooks: Any
    got: Any
    status: RunStatus
    code: str | None


def _of_calls(events: list[Event]) -> list[Event]:
    """A program has a cell that can be heard of; a call of the host's has none."""
    return [event for event in events if not event.kind.startswith(("cell.", "session."))]


async def _see(session: Session, way: str, situation: Situation, desk: Desk, watch: Watch, events: list[Event]) -> Seen:
    for heard in (desk.got, watch.heard, events):
        heard.clear()
    result = await call(session, way, situation.name, **situation.arguments)
    seen = Seen(
        bare(to_json(result.external_calls)),
        [(event.kind, bare(to_json(event.data))) for event in _of_calls(events)],
        bare(to_json(result.approvals)),
        list(watch.heard),
        list(desk.got),
        result.status,
        result.error.code if result.error is not None else None,
    )
    if result.approvals:
        await session.terminate(result.cell_id)
    return seen


@pytest.fixture(scope="module")
async def seen() -> dict[str, dict[str, Seen]]:
    """Every situation in every way: `seen["python"]["timeout"]`."""
    desk, watch, events = Desk(), Watch(), list[Event]()
    deny = [{"rule": 'has(args.text) && args.text == "no rule would"', "tools": ["send"], "message": "never"}]
    everything: dict[str, dict[str, Seen]] = {}
    async with House(tools=desk.tools(), hooks=[watch], deny=deny, on_event=events.append) as house:
        for way in WAYS:
            session = await house.open(way)
            everything[way] = {
                name: await _see(session, way, situation, desk, watch, events) for name, situation in SITUATIONS.items()
            }
    return everything


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("way", LANGUAGES)
async def test_call_of_a_program_leaves_behind_what_the_host_s_does(
    seen: dict[str, dict[str, Seen]], way: str, name: str
) -> None:
    assert seen[way][name] == seen["host"][name]


@pytest.mark.parametrize("name", SITUATIONS)
async def test_situation_is_what_it_is_called(seen: dict[str, dict[str, Seen]], name: str) -> None:
    situation, host = SITUATIONS[name], seen["host"][name]
    (record,) = host.records
    assert (record["name"], record["status"]) == (situation.name, situation.status)
    assert record.get("error", {}).get("code") == situation.code
    assert bool(host.got) is situation.reached
    asked = situation.status == "approval_pending"
    then = {"approval_pending": "approval.required", "denied": "call.denied"}.get(situation.status, "call.settled")
    assert [kind for kind, _ in host.events] == ["call.requested", then]
    if not asked:
        assert host.events[1][1]["record"] == record
    for private in ("/etc/private", "private-private"):
        assert private not in str(host)


async def test_unknown_tool_is_unknown_in_the_same_words() -> None:
    seen: list[Any] = []
    for way in WAYS:
        events: list[Event] = []
        async with House(tools=Desk().tools(), on_event=events.append) as house:
            session = await house.open(way)
            session.tools.register(Tool(partial(session.tools.remove, "send"), name="forget"))
            # A name that no tool ever had is refused before a program starts; this one goes while it runs.
            if way == "host":
                await session.call("forget")
                result = await session.call("send", {"text": "a"})
            else:
                text = {"python": "text='a'", "typescript": "{text: 'a'}"}[way]
                tools = "" if way == "python" else "tools."
                result = await session.run(f"await {tools}forget()\nawait {tools}send({text})")
        assert result.error is not None
        settled = bare(to_json(_of_calls(events)[-1].data))
        settled.pop("number")
        seen.append((bare(to_json(result.external_calls[-1])), settled, result.status, result.error.code))
    assert seen[0] == seen[2]
    assert seen[1] == seen[2]
    assert seen[0][3] == "UNKNOWN_TOOL"


async def test_secret_that_is_not_allowed_for_the_tool_is_refused_alike() -> None:
    seen: list[Any] = []
    for way in WAYS:
        desk, events = Desk(), list[Event]()
        secrets = {"TOKEN": {"value": VALUE, "allowed": ["mail.post"]}}
        async with House(tools=desk.tools(), secrets=secrets, on_event=events.append) as house:
            session = await house.open(way)
            handle = (await session.run("secret('TOKEN')")).result
            # The digest has the handle in it, which is another in each session; so has what the hook would see.
            denied = await call(session, way, "send", text=handle)
            allowed = await call(session, way, "mail.post", text=handle)
        assert desk.got == [(VALUE, 1, None)]
        shown = to_json([denied.external_calls, allowed.external_calls, [event.data for event in _of_calls(events)]])
        assert VALUE not in str((shown, denied, allowed))
        for record in (*shown[0], *shown[1], *(data["record"] for data in shown[2] if "record" in data)):
            del record["request_digest"]
        seen.append((bare(shown), denied.error and denied.error.code, allowed.result))
    assert seen[0] == seen[2]
    assert seen[1] == seen[2]
    assert seen[0][1] == "PERMISSION_DENIED"
    assert seen[0][2] == {"sent": "[secret TOKEN]", "to": None}


@pytest.mark.parametrize("way", WAYS)
async def test_budget_of_nothing_makes_no_call(way: str) -> None:
    desk = Desk()
    async with House(tools=desk.tools(), limits=SessionLimits(max_external_calls=0)) as house:
        result = await call(await house.open(way), way, "send", text="a")
    assert result.error is not None
    assert (result.status, result.error.code) == (RunStatus.RESOURCE_EXHAUSTED, "EXTERNAL_CALLS_EXCEEDED")
    assert "max_external_calls" in (result.error.hint or "")
    assert desk.got == []


@pytest.mark.parametrize("situation", ["a wrong type", "denied by a rule", "timeout", "an exception of the host"])
async def test_program_can_catch_what_the_record_says(situation: str) -> None:
    asked = SITUATIONS[situation]
    deny = [{"rule": 'has(args.text) && args.text == "no rule would"', "message": "never"}]
    async with House(tools=Desk().tools(), deny=deny) as house:
        for language in LANGUAGES:
            session = await house.open(language)
            code = caught(language, asked.name, "**given" if language == "python" else "given")
            result = await session.run(code, inputs={"given": dict(asked.arguments)})
            assert result.ok, result.error
            (record,) = result.external_calls
            assert record.error is not None
            assert str(result.result).startswith(f"{record.error.code}: {record.error.message}")
