"""The life of an MCP server: on which terms it is used, what it is told, and how it comes and goes."""

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from cloister.ports.source import SourceFailed
from cloister.tools.sources.mcp import McpSource, McpStdio
from tests.tools.sources.small_server import server
from tests.tools.sources.told import about, failure_of

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many of these servers have to be killed: nobody waits two seconds for each."""
    monkeypatch.setattr("cloister.tools.sources.mcp.child.GRACE_SECONDS", 0.1)


LONG = "def called(id, name): answer(id, {'content': [{'type': 'text', 'text': 'x' * 2000}]})"
# Never answers, and says afterwards what it was told to stop.
HANG = """
cancelled = []
TOOLS.append({"name": "seen", "inputSchema": {"type": "object"}})
def heard(message):
    if message.get("method") == "notifications/cancelled": cancelled.append(message["params"]["requestId"])
asked = []
def called(id, name):
    if name == "go": asked.append(id)
    else: answer(id, {"content": [{"type": "text", "text": str(cancelled == asked)}]})
"""
CRASH = "def called(id, name): os._exit(3)"


async def test_an_answer_over_its_bound_is_refused() -> None:
    async with McpSource(server(LONG, max_response_bytes=1000)) as source:
        assert "1000 bytes" in (await failure_of(source, "odd.go")).message
    async with McpSource(server(LONG)) as source:
        assert await source.call("odd.go", {}, about()) == "x" * 2000


async def test_a_call_without_an_answer_ends_by_name_and_is_cancelled_at_the_server() -> None:
    async with McpSource(server(HANG, call_timeout_ms=1500)) as source:
        failed = await failure_of(source, "odd.go")
        assert failed.message == "MCP server 'odd' did not answer within 1500 ms"
        assert "not known" in (failed.hint or "")
        assert await source.call("odd.seen", {}, about()) == "True"


async def test_a_call_that_has_no_patience_fails_as_gone_while_the_server_is_away() -> None:
    async with McpSource(server(CRASH, patience_ms=0)) as source:
        assert (await failure_of(source, "odd.go")).gone
        failed = await failure_of(source, "odd.go")
        assert failed.gone
        assert failed.message == "MCP server 'odd' is gone: it ended"
        assert [one.name for one in await source.manifests()] == ["go"]


class Impatient:
    """A clock whose sleeps are over at once, and written down."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.enough = asyncio.Event()

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) == 10:
            self.enough.set()
            await asyncio.Event().wait()


async def test_a_server_that_does_not_come_back_is_tried_ever_more_rarely(tmp_path: Path) -> None:
    # Comes up the first time only.
    once = f"import pathlib\nif pathlib.Path({str(tmp_path / 'been')!r}).exists(): sys.exit('not again')\n"
    once += f"pathlib.Path({str(tmp_path / 'been')!r}).touch()\n{CRASH}"
    clock = Impatient()
    async with McpSource(server(once, patience_ms=0), clock=clock, chance=random.Random(1)) as source:
        await failure_of(source, "odd.go")
        await clock.enough.wait()
        assert "not again" in (await failure_of(source, "odd.go")).message
    whole = [min(30.0, 0.2 * 2**n) for n in range(10)]
    assert all(full / 2 <= slept <= full for slept, full in zip(clock.slept, whole, strict=True))
    assert clock.slept != whole


class Endless(Impatient):
    """A clock whose sleeps are never over."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.enough.set()
        await asyncio.Event().wait()


async def test_refresh_tries_a_server_at_once_however_long_the_pause(tmp_path: Path) -> None:
    may, crash = tmp_path / "may", tmp_path / "crash"
    may.touch()
    here = f"""
import pathlib
if not pathlib.Path({str(may)!r}).exists(): sys.exit('not yet')
def called(id, name):
    if pathlib.Path({str(crash)!r}).exists(): os._exit(3)
    answer(id, {{"content": [{{"type": "text", "text": "went"}}]}})
"""
    clock = Endless()
    async with McpSource(server(here, patience_ms=0), clock=clock) as source:
        may.unlink()
        crash.touch()
        await failure_of(source, "odd.go")
        await clock.enough.wait()
        with pytest.raises(SourceFailed, match="not yet") as failed:
            await source.refresh()
        assert failed.value.gone
        crash.unlink()
        may.touch()
        await source.refresh()
        assert await source.call("odd.go", {}, about()) == "went"


async def test_closing_ends_whoever_waits_for_a_refresh(tmp_path: Path) -> None:
    deaf = f"""
