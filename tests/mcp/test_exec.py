"""Programs over the protocol: what goes in, what comes back, in both protocols and from a real process."""

import asyncio
from typing import Any

import pytest

from tests.mcp.lab import Lab, data, heard, images, run, text

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.anyio
async def test_program_runs_and_its_variables_last(lab: Lab) -> None:
    async with lab.client() as client:
        done = await client.call_tool("exec", {"code": "x = await get_order('A7')\nprint('seen')\nx['size'] + 1"})
        assert data(done)["status"] == "completed"
        assert data(done)["result"] == 3
        assert data(done)["output"] == "seen\n"
        assert text(done) == "seen\n\n[completed] result: 3"
        assert not done.is_error
        assert (await run(client, "x['size']"))["result"] == 2


@pytest.mark.anyio
async def test_tools_are_listed_with_what_programs_can_call(lab: Lab) -> None:
    async with lab.client() as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["exec", "wait", "search_tools"]
        told = listed.tools[0].description or ""
        assert "get_order" in told
        assert "Look up an order." in told
        assert len(told) < 2000 * 4 + 500
        assert "get_order" in text(await client.call_tool("search_tools", {"query": "look up an order"}))
    async with lab.client("--allow-approve", "--cells", "--preamble-tokens", "0") as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["exec", "wait", "search_tools", "cells", "approve"]
        assert "get_order" not in (listed.tools[0].description or "")
        assert all(len(tool.description or "") < 300 for tool in listed.tools)


@pytest.mark.anyio
async def test_failed_program_is_an_error_with_code_place_and_hint(lab: Lab) -> None:
    async with lab.client() as client:
        failed = await client.call_tool("exec", {"code": "print('before')\n1 / 0"})
        assert failed.is_error
        assert data(failed)["error"]["code"] == "RUNTIME_ERROR"
        assert data(failed)["error"]["span"]["line"] == 2
        assert data(failed)["output"] == "before\n"
        assert "RUNTIME_ERROR" in text(failed)
        refused = await client.call_tool("exec", {"code": "await get_ordr('A7')"})
        assert "did you mean" in text(refused)
        assert data(refused)["error"]["code"] == "UNKNOWN_TOOL"
        assert (await run(client, "1 + 1"))["result"] == 2


@pytest.mark.anyio
async def test_images_and_texts_come_in_their_order(lab: Lab) -> None:
    async with lab.client() as client:
        code = f"text('one')\nimage('data:image/png;base64,{PIXEL}')\ntext('two')\nimage('https://example.com/a.png')"
        shown = await client.call_tool("exec", {"code": code})
        kinds = [block.type for block in shown.content]
        assert kinds == ["text", "image", "text", "resource_link", "text"]
        inline, linked = images(shown)
        assert (inline.mime_type, getattr(inline, "data", None)) == ("image/png", PIXEL)
        assert getattr(linked, "uri", None) == "https://example.com/a.png"
        assert data(shown)["images"] == 2


@pytest.mark.anyio
async def test_program_that_takes_long_is_waited_for(lab: Lab) -> None:
    async with lab.client("--cells") as client:
        go = lab.pipe("go")
        seen = await run(client, "print('a')\nprint(await gate('go'))\n'done'", yield_ms=50)
        assert seen["status"] == "yielded"
        assert "wait" in seen["next"]
        cells = data(await client.call_tool("cells"))["cells"]
        assert [(cell["id"], cell["language"]) for cell in cells] == [(seen["cell_id"], "python")]
        await asyncio.to_thread(go.write_text, "open")
        done = data(await client.call_tool("wait", {"cell_id": seen["cell_id"]}))
        assert (done["status"], done["result"]) == ("completed", "done")
        assert seen.get("output", "") + done.get("output", "") == "a\nopen\n"
        # Its end was told: nothing is told twice.
        gone = await client.call_tool("wait", {"cell_id": seen["cell_id"]})
        assert gone.is_error
        assert data(gone)["error"]["code"] == "CELL_NOT_FOUND"


