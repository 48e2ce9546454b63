"""Keys of repetition: what was asked for under one is done once, also when the server is another by then."""

from pathlib import Path
from typing import Any

import httpx2

from cloister import tool
from tests.server.lab import running

_PAID: list[int] = []


@tool(side_effect="write", idempotent=False)
async def charge(n: int) -> int:
    """Take money."""
    _PAID.append(n)
    return len(_PAID)


@tool(side_effect="write", idempotent=False, approval_policy="manual")
async def give(n: int) -> int:
    """Give money, if a person says so."""
    _PAID.append(n)
    return len(_PAID)


def _sent(client: httpx2.Client, path: str, code: str, key: str = "k", **more: Any) -> httpx2.Response:
    return client.post(f"/v1/sessions/s/{path}", json={"code": code, **more}, headers={"idempotency-key": key})


def test_what_was_asked_for_by_a_key_is_not_done_by_the_next_server(tmp_path: Path) -> None:
    _PAID.clear()
    store = f"sqlite:///{tmp_path}/cloister.db?synchronous=normal"
    run, cell = "x = await charge(1)\nprint('once')\nx", "await charge(2)"
    with running(store, tools=(charge,)) as server, server.client() as client:
        client.post("/v1/sessions", json={"id": "s"})
        first, seen = _sent(client, "run", run), _sent(client, "cells", cell)
        bad = _sent(client, "run", "1 / 0", "bad")
        assert (first.json()["result"], seen.json()["result"], bad.json()["status"]) == (1, 2, "runtime_error")
        assert "idempotency-replayed" not in first.headers
    with running(store, tools=(charge,)) as server, server.client() as client:
        for _ in range(2):
            again = _sent(client, "run", run)
            assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
            assert again.json() == first.json()
            assert _sent(client, "run", "1 / 0", "bad").json() == bad.json()
            told = _sent(client, "cells", cell)
            assert (told.json(), told.headers["idempotency-replayed"]) == (seen.json(), "true")
        for path, code, timeout_ms in (("run", cell, None), ("run", run, 9_000), ("cells", run, None)):
            more: dict[str, Any] = {"timeout_ms": timeout_ms} if timeout_ms is not None else {}
            other = _sent(client, path, code, **more)
            assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
        assert _PAID == [1, 2]
        assert _sent(client, "run", run, "k2").json()["result"] == 3
        # Of another session nothing is known.
        client.post("/v1/sessions", json={"id": "t"})
        elsewhere = client.post("/v1/sessions/t/run", json={"code": "7"}, headers={"idempotency-key": "k"})
        assert (elsewhere.json()["result"], "idempotency-replayed" in elsewhere.headers) == (7, False)


def test_run_that_asks_a_person_is_found_by_its_key_while_it_waits_and_when_it_has_ended(tmp_path: Path) -> None:
    _PAID.clear()
    store = f"sqlite:///{tmp_path}/cloister.db?synchronous=normal"
    with running(store, tools=(give,)) as server, server.client() as client:
        client.post("/v1/sessions", json={"id": "s"})
        first = _sent(client, "run", "await give(3)").json()
        assert first["status"] == "waiting_for_approval"
    with running(store, tools=(give,)) as server, server.client() as client:
        waiting = _sent(client, "run", "await give(3)").json()
        assert (waiting["status"], waiting["cell_id"]) == ("waiting_for_approval", first["cell_id"])
        assert [one["id"] for one in waiting["approvals"]] == [one["id"] for one in first["approvals"]]
        client.post(f"/v1/approvals/{waiting['approvals'][0]['id']}", json={"decision": "allow"})
        client.post(f"/v1/sessions/s/cells/{first['cell_id']}/wait", json={"yield_ms": 60_000})
    with running(store, tools=(give,)) as server, server.client() as client:
        ended = _sent(client, "run", "await give(3)").json()
        assert (ended["status"], ended["cell_id"], ended["result"]) == ("ok", first["cell_id"], 1)
    assert _PAID == [3]


def test_cell_that_goes_on_is_the_one_that_is_looked_at_again(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/cloister.db?synchronous=normal"
    with running(store, tools=(give,)) as server, server.client() as client:
        client.post("/v1/sessions", json={"id": "s"})
        first = _sent(client, "cells", "print('a')\nawait give(1)", yield_ms=60_000).json()
    with running(store, tools=(give,)) as server, server.client() as client:
        again = _sent(client, "cells", "print('a')\nawait give(1)", yield_ms=60_000).json()
        assert (again["status"], again["cell_id"]) == ("waiting_for_approval", first["cell_id"])
        assert [one["id"] for one in client.get("/v1/sessions/s/cells").json()["cells"]] == [first["cell_id"]]