import pathlib, time
if pathlib.Path({str(tmp_path / "been")!r}).exists(): time.sleep(600)
pathlib.Path({str(tmp_path / "been")!r}).touch()
{CRASH}
"""
    clock = Endless()
    async with McpSource(server(deaf, patience_ms=0), clock=clock) as source:
        await failure_of(source, "odd.go")
        await clock.enough.wait()
        waiting = asyncio.ensure_future(source.refresh())
        await asyncio.sleep(0)
    with pytest.raises(SourceFailed, match="it was closed"):
        await waiting


async def test_closing_ends_the_server() -> None:
    own = "def called(id, name): answer(id, {'content': [{'type': 'text', 'text': str(os.getpid())}]})"
    async with McpSource(server(own)) as source:
        pid = int(str(await source.call("odd.go", {}, about())))
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()
    failed = await failure_of(source, "odd.go")
    assert failed.message == "MCP server 'odd' is gone: it was closed"


async def test_a_source_may_be_opened_again_but_not_twice_at_once() -> None:
    source = McpSource(server())
    for _ in range(2):
        async with source:
            assert await source.call("odd.go", {}, about()) == "went"
            with pytest.raises(RuntimeError, match="open already"):
                await source.__aenter__()


async def test_a_source_that_was_not_opened_knows_nothing() -> None:
    with pytest.raises(SourceFailed, match="was not opened"):
        await McpSource(server()).manifests()


async def test_a_cancelled_opening_leaves_no_server_behind(tmp_path: Path) -> None:
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    script = f"import os, time\nopen({str(pipe)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    source = McpSource(McpStdio(name="slow", command=sys.executable, args=["-c", script]))
    opening = asyncio.ensure_future(source.__aenter__())
    pid = await asyncio.to_thread(pipe.read_text)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not Path(f"/proc/{pid}").exists()


async def test_a_server_learns_nothing_of_the_environment_but_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", "do not tell")
    tell = "def called(id, name): answer(id, {'content': [{'type': 'text', 'text': json.dumps(dict(os.environ))}]})"
    given = {"GIVEN": "yes", "MADE": lambda: "just now, for you"}
    async with McpSource(server(tell, env=given)) as source:
        told = json.loads(str(await source.call("odd.go", {}, about())))
        assert set(told) - {"LC_CTYPE"} <= {"PATH", "HOME", "LANG", "GIVEN", "MADE"}
        # What a function gave is a secret: it does not come back.
        assert (told["GIVEN"], told["MADE"]) == ("yes", "[secret]")


async def test_terms_of_the_host_choose_tools_rename_and_ask() -> None:
    tools = "TOOLS = [{'name': n, 'inputSchema': {}, 'annotations': {'destructiveHint': n == 'erase'}} "
    tools += "for n in ('get-order', 'erase', 'other')]\nfor t in TOOLS: t['inputSchema'] = {'type': 'object'}"
    given = server(
        tools,
        name="The lab!",
        namespace="science",
        tools=["get-*", "erase"],
        approvals={"erase": "none"},
        approval="manual",
        defer_loading=True,
        call_timeout_ms=1234,
    )
    async with McpSource(given) as source:
        manifests = await source.manifests()
        assert [one.full_name for one in manifests] == ["science.erase", "science.get_order"]
        assert all(one.defer_loading for one in manifests)
        erase, order = [await source.contract(one.full_name) for one in manifests]
        assert (erase.approval_policy.kind, order.approval_policy.kind) == ("none", "manual")
        assert erase.limits.timeout_ms == 1234


async def test_a_missing_sdk_is_named_with_the_way_to_get_it() -> None:
    script = """
import asyncio, sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None
from cloister import McpSource, McpStdio, SourceFailed
try:
    asyncio.run(McpSource(McpStdio(name="x", command="true")).__aenter__())
except SourceFailed as failed:
    print(failed.message, "|", failed.hint)
"""
    done = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=subprocess.PIPE)
    told, _ = await done.communicate()
    assert told.decode().strip().endswith("which is not installed | pip install 'cloister[mcp]'")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
async def test_a_server_that_ignores_everything_dies_with_its_host(tmp_path: Path) -> None:
    server = "import signal, time, os\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    server += "print('{', flush=True)\ntime.sleep(600)"
    host = f"""
import asyncio, sys
from cloister.tools.sources.mcp import McpStdio
from cloister.tools.sources.mcp.child import start
async def main():
    child = await start(McpStdio(name="deaf", command=sys.executable, args=["-c", {server!r}]), {{}})
    await child.stdout.read(1)
    print(child.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", host, stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    handle = os.pidfd_open(pid)
    process.kill()
    await process.wait()
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, gone.set)
    await gone.wait()
    asyncio.get_running_loop().remove_reader(handle)
    os.close(handle)


async def test_a_server_that_speaks_only_the_newer_protocol_is_spoken_to() -> None:
    newer = """
def begin(id): send({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "too old",
                     "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"}}})
FRESH = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
def heard(message):
    if message.get("method") == "server/discover":
        answer(message["id"], {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **FRESH})
        message["method"] = None
def listed(id, cursor): answer(id, {"tools": TOOLS, **FRESH})
def called(id, name): answer(id, {"content": [{"type": "text", "text": "newer"}], "resultType": "complete"})
"""
    async with McpSource(server(newer)) as source:
        assert await source.call("odd.go", {}, about()) == "newer"