@pytest.mark.anyio
async def test_program_can_be_stopped_by_wait(lab: Lab) -> None:
    async with lab.client() as client:
        began, cancelled = lab.pipe("began"), lab.pipe("cancelled")
        seen = await run(client, "await rest('began', 'cancelled')", yield_ms=0)
        assert await heard(began) == "began"
        ending = asyncio.ensure_future(heard(cancelled))
        ended = data(await client.call_tool("wait", {"cell_id": seen["cell_id"], "terminate": True}))
        assert ended["status"] == "terminated"
        assert await ending == "cancelled"


@pytest.mark.anyio
async def test_both_languages_have_variables_of_their_own(lab: Lab) -> None:
    async with lab.client() as client:
        assert (await run(client, "const n = 41; n + 1", language="typescript"))["result"] == 42
        assert (await run(client, "n = 1\nn"))["result"] == 1
        assert (await run(client, "n", language="typescript"))["result"] == 41
        assert data(await client.call_tool("exec", {"code": "1", "language": "cobol"}))["error"]["code"] == (
            "INVALID_LANGUAGE"
        )
    async with lab.client("--language", "typescript") as client:
        assert (await run(client, "const n: number = 1; n"))["result"] == 1


@pytest.mark.anyio
async def test_notes_and_calls_are_told_as_progress(lab: Lab, era: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with lab.client(mode=era) as client:
        code = "notify('first')\nawait get_order('A7')\nnotify('last')\n1"
        done = await client.call_tool("exec", {"code": code}, progress_callback=hear)
        assert data(done)["result"] == 1
    assert told == [(1, "first"), (2, "get_order: ok"), (3, "last")]


@pytest.mark.anyio
async def test_cancelled_request_ends_its_program(lab: Lab, era: str) -> None:
    async with lab.client("--cells", mode=era) as client:
        began, cancelled = lab.pipe("began"), lab.pipe("cancelled")
        code = "await rest('began', 'cancelled')"
        call = asyncio.ensure_future(client.call_tool("exec", {"code": code, "yield_ms": 60_000}))
        assert await heard(began) == "began"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await heard(cancelled) == "cancelled"
        # The session is free for the next one.
        assert (await run(client, "'next'"))["result"] == "next"
        assert data(await client.call_tool("cells"))["cells"] == []


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("get_order", {"order_id": "A7"}, "INVALID_INPUT", "exec, wait, search_tools"),
    ("approve", {"approval_id": "apr_x", "decision": "allow"}, "INVALID_INPUT", "there is no tool 'approve'"),
    ("exec", {}, "INVALID_INPUT", "`code` is missing"),
    ("exec", {"code": 7}, "INVALID_INPUT", "`code` is a string, not 7"),
    ("exec", {"code": "1", "yeild_ms": 5}, "INVALID_INPUT", "did you mean `yield_ms`?"),
    ("exec", {"code": "1", "yield_ms": -1}, "INVALID_INPUT", "`yield_ms` is a whole number"),
    ("exec", {"code": "1", "yield_ms": True}, "INVALID_INPUT", "`yield_ms` is a whole number"),
    ("exec", {"code": "x" * 3_000_000}, "INVALID_INPUT", "larger than"),
    ("wait", {"cell_id": "cel_nobody"}, "CELL_NOT_FOUND", "cel_nobody not found"),
    ("wait", {"cell_id": "c" * 10_000}, "CELL_NOT_FOUND", "not found"),
    ("wait", {"cell_id": "cel_x", "terminate": "yes"}, "INVALID_INPUT", "`terminate` is true or false"),
    ("search_tools", {"query": ["a"]}, "INVALID_INPUT", "`query` is a string, not an array"),
]


@pytest.mark.anyio
async def test_bad_input_is_an_error_with_our_code_and_loses_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        await run(client, "kept = 1")
        for name, arguments, code, said in BAD:
            refused = await client.call_tool(name, arguments)
            assert refused.is_error, (name, arguments)
            assert data(refused)["error"]["code"] == code, text(refused)
            assert said in text(refused)
        assert (await run(client, "kept"))["result"] == 1
