"""What is told of a session as a whole: that it was opened, made of another, put back, closed."""

from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, Event
from cloister.core.wire import to_json

pytestmark = pytest.mark.anyio


def _of_sessions(heard: list[Event]) -> dict[str, list[str]]:
    """Of each its own, in their order; which session writes first is nobody's business."""
    found: dict[str, list[str]] = {}
    for event in heard:
        if event.kind.startswith("session."):
            found.setdefault(event.session_id, []).append(event.kind)
    return found


def _without_session(event: Event) -> dict[str, Any]:
    return {name: said for name, said in event.data.items() if name != "session"}


async def test_what_becomes_of_a_session_is_told(tmp_path: Path) -> None:
    heard: list[Event] = []
    store = f"sqlite://{tmp_path}/s.db"
    async with Cloister(store=store, on_event=heard.append, snapshot_key=b"k" * 32) as cloister:
        session = await cloister.open_session("first", title="Notes", labels={"team": "a"})
        await session.run("x = 1")
        taken = await session.snapshot()
        fork = await session.fork(session_id="second")
        copy = await cloister.restore_session(taken, session_id="third")
        await session.restore(taken)
        await fork.close()
        meta = to_json(session.meta())
    assert _of_sessions(heard) == {
        "first": ["session.opened", "session.restored"],
        "second": ["session.forked", "session.closed"],
        "third": ["session.restored"],
    }
    told_of = {(event.session_id, event.kind.partition(".")[2]): event for event in heard}
    opened, put_back = told_of["first", "opened"], told_of["first", "restored"]
    forked, restored = told_of["second", "forked"], told_of["third", "restored"]
    assert opened.data["session"] | {"last_used_at": meta["last_used_at"]} == meta
    assert _without_session(forked) == {"forked_from": "first"}
    assert _without_session(restored) == _without_session(put_back) == {"restored_from": "first"}
    assert copy.id == restored.data["session"]["id"]
    # Their host has gone, and they have not: they go on with the next one, and all of it is in the log.
    async with Cloister(store=store, snapshot_key=b"k" * 32) as cloister:
        await cloister.open_session("first")
        async with cloister.events(since=0) as events:
            told: list[Event] = []
            async for event in events:
                told.append(event)
                if _of_sessions(told).get("first", []).count("session.opened") == 2:
                    break
    assert _of_sessions(told) == _of_sessions(heard) | {
        "first": ["session.opened", "session.restored", "session.opened"]
    }
