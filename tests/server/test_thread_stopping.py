"""A server that is stopped in the middle of turns: streams are told why, and the next one goes on with the turns."""

import json
import signal
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx2

from tests.server.process import BANK, serving

_SCRIPT = """
    answers:
      - expect: refund
        exec: |
          store("asked", 1)
          said = await refund(amount=2)
          said
      - expect: paid 2
        text: It is paid.
"""


def _read(
    client: httpx2.Client, thread_id: str, since: int, until: str, opened: threading.Event | None = None
) -> list[dict[str, Any]]:
    """The events after that one, up to the first of that name."""
    found: list[dict[str, Any]] = []
    with client.stream("GET", f"/v1/threads/{thread_id}/events", headers={"last-event-id": str(since)}) as answer:
        for line in answer.iter_lines():
            if opened is not None:
                opened.set()
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if found[-1]["event"] == until:
                    break
    return found


def test_turn_that_waits_when_the_server_is_stopped_ends_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text(dedent(BANK))
    (tmp_path / "script.yaml").write_text(dedent(_SCRIPT))
    words = ("--tools", "bank", "--model", "scripted:script.yaml")
    rest: list[dict[str, Any]] = []
    with serving(tmp_path, *words) as (child, client, _):
        assert all(client.get("/v1/runtime/info").json()["capabilities"].values())
        thread_id = client.post("/v1/threads", json={"title": "Refunds"}).json()["id"]
        body = {"input": "refund A7", "operation_key": "r-1"}
        turn = client.post(f"/v1/threads/{thread_id}/turns", json=body).json()["turn"]
        seen = _read(client, thread_id, 0, "approval.required")
        opened = threading.Event()
        listening = threading.Thread(
            target=lambda: rest.extend(_read(client, thread_id, seen[-1]["seq"], "stream.closed", opened))
        )
        listening.start()
        assert opened.wait(30)
        detail = client.get(f"/v1/threads/{thread_id}").json()
        assert [one["capability"] for one in detail["pending_approvals"]] == ["refund"]
        child.send_signal(signal.SIGTERM)
        _, log = child.communicate(timeout=60)
        listening.join(30)
        assert child.returncode == 0, log
        assert "Traceback" not in log
    assert rest[-1]["reason"] == "shutting_down"
    seen += [one for one in rest[:-1] if "seq" in one]

    with serving(tmp_path, *words) as (child, client, _):
        again = client.post(f"/v1/threads/{thread_id}/turns", json=body)
        assert (again.status_code, again.json()["turn"]["id"]) == (200, turn["id"])
        approval_id = detail["pending_approvals"][0]["id"]
        assert client.post(f"/v1/approvals/{approval_id}", json={"decision": "allow"}).json()["outcome"] == "executed"
        seen += [one for one in _read(client, thread_id, seen[-1]["seq"], "turn.completed") if "seq" in one]
        whole = [one for one in _read(client, thread_id, 0, "turn.completed") if "seq" in one]
        # Every event once, over both servers.
        assert seen == whole
        assert [one["previous_seq"] for one in seen] == [0, *(one["seq"] for one in seen[:-1])]
        ended = client.get(f"/v1/threads/{thread_id}/turns/{turn['id']}").json()
        assert (ended["status"], ended["usage"]["requests"]) == ("completed", 2)
        items = client.get(f"/v1/threads/{thread_id}").json()["items"]
        assert [item["kind"] for item in items] == ["user_message", "cell", "agent_message"]
        assert items[-1]["detail"]["text"] == "It is paid."
