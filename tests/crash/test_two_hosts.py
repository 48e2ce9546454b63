"""Two hosts on one store: a session has one owner, and one that lost it changes nothing any more."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.parent import ROOT, environment, look

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


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "trial"


@pytest.fixture
def busy(directory: Path) -> Iterator[Peer]:
    """A host whose two cells are in the middle of slow calls, that have had their effect."""
    peer = Peer(directory, CRASH_SLOW="2.5")
    peer.until("effect", times=2)
    yield peer
    peer.close()


def _effects(directory: Path) -> Counter[tuple[str, str]]:
    lines = [line.split() for line in (directory / "effects").read_text().splitlines()]
    return Counter((name, n) for name, n, _, _ in lines if name != "put")


def test_a_session_is_not_opened_while_another_host_has_it(directory: Path, busy: Peer) -> None:
    second = Peer(directory)
    try:
        assert second.finish() == 0
        assert second.until("opened")["elsewhere"] == ["held"]
        assert "another process" in second.until("refused")["message"]
        assert busy.finish() == 0
        # The first was not disturbed.
        assert busy.until("final")["state"]["held"]["cells"][-1][1] == ["paid 300", "paid 301", "paid 302", "paid 320"]
        assert set(_effects(directory).values()) == {1}
    finally:
        second.close()


def test_a_host_that_was_killed_is_followed_at_once(directory: Path, busy: Peer) -> None:
    busy.kill()
    second = Peer(directory)
    try:
        assert second.finish() == 0
        assert second.until("opened")["elsewhere"] == []
        cells = second.until("final")["state"]["held"]["cells"]
        assert cells[1][1] == ["paid 300", "!OUTCOME_UNKNOWN 301", "paid 302"]
        assert cells[2][1] == ["put 310", "!OUTCOME_UNKNOWN 311"]
        assert set(_effects(directory).values()) == {1}
        assert look(directory / "store.db").findings == []
    finally:
        second.close()


def test_a_host_that_was_killed_and_not_reaped_is_followed_at_once(directory: Path, busy: Peer) -> None:
    os.kill(busy.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, busy.process.pid, os.WEXITED | os.WNOWAIT)
    second = Peer(directory)
    try:
        second.finish()
        assert second.until("opened")["elsewhere"] == []
    finally:
        second.close()


def test_a_frozen_host_loses_its_sessions_with_its_lease_and_cannot_change_them(directory: Path, busy: Peer) -> None:
    busy.process.send_signal(signal.SIGSTOP)
    frozen = time.monotonic()
    early = Peer(directory)
    late: Peer | None = None
    try:
        assert early.finish() == 0
        assert early.until("opened")["elsewhere"] == ["held"]
        # Time itself is what is waited for.
        time.sleep(max(0.0, LEASE_MS / 1000 + 0.2 - (time.monotonic() - frozen)))
        late = Peer(directory)
        assert late.finish() == 0
        assert late.until("opened")["elsewhere"] == []
        cells = late.until("final")["state"]["held"]["cells"]
        assert cells[1][1] == ["paid 300", "!OUTCOME_UNKNOWN 301", "paid 302"]
        before = look(directory / "store.db")

        busy.process.send_signal(signal.SIGCONT)
        busy.finish()
        # How its cells ended is in `test_findings`: what it must not do is change anything.
        assert {one["result"] for one in busy.all("end")[1:]} <= {None}, busy.all("end")
        after = look(directory / "store.db")
        assert after.findings == []
        assert (after.cells, after.calls, after.values, after.approvals) == (
            before.cells,
            before.calls,
            before.values,
            before.approvals,
        )
        assert after.events == before.events
        assert set(_effects(directory).values()) == {1}
    finally:
        early.close()
        if late is not None:
            late.close()
