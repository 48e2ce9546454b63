"""MCP servers over their standard input and output: one of our own with everything in it, and two published ones."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloister.core.capability import SideEffect
from cloister.ports.source import SourceFailed
from cloister.tools.contract import Contract
from cloister.tools.sources.mcp import McpSource, McpStdio
from tests.tools.sources.told import about, failure_of

pytestmark = pytest.mark.anyio

LAB = str(Path(__file__).with_name("lab_server.py"))
BIN = Path(sys.executable).parent


def lab(**options: Any) -> McpStdio:
    plain: dict[str, Any] = {"name": "lab", "command": sys.executable, "args": [LAB, "stdio"]}
    return McpStdio(**{**plain, **options})


@pytest.fixture(scope="module")
async def source() -> AsyncIterator[McpSource]:
    """One server for all tests that do it no harm: each takes a second to start."""
    async with McpSource(lab()) as opened:
        yield opened


# -- what there is ----------------------------------------------------------------------------------------------------


async def test_tools_are_listed_in_the_namespace_of_their_server(source: McpSource) -> None:
    manifests = {one.full_name: one for one in await source.manifests()}
    assert manifests["lab.add"].description == "Add two numbers."
    assert manifests["lab.add"].parameters == ("a", "b")
    assert list(manifests) == sorted(manifests)
    assert {one.namespace for one in manifests.values()} == {"lab"}


async def test_names_that_cannot_be_written_are_changed_and_their_own_side_calls_them_as_before(
    source: McpSource,
) -> None:
    assert source.original("lab.get_order") == "get-order"
    assert source.original("lab.get_order_2") == "get.order"
    assert await source.call("lab.get_order", {}, about()) == "with a dash"
    assert await source.call("lab.get_order_2", {}, about()) == "with a dot"


async def test_every_contract_compiles(source: McpSource) -> None:
    for manifest in await source.manifests():
        found = await source.contract(manifest.full_name)
        Contract.compile(found.input_schema, what="input")
        Contract.compile(found.output_schema, what="output")
        assert found.input_schema["type"] == "object"


async def test_a_tool_that_only_reads_may_be_repeated_and_others_may_not(source: McpSource) -> None:
    reads, plain = await source.contract("lab.add"), await source.contract("lab.say")
    assert (reads.side_effect, reads.idempotent) == (SideEffect.READ, True)
    assert (plain.side_effect, plain.idempotent) == (SideEffect.EXTERNAL_SYSTEM, False)
    assert (await source.contract("lab.get_order")).idempotent


async def test_a_destructive_tool_asks_a_person(source: McpSource) -> None:
    assert (await source.contract("lab.erase")).approval_policy.kind == "manual"
    assert (await source.contract("lab.say")).approval_policy.kind == "none"


async def test_a_tool_that_is_not_there_is_named(source: McpSource) -> None:
    with pytest.raises(SourceFailed, match=r"MCP server 'lab' has no tool 'lab\.nope'"):
        await source.contract("lab.nope")
    assert "'lab.nope'" in (await failure_of(source, "lab.nope")).message


async def test_refresh_without_a_change_keeps_the_revision(source: McpSource) -> None:
    before = source.revision
    await source.refresh()
    assert source.revision == before


# -- calls ------------------------------------------------------------------------------------------------------------


async def test_structured_content_is_the_value(source: McpSource) -> None:
    assert await source.call("lab.add", {"a": 2, "b": 3}, about()) == {"total": 5}
    assert (await source.contract("lab.add")).output_schema["properties"]["total"]["type"] == "integer"


async def test_one_text_is_a_text_even_if_it_looks_like_json(source: McpSource) -> None:
    assert await source.call("lab.say", {"text": '{"a": 1}'}, about()) == '{"a": 1}'


async def test_no_content_is_null(source: McpSource) -> None:
    assert await source.call("lab.nothing", {}, about()) is None


async def test_other_content_is_a_list_of_items(source: McpSource) -> None:
    assert await source.call("lab.mixed", {}, about()) == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
        {"type": "resource", "uri": "lab://notes", "mime_type": "text/plain", "text": "a note"},
        {"type": "resource", "uri": "lab://more", "mime_type": None, "name": "more"},
    ]


async def test_a_failure_says_what_the_tool_said(source: McpSource) -> None:
    failed = await failure_of(source, "lab.fail", {"reason": "no paper"})
    assert "no paper" in failed.message
    assert not failed.gone


async def test_a_long_failure_is_cut_and_says_so(source: McpSource) -> None:
    failed = await failure_of(source, "lab.fail", {"reason": "x" * 9000})
    assert len(failed.message) < 4100
    assert "characters more" in failed.message


async def test_bad_arguments_are_refused_by_the_server_and_told(source: McpSource) -> None:
    assert "total" not in (await failure_of(source, "lab.add", {"a": "many"})).message


async def test_cancelling_a_call_cancels_it_at_the_server(source: McpSource) -> None:
    heard: list[tuple[str, float | None]] = []
    began = asyncio.Event()

    def progress(text: str, share: float | None) -> None:
        heard.append((text, share))
        began.set()

    context = about()
    object.__setattr__(context, "progress", progress)
    call = asyncio.ensure_future(source.call("lab.hang", {}, context))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert heard == [("hanging", 0.25)]
    assert await source.call("lab.when_cancelled", {}, about()) == "it was"


# -- change, crash and end --------------------------------------------------------------------------------------------


async def test_a_changed_list_is_read_again_and_told() -> None:
    async with McpSource(lab()) as source:
        told = asyncio.Event()
        end = source.subscribe(told.set)
        before = source.revision
        assert await source.call("lab.grow", {"name": "sprout"}, about()) == "grown"
        await told.wait()
        assert source.revision != before
        assert await source.call("lab.sprout", {}, about()) == "new here"
        end()


async def test_a_crash_fails_calls_by_name_and_later_ones_reach_the_server_that_came_back() -> None:
    async with McpSource(lab(patience_ms=60_000)) as source:
        before = source.revision
        waiting = asyncio.ensure_future(failure_of(source, "lab.meet", {"place": "never", "people": 2}))
        failed = await failure_of(source, "lab.crash")
        assert failed.gone
        assert failed.message == "MCP server 'lab' is gone: it ended, and last said: the lab is on fire"
        assert (await waiting).gone
        assert len(await source.manifests()) > 5
        assert await source.call("lab.say", {"text": "back"}, about()) == "back"
        assert source.revision == before


# -- published servers -------------------------------------------------------------------------------------------------


async def test_the_published_time_server() -> None:
    async with McpSource(McpStdio(name="time", command=str(BIN / "mcp-server-time"))) as source:
        assert [one.name for one in await source.manifests()] == ["convert_time", "get_current_time"]
        told = await source.call(
            "time_.convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            about(),
        )
        assert isinstance(told, dict)
        assert told["time_difference"] == "+9.0h"
        failed = await failure_of(source, "time_.get_current_time", {"timezone": "Atlantis"})
        assert "Atlantis" in failed.message


async def test_the_published_git_server(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "trunk")
    (tmp_path / "file.txt").write_text("one\n")
    git("add", ".")
    git("commit", "-m", "the first")
    server = McpStdio(name="git", command=str(BIN / "mcp-server-git"), args=["--repository", str(tmp_path)])
    async with McpSource(server) as source:
        (tmp_path / "file.txt").write_text("two\n")
        seen = await asyncio.gather(
            source.call("git.git_status", {"repo_path": str(tmp_path)}, about()),
            source.call("git.git_log", {"repo_path": str(tmp_path)}, about()),
        )
        assert "file.txt" in str(seen[0])
        assert "the first" in str(seen[1])
        failed = await failure_of(source, "git.git_status", {"repo_path": "/nowhere/at/all"})
        assert failed.message
