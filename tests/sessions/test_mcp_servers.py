"""Real MCP servers behind a whole Cloister, as programs meet them: two published ones and one over HTTP."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    Completed,
    Event,
    Failed,
    McpSource,
    Overlay,
    SourceUnavailable,
    Terminated,
    read_mcp_servers,
)
from cloister.sessions.events import EventStream
from tests.sessions.door import value
from tests.sessions.ways import LANGUAGES, WAYS, House, call, caught, written
from tests.tools.sources import small_server
from tests.tools.sources.test_mcp_http import lab
from tests.tools.sources.test_mcp_stdio import BIN

pytestmark = pytest.mark.anyio
both_languages = pytest.mark.parametrize("language", LANGUAGES)

IMAGE = "data:image/png;base64,aGk="
TOGETHER = {
    "python": "import asyncio\nfrom lab import meet\nmet = [meet(place='inn', people=5) for _ in range(5)]\n"
    "await asyncio.gather(*met)",
    "typescript": "await Promise.all([1, 2, 3, 4, 5].map(_ => lab.meet({place: 'tavern', people: 5})))",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repository")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    (made / "file.txt").write_text("one\n")
    for words in (["init", "-b", "trunk"], ["add", "."], ["commit", "-m", "the first"]):
        subprocess.run(["git", *identity, *words], cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
async def house(repository: Path, anyio_backend: str) -> AsyncIterator[House]:
    """One for all tests here: what takes time is to start the servers."""
    async with lab() as port:
        config = {
            "mcpServers": {
                "time": {"command": str(BIN / "mcp-server-time")},
                "git": {"command": str(BIN / "mcp-server-git"), "args": ["--repository", str(repository)]},
                "lab": {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"},
            }
        }
        async with House(sources=[McpSource(one) for one in read_mcp_servers(config)]) as made:
            yield made


async def next_event(stream: EventStream, kind: str) -> Event:
    async with asyncio.timeout(30):
        async for event in stream:
            if event.kind == kind:
                return event
    raise AssertionError(f"no {kind}")


async def test_tools_of_all_servers_are_in_one_catalog(house: House) -> None:
    session = await house.open("python")
    names = session.tools.names()
    assert {"time_.convert_time", "git.git_status", "lab.add"} <= set(names)
    assert [info.name for info in session.sources] == ["time", "git", "lab"]
    assert all(info.missing is None and info.notes == () for info in session.sources)
    found = await session.search_tools("what has changed in the working tree", limit=3)
    assert "git.git_status" in [tool["name"] for tool in found]
    shown = session.preamble().text
    assert "async def convert_time(source_timezone: str, time: str, target_timezone: str)" in shown


@pytest.mark.parametrize("way", WAYS)
async def test_typed_call_reaches_its_server(house: House, repository: Path, way: str) -> None:
    session = await house.open(way)
    assert value(await call(session, way, "lab.add", a=2, b=3)) == {"total": 5}
    tokyo = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    told: Any = value(await call(session, way, "time_.convert_time", **tokyo))
    assert told["time_difference"] == "+9.0h"
    assert "the first" in str(value(await call(session, way, "git.git_log", repo_path=str(repository))))
    wrong = await call(session, way, "lab.add", a="two", b=3)
    assert wrong.error is not None
    assert wrong.error.code == "INVALID_ARGUMENTS"


async def test_strict_types_know_what_a_server_gives_and_takes(house: House) -> None:
    session = await house.open("python", type_check="strict")
    assert value(await session.run("from lab import add\n(await add(a=1, b=2))['total'] + 1")) == 4
    for code in ("await add(a=1, b='2')", "(await add(a=1, b=2))['sum']"):
        wrong = await session.run(code)
        assert wrong.error is not None
        assert (wrong.error.code, wrong.external_calls) == ("TYPE_ERROR", ())


@both_languages
async def test_calls_of_one_program_are_made_at_once(house: House, language: str) -> None:
    session = await house.open(language)
    result = await session.run(TOGETHER[language])
    assert (result.status, len(set(result.result)), len(result.result)) == ("ok", 1, 5)


@both_languages
async def test_error_of_a_server_is_one_that_the_program_can_catch(house: House, language: str) -> None:
    session = await house.open(language)
    for name, argument, word in (("lab.fail", "reason", "ink"), ("time_.get_current_time", "timezone", "Atlantis")):
        said = str(value(await session.run(caught(language, name, _argument(language, argument, word)))))
        assert said.startswith("TOOL_ERROR")
        assert word in said


def _argument(language: str, name: str, text: str) -> str:
    return f"{name}='{text}'" if language == "python" else f"{{{name}: '{text}'}}"


@both_languages
async def test_server_notices_that_a_cell_was_terminated(house: House, language: str) -> None:
    session = await house.open(language)
    events = session.events()
    seen = await session.exec(written(language, "lab.hang"), yield_ms=0)
    progressed = await next_event(events, "call.progressed")
    assert (progressed.data["message"], progressed.data["fraction"]) == ("hanging", 0.25)
    assert isinstance(await session.terminate(seen.cell_id), Terminated)
    assert value(await call(session, language, "lab.when_cancelled")) == "it was"


@both_languages
async def test_destructive_tool_asks_a_person_first(house: House, language: str) -> None:
    session = await house.open(language)
    waiting = await session.run(written(language, "lab.erase"))
    assert waiting.status == "waiting_for_approval"
    await house.cloister.decide(waiting.approvals[0].id, "allow")
    assert value(await session.resume(waiting.cell_id)) == "gone"


async def test_new_tool_of_a_server_is_there_for_the_next_cell(house: House) -> None:
    session = await house.open("python")
    events = session.events()
    assert value(await session.run("from lab import grow\nawait grow(name='sprout_of_cell')")) == "grown"
    assert (await next_event(events, "catalog.changed")).data["added"] == ["lab.sprout_of_cell"]
    assert value(await session.run("from lab import sprout_of_cell\nawait sprout_of_cell()")) == "new here"


@both_languages
async def test_image_of_a_server_is_a_value_that_the_program_can_show(house: House, language: str) -> None:
    session = await house.open(language)
    shown = {
        "python": "from lab import mixed\nitems = await mixed()\nimage(items[1])\nitems",
        "typescript": "const items = await lab.mixed(); image(items[1]); items",
    }
    seen = await session.exec(shown[language], yield_ms=30_000)
    assert isinstance(seen, Completed)
    assert [item["image_url"] for item in seen.content if item["type"] == "input_image"] == [IMAGE]
    items: Any = seen.result
    assert [item["type"] for item in items] == ["input_text", "input_image", "resource", "resource"]
    assert items[1]["image_url"] == IMAGE


# -- servers that break ------------------------------------------------------------------------------------------------

# `crash` ends the server, `wait` never answers, `go` says how often it was started.
FRAGILE = """
open(sys.argv[1], "a").write("x")
TOOLS = [{"name": n, "inputSchema": {"type": "object"}} for n in ("crash", "go", "wait")]
def called(id, name):
    if name == "crash": os._exit(3)
    if name == "go": answer(id, {"content": [{"type": "text", "text": open(sys.argv[1]).read()}]})
