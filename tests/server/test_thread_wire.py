"""Every type and shape of threads, over real HTTP: exact names, what is there by default, and what is kept unknown."""

import json
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cloister.core.envelope import envelope_from_json
from cloister.core.thread import Thread
from cloister.core.turn import Turn
from cloister.core.wire import keep_json, to_json
from cloister.threads import Projection
from tests.server.lab import ADMIN, Running, running
from tests.server.puppet import puppet
from tests.server.reading import Json
from tests.threads.lab import run_code

_CALL = "from shop import pay\nawait pay(order='A7')"
_TOOL = {
    "namespace": "shop",
    "name": "pay",
    "description": "Pay an order.",
    "input_schema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    "defer_loading": False,
}
_USAGE = dict.fromkeys(
    "requests input_tokens output_tokens cache_read_tokens cache_write_tokens model_ms cost_micros".split(), 0
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "cloister.db"


@pytest.fixture(scope="module")
def told(place: Path) -> Generator[Running, None, None]:
    with running(f"sqlite:///{place}?synchronous=normal", drivers={"code": run_code, "native": puppet}) as made:
        yield made


def _made(client: httpx2.Client, **given: Any) -> Json:
    found = client.post("/v1/threads", json=given)
    assert (found.status_code, found.headers["location"]) == (201, f"/v1/threads/{found.json()['id']}")
    return found.json()


def _begin(client: httpx2.Client, thread_id: str, text: Any, **given: Any) -> Json:
    found = client.post(f"/v1/threads/{thread_id}/turns", json={"input": text, **given})
    assert found.status_code == 201, found.text
    turn = found.json()["turn"]
    assert found.headers["location"] == f"/v1/threads/{thread_id}/turns/{turn['id']}"
    return turn


def _events(client: httpx2.Client, thread_id: str, until: str, since: int = 0) -> list[Json]:
    found: list[Json] = []
    with client.stream("GET", f"/v1/threads/{thread_id}/events?since_seq={since}") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                one = json.loads(line.removeprefix("data: "))
                found += [one] if "seq" in one else []
                if one["event"] == until:
                    break
    return found


def _told(said: Json, *but: str) -> Json:
    """Without what is new each time."""
    return {name: value for name, value in said.items() if name not in but}


def test_thread_has_its_exact_names_and_defaults(told: Running) -> None:
    with told.client() as client:
        least = _made(client)
        assert _told(least, "id", "session_id", "created_at", "updated_at") == {
            "tenant": "",
            "driver": "code",
            "wake": "notify",
            "dynamic_tools": [],
            "environments": [],
            "labels": {},
            "metadata": {},
            "archived": False,
        }
        assert [least["id"][:4], least["session_id"][:4], len(least["id"])] == ["thr_", "ses_", 30]
        # Its session is one of this tenant's.
        assert client.get(f"/v1/sessions/{least['session_id']}").json()["id"] == least["session_id"]
        said: Json = {
            "title": "Refunds",
            "system_prompt": "Be brief.",
            "driver": "native",
            "wake": "turn",
            "dynamic_tools": [_TOOL],
            "environments": [{"environment_id": "local", "cwd": "/"}],
            "labels": {"team": "a"},
            "metadata": {"deep": [1, None, {"x": "\u2028"}]},
        }
        most = _made(client, session_id="wired", language="typescript", **said)
        assert _told(most, "id", "created_at", "updated_at") == {
            **said,
            "session_id": "wired",
            "tenant": "",
            "archived": False,
        }
        assert client.get("/v1/sessions/wired").json()["language"] == "typescript"
        wrong = client.post("/v1/threads", json={"session_id": "wired", "language": "python"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_LANGUAGE")
        url = f"/v1/threads/{most['id']}"
        changed = client.patch(url, json={"title": None, "archived": True, "labels": {"env": "x"}, "wake": "notify"})
        assert _told(changed.json(), "updated_at") == {
            **_told(most, "title", "updated_at"),
            "archived": True,
            "labels": {"env": "x"},
            "wake": "notify",
        }
        # What is not said stays.
        assert client.patch(url, json={}).json()["labels"] == {"env": "x"}

        def listed(**query: Any) -> list[str]:
            return [one["id"] for one in client.get("/v1/threads", params=query).json()["threads"]]

        assert listed(archived="true") == listed(label="env=x") == listed(session_id="wired") == [most["id"]]
        assert most["id"] not in listed(archived="false")
        client.patch(url, json={"title": "Straßen"})
        assert listed(search="STRASSE") == [most["id"]]
        first = client.get("/v1/threads", params={"limit": 1}).json()
        second = client.get("/v1/threads", params={"limit": 1, "after": first["next_after"]}).json()
        assert [one["id"] for one in (*first["threads"], *second["threads"])] == [most["id"], least["id"]]
        assert second.keys() == {"threads", "next_after"}


def test_turns_and_items_of_every_kind_have_their_exact_names(told: Running) -> None:
    with told.client() as client:
        thread = _made(client, driver="native")
        url = f"/v1/threads/{thread['id']}"
        content = [{"type": "input_text", "text": "think"}, {"type": "input_image", "image_url": "https://x.test/a"}]
        turn = _begin(client, thread["id"], content, operation_key="k", accepts_finish=True, budget={"tokens": 99})
        assert _told(turn, "id", "created_at", "started_at") == {
            "thread_id": thread["id"],
            "number": 1,
            "status": "in_progress",
            "input": content,
            "environment_id": "local",
            "dynamic_tools": [],
            "operation_key": "k",
            "budget": {"iterations": 50, "tokens": 99},
            "switch_provider": False,
            "accepts_finish": True,
            "usage": _USAGE,
            "finished": False,
        }
        seen = _events(client, thread["id"], "turn.completed")
        ended = client.get(f"{url}/turns/{turn['id']}").json()
        assert (ended["status"], ended["usage"]) == (
            "completed",
            dict(zip(_USAGE, (1, 3, 2, 1, 1, 5, 7), strict=True)),
        )
        assert seen[-1]["payload"] == {"turn": ended}
        items = client.get(url).json()["items"]
        assert [(item["kind"], item["status"], item["detail"]) for item in items] == [
            ("user_message", "completed", {"content": content}),
            ("agent_reasoning", "completed", {"text": "hm"}),
            ("error", "failed", {"error": {"code": "model_failed", "message": "once more", "hint": "wait"}}),
        ]
        for item in items:
            assert item.keys() == {
                "id", "thread_id", "turn_id", "kind", "status", "created_at", "ended_at", "detail"
            }  # fmt: skip

        # Words in the middle, and what becomes of them.
        listening = _begin(client, thread["id"], "listen 1")
        steer = f"{url}/turns/{listening['id']}/steer"
        receipt = client.post(steer, json={"input": "left", "id": "mine"}).json()
        assert receipt["receipt"] in ("queued", "delivered")
        assert _told(receipt, "input_id", "receipt") == {"turn_id": listening["id"], "id": "mine"}
        _events(client, thread["id"], "turn.completed", seen[-1]["seq"])
        again = client.post(steer, json={"input": "left", "id": "mine"}).json()
        assert again == {**receipt, "receipt": "delivered"}
        late = client.post(steer, json={"input": "late"}).json()
        assert _told(late, "input_id") == {"turn_id": listening["id"], "receipt": "dropped"}
        item = client.get(url).json()["items"][-1]
        assert item["detail"] == {
            "content": [{"type": "input_text", "text": "left"}],
            "input_id": receipt["input_id"],
            "client_id": "mine",
        }
        made = client.post(f"{url}/compact", json={"summary": "they thought", "through_item_id": items[1]["id"]}).json()
        assert (made["kind"], made["detail"]) == (
            "context_compaction",
            {"summary": "they thought", "through_item_id": items[1]["id"]},
        )

        # How turns end, and a fork of what was.
        stay, queued = _begin(client, thread["id"], "stay"), _begin(client, thread["id"], "say no")
        assert queued["status"] == "queued"
        for one, status in ((queued, "cancelled"), (stay, "interrupted"), (stay, "interrupted")):
            found = client.post(f"{url}/turns/{one['id']}/interrupt", json={}).json()
            assert (found["id"], found["status"], found["error"]["code"]) == (one["id"], status, "INTERRUPTED")
        failing = _begin(client, thread["id"], "fail")
        last = client.get(url).json()["latest_seq"]
        _ = _events(client, thread["id"], "turn.completed", min(last, seen[-1]["seq"]))
        fork = client.post(f"{url}/fork", json={"turn_id": turn["id"]})
        assert (fork.status_code, fork.json()["forked_from"]) == (
            201,
            {"thread_id": thread["id"], "turn_id": turn["id"]},
        )
        copied = client.get(f"/v1/threads/{fork.json()['id']}").json()
        assert [item["kind"] for item in copied["items"]] == [item["kind"] for item in items]
        assert client.get(f"{url}/turns/{failing['id']}").json()["number"] == 5
        _holds(client, thread["id"])
        _holds(client, copied["thread"]["id"])


def _holds(client: httpx2.Client, thread_id: str) -> None:
    """Whoever has only the events has the whole detail."""
    detail = client.get(f"/v1/threads/{thread_id}").json()
    projection = Projection()
    for one in _events(client, thread_id, "turn.completed"):
        projection.take(envelope_from_json(one))
        # What is read is written as it was.
        assert to_json(envelope_from_json(one)) == one
    while (made := to_json(projection.detail()))["latest_seq"] != detail["latest_seq"]:
        since = made["latest_seq"]
        with client.stream("GET", f"/v1/threads/{thread_id}/events?since_seq={since}") as answer:
            line = next(line for line in answer.iter_lines() if line.startswith("data: "))
        projection.take(envelope_from_json(json.loads(line.removeprefix("data: "))))
    assert made == detail


def test_calls_of_a_client_s_tools_and_questions_are_in_the_detail_until_they_are_answered(told: Running) -> None:
    with told.client() as client:
        thread = _made(client, dynamic_tools=[_TOOL])
        url = f"/v1/threads/{thread['id']}"
        since = 0
        content = [{"type": "input_text", "text": "paid"}]
        for answer, status, result in (
            ({"success": True, "content": content}, "completed", "paid"),
            ({"success": True}, "completed", None),
            ({"success": False, "content": content}, "failed", None),
        ):
            turn = _begin(client, thread["id"], _CALL)
            asked = _events(client, thread["id"], "tool_call.requested", since)[-1]
            call_id = asked["payload"]["call_id"]
            params = {
                "thread_id": thread["id"],
                "turn_id": turn["id"],
                "call_id": call_id,
                "tool": "pay",
                "namespace": "shop",
                "arguments": {"order": "A7"},
            }
            assert asked["payload"] == params
            assert client.get(url).json()["pending_tool_calls"] == [params]
            answers = [client.post(f"{url}/turns/{turn['id']}/tool-calls/{call_id}/result", json=answer)]
            answers.append(client.post(f"{url}/turns/{turn['id']}/tool-calls/{call_id}/result", json=answer))
            assert (answers[0].status_code, answers[0].json()) == (202, {"call_id": call_id})
            assert (answers[1].status_code, answers[1].json()["code"]) == (404, "TOOL_CALL_NOT_FOUND")
            since = _events(client, thread["id"], "turn.completed", since)[-1]["seq"]
            item = next(one for one in client.get(url).json()["items"] if one["detail"].get("call_id") == call_id)
            assert (item["kind"], item["status"], item["detail"]["success"]) == ("tool_call", status, answer["success"])
            assert client.get(f"{url}/turns/{turn['id']}").json()["answer"]["result"] == result
        turn = _begin(client, thread["id"], "await refund('A', 1)")
        required = _events(client, thread["id"], "approval.required", since)[-1]["payload"]
        assert client.get(url).json()["pending_approvals"] == [required]
        client.post(f"/v1/approvals/{required['id']}", json={"decision": "allow"})
        _events(client, thread["id"], "turn.completed", since)
        detail = client.get(url).json()
        assert (detail["pending_approvals"], detail["pending_tool_calls"]) == ([], [])
        assert detail.keys() == {
            "thread", "turns", "items", "latest_seq", "pending_approvals", "pending_tool_calls"
        }  # fmt: skip
        _holds(client, thread["id"])


def test_what_a_newer_version_has_written_is_told_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cloister.db"
    store, drivers = f"sqlite:///{path}?synchronous=normal", {"native": puppet}
    with running(store, drivers=drivers) as server, server.client() as client:
        thread = _made(client, driver="native", title="before")
        turn = _begin(client, thread["id"], "think")
        _events(client, thread["id"], "turn.completed")
    with sqlite3.connect(path) as wire:
        wire.execute("UPDATE threads SET doc = json_set(doc, '$.mood', 'fine', '$.extra', 1)")
        wire.execute("UPDATE turns SET doc = json_set(doc, '$.turn.colour', 'red', '$.turn.usage.light_years', 2)")
        wire.execute("UPDATE items SET doc = json_set(doc, '$.detail.weight', json('[1]'), '$.x', json('null'))")
    wire.close()
    with running(store, drivers=drivers) as server, server.client() as client:
        detail = client.get(f"/v1/threads/{thread['id']}").json()
        assert detail["thread"] == {**thread, "mood": "fine", "extra": 1}
        assert (detail["turns"][0]["colour"], detail["turns"][0]["usage"]["light_years"]) == ("red", 2)
        assert all(item["detail"]["weight"] == [1] and item["x"] is None for item in detail["items"])
        # Also when it is changed here, and read by a client of ours.
        changed = client.patch(f"/v1/threads/{thread['id']}", json={"title": "after"}).json()
        assert (changed["title"], changed["mood"], changed["extra"]) == ("after", "fine", 1)
        assert to_json(keep_json(Thread, changed)) == changed
        found = client.get(f"/v1/threads/{thread['id']}/turns/{turn['id']}").json()
        assert to_json(keep_json(Turn, found)) == found


def test_server_without_a_store_says_that_it_has_no_threads() -> None:
    with running("memory:") as server, server.client(ADMIN) as client:
        for method, path in (("GET", ""), ("POST", ""), ("GET", "/thr_x"), ("GET", "/thr_x/events")):
            found = client.request(method, f"/v1/threads{path}")
            assert (found.status_code, found.json()["code"]) == (409, "NOT_KEPT"), path
