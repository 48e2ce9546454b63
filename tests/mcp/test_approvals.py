"""Calls that need a person: asked through the client where it can ask, and otherwise said so that it can be done."""

import asyncio
import os
import re
import shlex
import sys
from typing import Any

import pytest
from mcp.types import ElicitRequestParams, ElicitResult

from tests.mcp.lab import Lab, data, run, text

REFUND = (
    "print('asking')\nr = 'none'\ntry:\n    r = await refund('A7', 250)\nexcept RuntimeError as e:\n    r = str(e)\nr"
)


class User:
    """What the client shows to its user, who answers in turn."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return self._answers.pop(0)


@pytest.mark.anyio
async def test_user_of_a_client_that_can_ask_decides(lab: Lab, era: str) -> None:
    user = User(
        ElicitResult(action="accept", content={"decision": "allow", "message": ""}),
        ElicitResult(action="accept", content={"decision": "deny", "message": "too much"}),
        ElicitResult(action="decline"),
        ElicitResult(action="accept", content={"decision": "perhaps"}),
        ElicitResult(action="accept", content={"decision": "allow"}),
    )
    async with lab.client(mode=era, elicitation_callback=user) as client:
        done = await run(client, REFUND)
        assert (done["status"], done["result"], done["output"]) == ("completed", "paid 250", "asking\n")
        assert "refund with" in user.asked[0]
        assert '"amount": 250' in user.asked[0]
        assert (lab.place / "paid").read_text() == "A7 250\n"
        denied = await run(client, REFUND)
        assert "APPROVAL_DENIED" in denied["result"]
        assert "too much" in denied["result"]
        # Whoever will not say has not said no.
        waits = await run(client, REFUND)
        assert waits["status"] == "waiting_for_approval"
        assert waits["output"] == "asking\n"
        again = {"cell_id": waits["cell_id"], "yield_ms": 100}
        assert data(await client.call_tool("wait", again))["status"] == "waiting_for_approval"
        while (seen := data(await client.call_tool("wait", again)))["status"] == "yielded":
            assert len(user.asked) == 5
        assert (seen["status"], seen["result"]) == ("completed", "paid 250")
    assert len(user.asked) == 5


@pytest.mark.anyio
async def test_client_that_cannot_ask_is_told_how_to_decide(lab: Lab) -> None:
    async with lab.client("--allow-approve", "--store", lab.store) as client:
        waits = await client.call_tool("exec", {"code": REFUND})
        approval = data(waits)["approvals"][0]
        assert not waits.is_error
        assert approval["tool"] == "refund"
        assert approval["id"] in text(waits)
        assert "`approve`" in text(waits)
        wrong = await client.call_tool("approve", {"approval_id": approval["id"], "decision": "yes"})
        assert data(wrong)["error"]["code"] == "INVALID_INPUT"
        strange = await client.call_tool("approve", {"approval_id": "apr_other", "decision": "allow"})
        assert data(strange)["error"]["code"] == "APPROVAL_NOT_FOUND"
        assert not (lab.place / "paid").exists()
        done = data(await client.call_tool("approve", {"approval_id": approval["id"], "decision": "allow"}))
        assert (done["state"], done["cell_id"]) == ("allowed", data(waits)["cell_id"])
        ended = data(await client.call_tool("wait", {"cell_id": done["cell_id"]}))
        assert ended["result"] == "paid 250"
        again = await client.call_tool("approve", {"approval_id": approval["id"], "decision": "deny"})
        assert data(again)["error"]["code"] == "APPROVAL_CLOSED"
    async with lab.client() as client:
        assert "--allow-approve" in (await run(client, REFUND))["next"]


@pytest.mark.anyio
async def test_command_that_the_waiting_answer_names_decides_while_the_server_runs(lab: Lab) -> None:
    async with lab.client("--session", "work", "--store", lab.store) as client:
        for code, language in ((REFUND, "python"), ("await tools.refund({order_id: 'A7', amount: 250})", "typescript")):
            waits = await client.call_tool("exec", {"code": code, "language": language})
            [command] = re.findall(r"`(cloister .*?)`", text(waits))
            assert data(waits)["approvals"][0]["id"] in command
            waiting = asyncio.ensure_future(
                client.call_tool("wait", {"cell_id": data(waits)["cell_id"], "yield_ms": 60_000})
            )
            # In another place, where nothing is configured.
            words = [sys.executable, "-m", "cloister.cli", *shlex.split(command)[1:]]
            shell = await asyncio.create_subprocess_exec(
                *words,
                cwd="/",
                env={**os.environ, "CLOISTER_DATA_DIR": str(lab.place / "other")},
                stdout=asyncio.subprocess.PIPE,
            )
            said, _ = await shell.communicate()
            assert (shell.returncode, b"has made the call: ok" in said) == (0, True)
            ended = data(await waiting)
            assert (ended["status"], ended["result"]) == ("completed", "paid 250")
    assert (lab.place / "paid").read_text() == "A7 250\n" * 2
