"""MCP servers that misbehave: each is named, bounded, and ended."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

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


async def opening_fails(given: McpStdio) -> str:
    with pytest.raises(SourceFailed) as failed:
        async with McpSource(given):
            raise AssertionError("it opened")
    assert failed.value.gone
    return failed.value.message


async def test_a_plain_server_is_fine() -> None:
    async with McpSource(server()) as source:
        assert await source.call("odd.go", {}, about()) == "went"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "no-such-program-anywhere"}, "there is no program 'no-such-program-anywhere'"),
        ({"cwd": "/no/such/place"}, "its working directory '/no/such/place' is not there"),
        ({"command": "/etc/passwd"}, "there is no program '/etc/passwd'"),
        ({"args": ["-c", "import sys; sys.exit('bad key')"]}, "it ended, and last said: bad key"),
        ({"args": ["-S", "-c", "while True: print('y')"]}, "is not the protocol's JSON"),
        ({"env": {"KEY": lambda: 1 / 0}}, "the value of 'KEY' in `env` could not be had: ZeroDivisionError"),
    ],
)
async def test_a_server_that_does_not_come_up_is_named_with_the_reason(given: Mapping[str, Any], said: str) -> None:
    message = await opening_fails(server(**given))
    assert message.startswith("MCP server 'odd'")
    assert said in message


@pytest.mark.parametrize(
    ("insert", "said"),
    [
        ("def begin(id): pass", "did not answer the handshake within 400 ms"),
        ("def begin(id): answer(id, {'protocolVersion': '1999'})", "does not have"),
        ("def begin(id): answer(id, 7); pass", "did not answer the handshake within 400 ms"),
        ("def begin(id): os._exit(1)", "it ended"),
        ("def listed(id, cursor): pass", "did not list its tools within 2000 ms"),
        ("def listed(id, cursor): answer(id, {'tools': 'many'})", "does not have"),
        ("def listed(id, cursor): answer(id, {'tools': TOOLS, 'nextCursor': 'on'})", "does not end"),
        ("TOOLS = [{'name': 'x' * 5000, 'inputSchema': {'type': 'object'}}]", "a name of 5000 characters"),
    ],
)
async def test_a_server_that_fails_the_beginning_is_named(insert: str, said: str) -> None:
    # One that never lists its tools must have answered the handshake in time.
    timeout = 400 if "handshake within" in said else 2_000 if "list its tools within" in said else 30_000
    if timeout < 30_000:
        # Long enough to have started under load is not what is tested: it never answers.
        insert = insert.replace("pass", "time.sleep(600)")
    assert said in await opening_fails(server(insert, connect_timeout_ms=timeout))


async def test_a_list_of_a_hundred_thousand_tools_is_refused_unless_some_are_chosen() -> None:
    many = """
def listed(id, cursor):
    at = int(cursor or 0)
    tools = [{"name": f"t{at + n}", "inputSchema": {"type": "object"}} for n in range(5000)]
    answer(id, {"tools": tools, **({"nextCursor": str(at + 5000)} if at < 95000 else {})})
"""
    assert "more than 10000 tools" in await opening_fails(server(many))


async def test_a_message_without_end_is_refused() -> None:
    endless = "def called(id, name):\n    while True: sys.stdout.write('x' * 1000000)"
    async with McpSource(server(endless)) as source:
        failed = await failure_of(source, "odd.go")
        assert failed.gone
        assert "a message of more than 16 MiB" in failed.message


async def test_nonsense_between_messages_is_forgiven_and_a_flood_of_it_is_not() -> None:
    chatty = "def heard(message): print('debug: got something')"
    async with McpSource(server(chatty)) as source:
        assert await source.call("odd.go", {}, about()) == "went"
    flood = "def called(id, name):\n    while True: print('debug ' * 100)"
    async with McpSource(server(flood)) as source:
        assert "is not the protocol's JSON" in (await failure_of(source, "odd.go")).message


async def test_a_flood_of_messages_that_nobody_asked_for_leaves_others_their_turn() -> None:
    flood = "def called(id, name):\n    while True: answer(424242, {})"
    async with McpSource(server(flood, call_timeout_ms=700)) as source:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        other = asyncio.ensure_future(tick())
        assert "did not answer within" in (await failure_of(source, "odd.go")).message
        other.cancel()
        assert ticks > 100


async def test_a_flood_of_list_changes_is_followed_at_leisure() -> None:
    count = """
lists = 0
def listed(id, cursor):
    global lists
    lists += 1
    answer(id, {"tools": TOOLS})
def called(id, name):
    for _ in range(1300): notify("notifications/tools/list_changed")
    answer(id, {"content": [{"type": "text", "text": str(lists)}]})
