"""Two hosts on one store: a session has one owner, and one that lost it changes nothing any more."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloister.app.address import make_store
from cloister.ports.clock import SystemClock
from tests.crash.parent import ROOT, Kept, environment, look_into
from tests.crash.parent import look as look_at
from tests.crash.plans import FIRST
from tests.stores.pg_server import PgServer

LEASE_MS = 4_000


class Peer:
    """A host in a process of its own, whose words can be waited for."""

    def __init__(self, directory: Path, **orders: str) -> None:
        ours, theirs = os.pipe()
        directory.mkdir(exist_ok=True)
        with open(directory / "log", "ab") as log:
            command = [sys.executable, "-m", "tests.crash.child", "run", str(directory), str(theirs)]
            env = {**environment(), "CRASH_PLAN": "held", "CRASH_LEASE_MS": str(LEASE_MS), **orders}
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, pass_fds=[theirs], stderr=log)
        os.close(theirs)
        self._pipe = os.fdopen(ours, "rb")
        self.said: list[dict[str, Any]] = []

    def until(self, what: str, *, times: int = 1) -> dict[str, Any]:
        while True:
            found = [one for one in self.said if one["what"] == what]
            if len(found) >= times:
                return found[times - 1]
            line = self._pipe.readline()
            assert line, f"it ended before it said {what!r}: {self.said[-5:]}"
            self.said.append(json.loads(line))

    def all(self, what: str) -> list[dict[str, Any]]:
        return [one for one in self.said if one["what"] == what]

    def finish(self) -> int:
        for line in self._pipe:
            self.said.append(json.loads(line))
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        self._pipe.close()


@dataclass(frozen=True, slots=True)
class Place:
    """Where hosts meet: a folder for their effects, and a store."""

    directory: Path
    store: str

    def peer(self, **orders: str) -> Peer:
        return Peer(self.directory, CRASH_STORE=self.store, **orders)

    def let_go(self) -> None:
        """The slow calls end."""
        (self.directory / "go").touch()

    def look(self) -> Kept:
        async def look() -> Kept:
            made = make_store(self.store, SystemClock())
            assert made is not None
            async with made as store:
                return await look_into(store)

        return asyncio.run(look()) if self.store.startswith("postgresql") else look_at(self.directory / "store.db")

    def effects(self) -> Counter[tuple[str, str]]:
        lines = [line.split() for line in (self.directory / "effects").read_text().splitlines()]
        return Counter((name, n) for name, n, _, _ in lines if name != "put")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    directory = tmp_path / "trial"
    if request.param == "sqlite":
        return Place(directory, f"sqlite://{directory}/store.db")
    server: PgServer = request.getfixturevalue("pg_server")
    return Place(directory, server.url(server.new_database()))


@pytest.fixture
def busy(place: Place) -> Iterator[Peer]:
    """A host whose two cells of each session are in the middle of slow calls, that have had their effect."""
    peer = place.peer(CRASH_HOLD="until it is let go")
    try:
        peer.until("effect", times=2 * len(FIRST))
        yield peer
    finally:
        peer.close()


def check_unknown(second: Peer) -> None:
    """What its programs were told of the calls that the other host was in the middle of."""
    for language, first in FIRST.items():
        cells = second.until("final")["state"][language]["cells"]
        assert cells[1][1] == [f"paid {first}", f"!OUTCOME_UNKNOWN {first + 1}", f"paid {first + 2}"]
        assert cells[2][1] == [f"put {first + 10}", f"!OUTCOME_UNKNOWN {first + 11}"]


def test_a_session_is_not_opened_while_another_host_has_it(place: Place, busy: Peer) -> None:
    second = place.peer()
    try:
        assert second.finish() == 0
        assert second.until("opened")["elsewhere"] == list(FIRST)
        assert len(second.all("refused")) == len(FIRST)
        assert all("another process" in one["message"] for one in second.all("refused"))
        place.let_go()
        assert busy.finish() == 0
        # The first was not disturbed.
        for language, first in FIRST.items():
            told = [f"paid {first + n}" for n in (0, 1, 2, 20)]
            assert busy.until("final")["state"][language]["cells"][-1][1] == told
        assert set(place.effects().values()) == {1}
    finally:
        second.close()


def test_a_host_that_was_killed_is_followed_at_once(place: Place, busy: Peer) -> None:
    busy.kill()
    second = place.peer()
    try:
        assert second.finish() == 0
        assert second.until("opened")["elsewhere"] == []
        check_unknown(second)
        assert set(place.effects().values()) == {1}
        assert place.look().findings == []
    finally:
        second.close()


def test_a_host_that_was_killed_and_not_reaped_is_followed_at_once(place: Place, busy: Peer) -> None:
    os.kill(busy.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, busy.process.pid, os.WEXITED | os.WNOWAIT)
    second = place.peer()
    try:
        second.finish()
        assert second.until("opened")["elsewhere"] == []
    finally:
        second.close()


def test_a_host_that_waits_goes_on_with_what_one_had_that_was_killed(place: Place, busy: Peer) -> None:
    second = place.peer(CRASH_WAIT_MS="60000")
    try:
        assert second.until("opened")["elsewhere"] == list(FIRST)
        busy.kill()
        assert second.finish() == 0
        assert second.all("refused") == []
        check_unknown(second)
        assert set(place.effects().values()) == {1}
        assert place.look().findings == []
    finally:
        second.close()


def test_a_frozen_host_loses_its_sessions_with_its_lease_and_cannot_change_them(place: Place, busy: Peer) -> None:
    second = place.peer(CRASH_WAIT_MS="60000")
    try:
        assert second.until("opened")["elsewhere"] == list(FIRST)
        busy.process.send_signal(signal.SIGSTOP)
        # Not before its time is over: until then it could go on.
        assert second.finish() == 0
        check_unknown(second)
        before = place.look()

        busy.process.send_signal(signal.SIGCONT)
        place.let_go()
        busy.finish()
        # How its cells ended is in `test_findings`: what it must not do is change anything.
        assert not [one for one in busy.all("end")[len(FIRST) :] if one["result"]], busy.all("end")
        after = place.look()
        assert after.findings == []
        assert (after.cells, after.calls, after.values, after.approvals) == (
            before.cells,
            before.calls,
            before.values,
            before.approvals,
        )
        assert after.events == before.events
        assert set(place.effects().values()) == {1}
    finally:
        second.close()
