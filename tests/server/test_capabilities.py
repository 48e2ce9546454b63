"""What `runtime/info` says is there: a flag is true where its feature works over HTTP, and false where it does not."""

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cloister import Mount
from tests.server.lab import Running, running
from tests.server.puppet import puppet
from tests.threads.lab import run_code

_TOOL = {
    "name": "pay",
    "namespace": "shop",
    "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}
_FLAGS = (
    "threads", "turns", "turn_steer", "turn_interrupt", "event_replay", "external_tools", "environments",
    "worker_runtime",
)  # fmt: skip
Json = dict[str, Any]


@pytest.fixture(scope="module")
def able(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    place = tmp_path_factory.mktemp("server")
    (place / "repo").mkdir()
    (place / "repo" / "a.txt").write_text("of the repo")
    store, drivers = f"sqlite:///{place}/cloister.db?synchronous=normal", {"code": run_code, "native": puppet}
    with running(store, drivers=drivers, environments={"repo": Mount(place / "repo")}) as made:
        yield made


def _thread(client: httpx2.Client, driver: str = "native", **given: Any) -> str:
    return client.post("/v1/threads", json={"driver": driver, **given}).json()["id"]


def _begin(client: httpx2.Client, thread_id: str, text: str, **given: Any) -> str:
    return client.post(f"/v1/threads/{thread_id}/turns", json={"input": text, **given}).json()["turn"]["id"]


def _until(client: httpx2.Client, thread_id: str, name: str) -> list[Json]:
    found: list[Json] = []
    with client.stream("GET", f"/v1/threads/{thread_id}/events?since_seq=0") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if found[-1]["event"] == name:
                    break
    return [one for one in found if "seq" in one]


def _ended(client: httpx2.Client, thread_id: str) -> Json:
    return _until(client, thread_id, "turn.completed")[-1]["payload"]["turn"]


def threads(client: httpx2.Client) -> None:
    thread_id = _thread(client, title="Refunds")
    assert client.get(f"/v1/threads/{thread_id}").json()["thread"]["title"] == "Refunds"


def turns(client: httpx2.Client) -> None:
    thread_id = _thread(client)
    _begin(client, thread_id, "say hello")
    assert _ended(client, thread_id)["status"] == "completed"
    assert client.get(f"/v1/threads/{thread_id}").json()["items"][-1]["detail"] == {"text": "hello"}


def turn_steer(client: httpx2.Client) -> None:
    thread_id = _thread(client)
    turn_id = _begin(client, thread_id, "listen 1")
    client.post(f"/v1/threads/{thread_id}/turns/{turn_id}/steer", json={"input": "left"})
    assert _ended(client, thread_id)["status"] == "completed"
    said = client.get(f"/v1/threads/{thread_id}").json()["items"][-1]
    assert said["detail"]["content"] == [{"type": "input_text", "text": "left"}]


def turn_interrupt(client: httpx2.Client) -> None:
    thread_id = _thread(client, "code")
    turn_id = _begin(client, thread_id, "store('kept', 1)\nawait refund('A', 1)")
    _until(client, thread_id, "approval.required")
    ended = client.post(f"/v1/threads/{thread_id}/turns/{turn_id}/interrupt").json()
    assert ended["status"] == "interrupted"
    names = [one["event"] for one in _until(client, thread_id, "turn.completed")]
    assert names.count("turn.completed") == names.count("turn.interrupt_requested") == 1
    detail = client.get(f"/v1/threads/{thread_id}").json()
    assert (detail["pending_approvals"], detail["items"][-1]["status"]) == ([], "interrupted")
    assert client.get(f"/v1/sessions/{detail['thread']['session_id']}/cells").json() == {"cells": []}


def event_replay(client: httpx2.Client) -> None:
    thread_id = _thread(client)
    _begin(client, thread_id, "say hello")
    first = _until(client, thread_id, "turn.completed")
    assert _until(client, thread_id, "turn.completed") == first
    assert [one["previous_seq"] for one in first] == [0, *(one["seq"] for one in first[:-1])]


def external_tools(client: httpx2.Client) -> None:
    thread_id = _thread(client, "code")
    turn_id = _begin(client, thread_id, "from shop import pay\nawait pay(n=7)", dynamic_tools=[_TOOL])
    call = _until(client, thread_id, "tool_call.requested")[-1]["payload"]
    assert call["arguments"] == {"n": 7}
    body = {"success": True, "content": [{"type": "input_text", "text": "paid"}]}
    url = f"/v1/threads/{thread_id}/turns/{turn_id}/tool-calls/{call['call_id']}/result"
    assert client.post(url, json=body).status_code == 202
    assert _ended(client, thread_id)["answer"]["result"] == "paid"


def environments(client: httpx2.Client) -> None:
    thread_id = _thread(client, "code", environments=[{"environment_id": "repo"}])
    _begin(client, thread_id, "open('a.txt').read()", environment_id="repo")
    assert _ended(client, thread_id)["answer"]["result"] == "of the repo"


def worker_runtime(client: httpx2.Client) -> None:
    before = _children()
    for language, code in (("python", "sum(range(5))"), ("typescript", "[1, 2, 3, 4].reduce((a, b) => a + b)")):
        session = client.post("/v1/sessions", json={"language": language}).json()["id"]
        assert client.post(f"/v1/sessions/{session}/run", json={"code": code}).json()["result"] == 10
    # Not in the process that serves.
    assert len(_children() | before) >= 2


def _children() -> set[str]:
    return {name for task in Path("/proc/self/task").iterdir() for name in (task / "children").read_text().split()}


_EXERCISES: tuple[Callable[[httpx2.Client], None], ...] = (
    threads, turns, turn_steer, turn_interrupt, event_replay, external_tools, environments, worker_runtime
)  # fmt: skip


@pytest.mark.parametrize("exercise", _EXERCISES, ids=lambda one: one.__name__)
def test_capability_that_is_claimed_works(able: Running, exercise: Callable[[httpx2.Client], None]) -> None:
    with able.client() as client:
        assert client.get("/v1/runtime/info").json()["capabilities"][exercise.__name__] is True
        exercise(client)


def test_runtime_info_has_its_exact_fields_and_needs_no_token(able: Running) -> None:
    assert tuple(one.__name__ for one in _EXERCISES) == _FLAGS
    with able.client(None) as client:
        info = client.get("/v1/runtime/info").json()
    assert list(info) == [
        "service", "runtime_api_version", "version", "bind_host", "port", "auth_required", "transports",
        "capabilities", "experimental", "languages", "confinement",
    ]  # fmt: skip
    assert tuple(info["capabilities"]) == _FLAGS
    assert (info["service"], info["runtime_api_version"], info["auth_required"]) == ("cloister", "1.0", True)
    assert (info["bind_host"], info["port"]) == ("127.0.0.1", int(able.url.rpartition(":")[2]))
    assert info["transports"] == ["http", "sse", "mcp"]
    assert info["languages"] == ["python", "typescript"]
    assert {"rlimits", "landlock", "seccomp", "namespaces"} <= info["confinement"].keys()


def test_capability_that_is_not_there_is_not_claimed(tmp_path: Path) -> None:
    def flags(store: str, **given: Any) -> dict[str, bool]:
        with running(store, **given) as server, server.client(None) as client:
            return client.get("/v1/runtime/info").json()["capabilities"]

    works = {"worker_runtime": True}
    nothing = dict.fromkeys(_FLAGS, False)
    assert flags("memory:") == {**nothing, **works}
    kept = {**nothing, **works, "threads": True, "event_replay": True}
    store = f"sqlite:///{tmp_path}/cloister.db?synchronous=normal"
    # Nobody drives them; or somebody who runs no programs.
    assert flags(store) == kept
    driven = dict.fromkeys(("turns", "turn_steer", "turn_interrupt", "external_tools"), True)
    assert flags(store, drivers={"native": puppet}) == {**kept, **driven}