"""
    async with McpSource(server(count)) as source:
        await source.call("odd.go", {}, about())
        assert int(str(await source.call("odd.go", {}, about()))) < 100


async def test_endless_words_on_standard_error_stop_nobody() -> None:
    loud = "import threading\nthreading.Thread(target=lambda: [sys.stderr.write('e' * 9999) for _ in iter(int, 1)], "
    loud += "daemon=True).start()"
    async with McpSource(server(loud)) as source:
        assert await source.call("odd.go", {}, about()) == "went"


async def test_an_answer_that_is_none_fails_by_name() -> None:
    async with McpSource(server("def called(id, name): answer(id, {'content': 'no list'})")) as source:
        assert "the protocol does not have" in (await failure_of(source, "odd.go")).message


async def test_a_protocol_error_is_told() -> None:
    refuses = "def called(id, name): send({'jsonrpc': '2.0', 'id': id, 'error': {'code': 1, 'message': 'm' * 9000}})"
    async with McpSource(server(refuses)) as source:
        message = (await failure_of(source, "odd.go")).message
        assert message.startswith("MCP server 'odd' refused: mmm")
        assert len(message) < 700


async def test_a_deeply_nested_answer_is_refused() -> None:
    deep = 'def called(id, name): sys.stdout.write(\'{"jsonrpc": "2.0", "id": %d, "result": {"content": [], '
    deep += "\"structuredContent\": {\"a\": %s}}}\\n' % (id, '[' * 150 + ']' * 150)); sys.stdout.flush()"
    async with McpSource(server(deep)) as source:
        assert "cannot be taken" in (await failure_of(source, "odd.go")).message


async def test_a_promise_of_structured_content_is_held() -> None:
    typed = "TOOLS[0]['outputSchema'] = {'type': 'object', 'properties': {'a': {'type': 'integer'}}}"
    async with McpSource(server(typed)) as source:
        assert "promised structured content" in (await failure_of(source, "odd.go")).message


async def test_patterns_of_a_server_s_choosing_cannot_hang_the_host() -> None:
    evil = """
TOOLS[0]["outputSchema"] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
def called(id, name): answer(id, {"content": [], "structuredContent": {"a": "a" * 40 + "!"}})
"""
    async with McpSource(server(evil)) as source:
        assert await source.call("odd.go", {}, about()) == {"a": "a" * 40 + "!"}


@pytest.mark.parametrize(
    "properties",
    [
        "{'a': {'$ref': 'https://example.com/a.json'}}",
        "{'a': {'type': 'strnig'}}",
        "{'a': {'pattern': '('}}",
        "{f'p{n}': {'type': 'string', 'description': 'd' * 99} for n in range(20000)}",
    ],
)
async def test_a_schema_that_cannot_be_used_costs_the_schema_and_not_the_tool(properties: str) -> None:
    insert = f"TOOLS[0]['inputSchema'] = TOOLS[0]['outputSchema'] = {{'type': 'object', 'properties': {properties}}}"
    async with McpSource(server(insert)) as source:
        found = await source.contract("odd.go")
        assert (found.input_schema, found.output_schema) == ({"type": "object"}, {})
        assert "cannot be used" in found.description


async def test_whoever_is_left_of_a_server_s_group_is_ended_too() -> None:
    child = "import subprocess\nkid = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'], "
    child += "stdin=subprocess.DEVNULL)\n"
    child += "def called(id, name): answer(id, {'content': [{'type': 'text', 'text': str(kid.pid)}]})"
    async with McpSource(server(child)) as source:
        pid = int(str(await source.call("odd.go", {}, about())))
        handle = os.pidfd_open(pid)
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, gone.set)
    await gone.wait()
    asyncio.get_running_loop().remove_reader(handle)
    os.close(handle)


async def test_a_server_that_asks_for_things_is_refused_them() -> None:
    asks = """
asked = []
def heard(message):
    if "error" in message or "result" in message: asked.append(message)
def called(id, name):
    send({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params":
          {"messages": [], "maxTokens": 1}})
    reply = json.loads(sys.stdin.readline())
    answer(id, {"content": [{"type": "text", "text": json.dumps(reply)}]})
"""
    async with McpSource(server(asks)) as source:
        assert "not supported" in str(await source.call("odd.go", {}, about()))


async def test_the_secret_that_a_server_was_given_does_not_come_back() -> None:
    leaks = """
token = os.environ["API_TOKEN"]
def called(id, name):
    import base64
    text = token + " " + base64.b64encode(token.encode()).decode()
    answer(id, {"content": [{"type": "text", "text": text}], "isError": True})
"""
    async with McpSource(server(leaks, env={"API_TOKEN": "tok-12345-abcde"})) as source:
        assert (await failure_of(source, "odd.go")).message == "[secret] [secret]"
