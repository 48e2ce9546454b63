"""Which session a client has: its own, a named one, and the same one after a restart."""

import json
import signal
import subprocess
from typing import Any

import pytest

from cloister.cli import main
from tests.mcp.lab import Lab, data, run
from tests.mcp.test_approvals import REFUND


@pytest.mark.anyio
async def test_named_session_is_found_again_after_a_restart_with_its_program_asleep(lab: Lab) -> None:
    words = ("--store", lab.store, "--session", "work", "--allow-approve")
    async with lab.client(*words) as client:
        await run(client, "kept = 41")
        waits = await run(client, REFUND)
        assert (waits["status"], waits["session_id"]) == ("waiting_for_approval", "work")
    async with lab.client(*words) as client:
        approval = waits["approvals"][0]["id"]
        done = data(await client.call_tool("approve", {"approval_id": approval, "decision": "allow"}))
        ended = data(await client.call_tool("wait", {"cell_id": done["cell_id"]}))
        assert ended["result"] == "paid 250"
        assert (await run(client, "kept + 1"))["result"] == 42
    # By the environment, and by the client itself.
    async with lab.client("--store", lab.store, env={"CLOISTER_SESSION": "work"}) as client:
        assert (await run(client, "kept"))["result"] == 41
        other = await client.call_tool("exec", {"code": "kept"}, meta={"cloister/session": "other"})
        assert data(other)["session_id"] == "other"
        assert other.is_error
        bad = await client.call_tool("exec", {"code": "1"}, meta={"cloister/session": "../x"})
        assert data(bad)["error"]["code"] == "INVALID_SESSION_ID"


@pytest.mark.anyio
async def test_two_clients_at_once_on_one_store_do_not_see_each_other(lab: Lab) -> None:
    async with lab.client("--store", lab.store, "--cells") as one, lab.client("--store", lab.store) as two:
        waits = await run(one, "mine = 1\n" + REFUND)
        assert (await run(two, "2"))["result"] == 2
        hidden = await two.call_tool("wait", {"cell_id": waits["cell_id"]})
        assert data(hidden)["error"]["code"] == "CELL_NOT_FOUND"
        assert (await run(two, "mine"))["status"] == "failed"
        assert data(await one.call_tool("cells"))["cells"][0]["id"] == waits["cell_id"]
        # A session is open in one place at a time.
        taken = await two.call_tool("exec", {"code": "1"}, meta={"cloister/session": waits["session_id"]})
        assert taken.is_error
        assert data(taken)["error"]["code"] == "SESSION_EXISTS"


def _messages(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


HELLO = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
)


def _start(lab: Lab, *words: str) -> subprocess.Popen[bytes]:
    given = lab.parameters(words)
    return subprocess.Popen(
        [given.command, *given.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=lab.place,
        env=given.env,
    )


def _read(server: subprocess.Popen[bytes], wanted: object) -> dict[str, Any]:
    assert server.stdout is not None
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == wanted:
            return dict(message)
    raise AssertionError("the server has ended")


def test_only_the_protocol_reaches_the_standard_output_and_nonsense_is_answered(lab: Lab) -> None:
    server = _start(lab, "--tools", "shop")
    assert server.stdin is not None
    call = {"name": "exec", "arguments": {"code": "await get_order('A7')"}}
    server.stdin.write(_messages(*HELLO) + b"no json\n" + b"[" * 100_000 + b"\n")
    server.stdin.write(b"x" * (17 << 20) + b"\n")
    server.stdin.write(_messages({"id": 2, "method": "tools/call", "params": call}))
    server.stdin.flush()
    assert sorted(_read(server, None)["error"]["code"] for _ in range(3)) == [-32700, -32700, -32600]
    assert _read(server, 2)["result"]["structuredContent"]["result"] == {"size": 2}
    rest, errors = server.communicate()
    assert all(json.loads(line) for line in rest.splitlines())
    assert server.returncode == 0
    assert b"this must not reach the protocol" in errors
    assert b"neither must this" in errors
    assert b"Traceback" not in errors


def test_signal_puts_programs_to_sleep_and_ends_the_server(lab: Lab) -> None:
    server = _start(lab, "--tools", "shop", "--store", lab.store, "--session", "work")
    assert server.stdin is not None
    call = {"name": "exec", "arguments": {"code": REFUND}}
    server.stdin.write(_messages(*HELLO, {"id": 2, "method": "tools/call", "params": call}))
    server.stdin.flush()
    waits = _read(server, 2)["result"]["structuredContent"]
    server.send_signal(signal.SIGTERM)
    _, errors = server.communicate()
    assert server.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in errors
    server = _start(lab, "--tools", "shop", "--store", lab.store, "--session", "work")
    assert server.stdin is not None
    call = {"name": "wait", "arguments": {"cell_id": waits["cell_id"]}}
    server.stdin.write(_messages(*HELLO, {"id": 2, "method": "tools/call", "params": call}))
    server.stdin.flush()
    found = _read(server, 2)["result"]["structuredContent"]
    assert found["status"] == "waiting_for_approval"
    assert found["approvals"][0]["id"] == waits["approvals"][0]["id"]
    server.communicate()


def test_what_is_wrong_with_the_command_is_said_on_stderr(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    broken, typo = lab.place / "broken.json", lab.place / "typo.json"
    broken.write_text('{"mcpServers": {\n  "a": {,}}}')
    typo.write_text(json.dumps({"mcpServers": {"a": {"comand": "x"}}}))
    for words, said in (
        (("--mcp-config", str(broken)), "broken.json, line 2, column"),
        (("--mcp-config", str(typo)), "mcpServers.a"),
        (("--mcp-config", str(lab.place / "gone.json")), "No such file"),
        (("--session", "a b"), "is not a session id"),
        (("--preamble-tokens", "7"), "at least 128"),
        (("--deny", "1 +"), "--deny"),
        (("--secret", "TOKEN"), "--secret takes NAME=TOOL"),
        (("--memory-mb", "0"), "memory_mb"),
    ):
        assert main(["mcp", *words]) == 2
        output, errors = capfd.readouterr()
        assert said in errors
        assert (output, "Traceback" in errors) == ("", False)


def test_without_the_sdk_the_command_says_what_to_install(lab: Lab) -> None:
    (lab.place / "sitecustomize.py").write_text("import sys; sys.modules['mcp'] = None")
    given = lab.parameters(())
    env = {**(given.env or {}), "PYTHONPATH": f"{lab.place}:{(given.env or {})['PYTHONPATH']}"}
    done = subprocess.run([given.command, *given.args], input=b"", capture_output=True, env=env, check=False)
    assert done.returncode == 2
    assert b"pip install 'cloister[mcp]'" in done.stderr
