"""`spawn()` inside a cell: a child session with some of its parent's tools, under all of its parent's rules."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from cloister import CallContext, Cloister, Event, Hook, Secret, SpawnOptions, tool
from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.gate.hooks import Deny, HookedCall
from cloister.sessions import Session

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0
CALLED: list[str] = []


@tool(side_effect=SideEffect.READ)
async def price(item: str) -> int:
    """What it costs."""
    CALLED.append(f"price {item}")
    return len(item)


@tool(namespace="bank", side_effect=SideEffect.WRITE, idempotent=False)
async def pay(cents: int) -> str:
    """Pay."""
    CALLED.append(f"pay {cents}")
    return f"paid {cents}"


@tool(side_effect=SideEffect.WRITE, approval_policy="manual", idempotent=False)
async def publish(text: str) -> str:
    """Publish it."""
    CALLED.append(f"publish {text}")
    return f"published {text}"


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


def _host(store: Path | None = None, **options: Any) -> Cloister:
    kept = {"store": f"sqlite://{store}?synchronous=normal"} if store is not None else {}
    given: dict[str, Any] = {"tools": [price, pay, publish], "spawn": SpawnOptions(), **kept, **options}
    return Cloister(**given)


async def _end(session: Session, cell_id: str) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        seen = await session.wait(cell_id, yield_ms=60_000)
        while seen.status in ("yielded", "waiting_for_approval"):
            seen = await session.wait(cell_id, yield_ms=60_000)
    return seen


class Ear:
    """Hears what happens in all sessions of a host."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.kinds.append(event.kind)
        self._news.set()

    async def hears(self, kind: str, count: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.kinds.count(kind) < count:
                self._news.clear()
                await self._news.wait()


async def _children(cloister: Cloister) -> list[str]:
    """Those that are there once all that were to be ended have been."""
    ending = [task for task in asyncio.all_tasks() if task.get_name().startswith("end of spawn-")]
    if ending:
        await asyncio.wait(ending, timeout=PATIENCE_S)
    return [meta.id for meta in await cloister.list_sessions() if meta.id.startswith("spawn-")]


async def test_child_runs_with_the_tools_that_are_named_and_shares_nothing_else() -> None:
    async with _host() as cloister:
        session = await cloister.open_session()
        result = await session.run(
            "x = 1\nstore('k', 1)\nopen('/f', 'w').write('f')\n"
            "child = '''\nimport os\nprint('in here')\nn = await price(item=what)\n"
            "[n, load('k'), os.listdir('/')]\n'''\n"
            "done = await spawn(child, tools=['price'], inputs={'what': 'tea'})\n"
            "[done, await spawn('x'), await spawn('await publish(text=what)')]"
        )
        assert result.error is None, result.error
        done, no_variable, no_tool = result.result
        assert done == {"status": "completed", "result": [3, None, []], "error": None, "stdout": "in here\n"}
        assert (no_variable["status"], no_tool["status"]) == ("failed", "failed")
        assert no_variable["error"]["message"] == "NameError: name 'x' is not defined"
        assert CALLED == ["price tea"]
        assert await _children(cloister) == []

        script = await cloister.open_session("script", language=Language.TYPESCRIPT)
        result = await script.run(
            "const two = await Promise.all(['tea', 'salt'].map((what) =>"
            " spawn({ code: 'await price({ item: what })', tools: ['price'], inputs: { what } })));\n"
            "two.map((one) => [one.status, one.result])"
        )
        assert result.result == [["completed", 3], ["completed", 4]]
        assert await _children(cloister) == []


async def test_what_may_not_be_is_refused_and_leaves_no_child() -> None:
    catch = "try:\n    said = await spawn({})\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
    async with _host(spawn=SpawnOptions(max_children=2)) as cloister:
        session = await cloister.open_session("s", limits=SessionLimits(cpu_ms=1000))
        for arguments, code in {
            "'1', tools=['refund']": "UNKNOWN_TOOL",
            "'1', tools=['pay']": "UNKNOWN_TOOL",
            "'1', limits={'cpu_ms': 2000}": "INVALID_LIMITS",
            "'1', limits={'cpus': 2}": "INVALID_LIMITS",
            "'1', language='typescript'": "INVALID_ARGUMENTS",
            "''": "INVALID_ARGUMENTS",
        }.items():
            said = (await session.run(catch.format(arguments))).result
            assert str(said).startswith(code), (arguments, said)
        # The third in a cell, whatever became of the others; and a child that would have children of its own.
        many = """\
found = []
for _ in range(3):
    try:
        found.append((await spawn("1"))["status"])
    except RuntimeError as error:
        found.append(str(error).split(":")[0])
found
"""
        found = (await session.run(many)).result
        assert found == ["completed", "completed", "EXTERNAL_CALLS_EXCEEDED"]
        deeper = (await session.run("await spawn(\"await spawn('1')\", tools=['spawn'])")).result
        assert deeper["error"]["code"] == "PERMISSION_DENIED"
        assert await _children(cloister) == []
    async with Cloister() as without:
        assert (await (await without.open_session()).run("await spawn('1')")).status != "ok"
    with pytest.raises(InvalidInput):
        SpawnOptions(max_depth=0)


async def test_rules_of_the_parent_hold_for_its_child() -> None:
    rule = "calls.by_name['bank.pay'] < 2"

    class NoBig(Hook):
        async def before_call(self, call: HookedCall) -> Deny | None:
            return Deny("not so much") if call.name == "bank.pay" and call.arguments == {"cents": 99} else None

    ear = Ear()
    async with _host(on_event=ear) as cloister:
        session = await cloister.open_session(
            "strict",
            labels={"team": "a"},
            approvals={"bank.pay": {"auto": {"rule": rule}}},
            deny=["name == 'price' && session.id == 'strict' && session.labels.team == 'a'"],
            hooks=[NoBig()],
        )
        program = """\
from bank import pay
child = '''
from bank import pay
said = []
for call in (lambda: price(item="x"), lambda: pay(cents=99), lambda: pay(cents=5)):
    try:
        said.append(await call())
    except RuntimeError as error:
        said.append(str(error).split(":")[0])
said
'''
[await pay(cents=1), (await spawn(child, tools=["price", "bank.pay"]))["result"]]
"""
        result = await session.run(program)
        assert result.result == ["paid 1", ["PERMISSION_DENIED", "PERMISSION_DENIED", "paid 5"]], result
        # Its calls are counted as those of the parent, so the third asks, wherever it is made.
        seen = await session.exec(
            "await spawn('from bank import pay\\nawait pay(cents=7)', tools=['bank.pay'])", yield_ms=0
        )
        await ear.hears("approval.required")
        [asked] = await cloister.approvals(state="pending")
        assert asked.session_id.startswith("spawn-1-")
        await cloister.decide(asked.id, "deny")
        ended = await _end(session, seen.cell_id)
        assert ended.result["error"]["code"] == "APPROVAL_DENIED"
        assert CALLED == ["pay 1", "pay 5"]


async def test_secrets_of_the_parent_go_to_the_same_tools_and_no_others() -> None:
    secrets = {"KEY": Secret("s3cr3t-value", ("price",)), "OTHER": Secret("an0ther-value", ("bank.pay",))}
    async with _host() as cloister:
        session = await cloister.open_session("s", secrets=secrets)
        child = "print('s3cr3t-value')\nawait price(item=secret(name))"
        program = f"[await spawn({child!r}, tools=['price'], inputs={{'name': name}}) for name in ('KEY', 'OTHER')]"
        known, other = (await session.run(program)).result
        assert (known["result"], known["stdout"]) == (len("s3cr3t-value"), "[secret KEY]\n")
        assert other["error"]["code"] == "PERMISSION_DENIED"
    assert CALLED == ["price s3cr3t-value"]


async def test_child_ends_with_the_cell_of_its_parent() -> None:
    ear = Ear()
    async with _host(on_event=ear) as cloister:
        session = await cloister.open_session()
        seen = await session.exec("await spawn('await publish(text=\"x\")', tools=['publish'])", yield_ms=0)
        await ear.hears("approval.required")
        [asked] = await cloister.approvals(state="pending")
        [child] = [meta for meta in await cloister.list_sessions() if meta.id == asked.session_id]
        assert child.labels["cloister.parent"] == session.id
        assert (await session.terminate(seen.cell_id)).status == "terminated"
        assert await _children(cloister) == []
        assert await cloister.approvals(state="pending") == []
        assert CALLED == []


async def test_parent_sleeps_while_its_child_waits_and_nothing_is_done_twice_after_a_restart(tmp_path: Path) -> None:
    child = (
        "from bank import pay\npaid = await pay(cents=5)\nopen('/n', 'a').write('x')\n"
        "[paid, await publish(text='book'), open('/n').read()]"
    )
    scripted = (
        "const paid = await bank.pay({ cents: 6 }); files.append('/n', 'x');\n"
        "[paid, await publish({ text: 'page' }), files.read('/n')]"
    )
    cells: dict[str, str] = {}
    ear = Ear()
    async with _host(tmp_path / "c.db", on_event=ear) as cloister:
        python = await cloister.open_session("python")
        cells["python"] = (
            await python.exec(
                "before = await price(item='ink')\n"
                f"(before, await spawn({child!r}, tools=['bank.pay', 'publish']), await price(item='pen'))",
                yield_ms=0,
            )
        ).cell_id
        script = await cloister.open_session("script", language=Language.TYPESCRIPT)
        code = f"[await spawn({{ code: {scripted!r}, tools: ['bank.pay', 'publish'] }})]"
        cells["script"] = (await script.exec(code, yield_ms=0)).cell_id
        await ear.hears("approval.required", 2)
        # The parents leave their workers, as for any call that takes its time.
        await ear.hears("cell.hibernated", 2)
        assert (await python.cells())[0].waiting_for == ("spawn",)
    assert sorted(CALLED) == ["pay 5", "pay 6", "price ink"]

    async with _host(tmp_path / "c.db") as cloister:
        asked = await cloister.approvals(state="pending")
        assert len(asked) == 2
        for one in asked:
            await cloister.decide(one.id, "allow")
        python, script = await cloister.open_session("python"), await cloister.open_session("script")
        ended = await _end(python, cells["python"])
        assert ended.status == "completed", ended
        first, told, last = ended.result
        assert (first, last) == (3, 3)
        assert (told["status"], told["result"]) == ("completed", ["paid 5", "published book", "x"])
        ended = await _end(script, cells["script"])
        assert ended.result[0]["result"] == ["paid 6", "published page", "x"]
    async with _host(tmp_path / "c.db") as cloister:
        # What they came to is on record, so they are gone.
        assert [meta.id for meta in await cloister.stored_sessions()] == ["python", "script"]
    assert sorted(CALLED) == ["pay 5", "pay 6", "price ink", "price pen", "publish book", "publish page"]


async def test_child_that_a_crash_has_left_is_swept_up_when_its_parent_has_ended(tmp_path: Path) -> None:
    ear = Ear()
    async with _host(tmp_path / "c.db", on_event=ear) as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec("await spawn('await publish(text=\"x\")', tools=['publish'])", yield_ms=0)
        await ear.hears("approval.required")
    # A host that cannot go on with the parent gives its cell up.
    async with Cloister(store=f"sqlite://{tmp_path / 'c.db'}?synchronous=normal") as other:
        await other.abandon(seen.cell_id)
        assert len([meta for meta in await other.stored_sessions() if meta.id.startswith("spawn-")]) == 1
    async with _host(tmp_path / "c.db") as cloister:
        assert [meta.id for meta in await cloister.stored_sessions()] == ["s"]
        assert await cloister.approvals(state="pending") == []
    assert CALLED == []


async def test_call_that_is_made_again_is_told_what_its_child_came_to_and_runs_nothing(tmp_path: Path) -> None:
    """As after a crash between the child's end and the record of it."""
    code = "print('once')\nawait price(item='tea')"

    async def call(session: Session, cell_id: str) -> Any:
        made = session.tools.get("spawn")
        assert made is not None
        about = CallContext(session.id, cell_id, "cal_1", "spawn", f"{cell_id}/7", time.monotonic() + PATIENCE_S)
        return await made.handler(code=code, tools=["price"], context=about)

    ear = Ear()
    async with _host(tmp_path / "c.db", on_event=ear) as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec("await publish(text='x')", yield_ms=0)
        await ear.hears("approval.required")
        first = await call(session, seen.cell_id)
        assert first == {"status": "completed", "result": 3, "error": None, "stdout": "once\n"}
        assert await call(session, seen.cell_id) == first
        # Nobody has said that it is on record, so it is still there.
        [child] = await _children(cloister)
    async with _host(tmp_path / "c.db") as cloister:
        assert child in [meta.id for meta in await cloister.stored_sessions()]
        assert await call(await cloister.open_session("s"), seen.cell_id) == first
    assert CALLED == ["price tea"]