"""
# Tools are those that the file says.
CHANGING = """
def listed(id, cursor):
    answer(id, {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in open(sys.argv[1]).read().split()]})
"""


def odd(insert: str, path: Path, **options: Any) -> McpSource:
    made = small_server.server(insert)
    return McpSource(small_server.server(insert, args=[*made.args, str(path)], **options))


async def test_crash_in_the_middle_of_a_call_fails_it_by_name_and_later_calls_work_again(tmp_path: Path) -> None:
    program = """
import asyncio
from odd import crash, go, wait
async def told(call):
    try:
        return await call
    except RuntimeError as e:
        return str(e)
both = await asyncio.gather(told(wait()), told(crash()))
[*both, await go()]
"""
    async with House(sources=[odd(FRAGILE, tmp_path / "starts", patience_ms=60_000)]) as house:
        session = await house.open("python")
        failed, crashed, again = (await session.run(program)).result
        for said in (failed, crashed):
            assert said.startswith("SOURCE_UNAVAILABLE: MCP server 'odd' is gone: it ended")
        assert again == "xx"
        assert value(await session.run("await go()")) == "xx"


@both_languages
async def test_tool_that_a_server_dropped_is_refused_by_name(tmp_path: Path, language: str) -> None:
    listed = tmp_path / "listed"
    listed.write_text("stay leave")
    async with House(sources=[odd(CHANGING, listed)]) as house:
        session = await house.open(language)
        assert value(await call(session, language, "odd.leave")) == "went"
        listed.write_text("stay")
        await session.refresh()
        said = str(value(await session.run(caught(language, "odd.leave"))))
        assert said.startswith("UNKNOWN_TOOL: the tool `odd.leave` is gone: source 'odd' does not offer it any more")
        assert value(await call(session, language, "odd.stay")) == "went"


@pytest.mark.parametrize(
    ("insert", "said"),
    [
        ("print('hello, I am no server' * 3, flush=True); sys.exit(1)", "it ended"),
        ("def begin(id): pass", "did not answer the handshake within"),
        ("def listed(id, cursor): answer(id, {'tools': 'all of them'})", "something that the protocol does not have"),
        ("def listed(id, cursor): pass", "did not list its tools within"),
        ("def begin(id): sys.stdout.write('x' * (40 << 20)); sys.stdout.flush()", ""),
    ],
)
async def test_session_opens_with_the_others_when_an_optional_server_is_no_good(
    house: House, insert: str, said: str
) -> None:
    bad = McpSource(small_server.server(insert, connect_timeout_ms=2500))
    session = await house.open("python", sources=[Overlay(bad, optional=True)])
    missing = session.sources[-1].missing
    assert missing is not None
    assert "source 'odd' cannot be reached: MCP server 'odd'" in missing
    assert said in missing
    assert value(await session.run("from lab import say\nawait say(text='still here')")) == "still here"


async def test_session_does_not_open_without_a_server_that_it_needs(house: House) -> None:
    bad = McpSource(small_server.server("sys.exit(1)"))
    with pytest.raises(SourceUnavailable, match="'odd'"):
        await house.open("python", sources=[bad])


async def test_flood_of_a_server_costs_its_own_call_and_no_other(house: House) -> None:
    flood = """
def called(id, name):
    while True: sys.stdout.write("nonsense, and more of it\\n" * 1000)
"""
    source = McpSource(small_server.server(flood, patience_ms=0))
    session = await house.open("python", sources=[source])
    program = """
import asyncio
from odd import go
from lab import say
async def flooded():
    try:
        return await go()
    except RuntimeError as e:
        return str(e)
await asyncio.gather(flooded(), say(text='dry'))
"""
    said, dry = (await session.run(program)).result
    assert said.startswith("SOURCE_UNAVAILABLE: MCP server 'odd' is gone")
    assert dry == "dry"


async def test_cell_whose_server_ended_fails_by_name_and_the_next_one_is_fine(tmp_path: Path) -> None:
    async with House(sources=[odd(FRAGILE, tmp_path / "starts", patience_ms=60_000)]) as house:
        session = await house.open("typescript")
        seen = await session.exec("await odd.crash()", yield_ms=30_000)
        assert isinstance(seen, Failed)
        assert seen.error.code == "SOURCE_UNAVAILABLE"
        seen = await session.exec("await odd.go()", yield_ms=30_000)
        assert isinstance(seen, Completed)
