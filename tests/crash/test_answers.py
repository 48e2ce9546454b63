"""An answer to a question of another process: its host takes it, or whoever comes after a host that was killed."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import ApprovalClosed
from cloister.app.address import make_store
from cloister.app.kept import Answered, answer
from cloister.ports.clock import SystemClock
from tests.crash.parent import ROOT, environment
from tests.stores.pg_server import PgServer


@pytest.fixture(params=["python in sqlite", "typescript in postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A language and a store."""
    language, _, kind = str(request.param).partition(" in ")
    if kind == "sqlite":
        return language, f"sqlite://{tmp_path}/store.db"
    server: PgServer = request.getfixturevalue("pg_server")
    return language, server.url(server.new_database())


class Asker:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def says(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "it ended before it said anything"
        return json.loads(line)


@contextmanager
def asker(where: tuple[str, str], directory: Path, *more: str) -> Generator[Asker]:
    language, store = where
    command = [sys.executable, "-m", "tests.crash.asker", store, language, str(directory), *more]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Asker(process)
        finally:
            process.kill()


def decide(store: str, asked: str, decision: str, wait_ms: int = 0) -> Answered:
    async def work() -> Answered:
        made = make_store(store, SystemClock())
        assert made is not None
        async with made:
            return await answer(made, asked, decision, wait_ms=wait_ms)

    return asyncio.run(work())


def test_answer_is_taken_by_the_host_or_by_the_next_one_and_counts_once(where: tuple[str, str], tmp_path: Path) -> None:
    paid = tmp_path / "paid"
    with asker(where, tmp_path) as host:
        first = host.says()
        done = decide(where[1], first["asked"], "allow", wait_ms=60_000)
        assert (done.outcome, done.call) == ("executed", "ok")
        assert done.host == f"process {host.process.pid}"
        assert paid.read_text() == "1\n"
        second = host.says()
        done = decide(where[1], second["asked"], "allow")
        assert (done.outcome, done.approval.state) == ("written", "allowed")
        with pytest.raises(ApprovalClosed, match="'allow'"):
            decide(where[1], second["asked"], "deny")
        host.process.kill()
    # Nor when nobody has the session.
    with pytest.raises(ApprovalClosed, match="'allow'"):
        decide(where[1], second["asked"], "deny")
    assert paid.read_text() == "1\n"
    with asker(where, tmp_path, first["cell"]) as host:
        assert host.says() == {"ended": "completed", "result": ["paid 1", "paid 2"]}
        assert host.process.wait(60) == 0
    assert paid.read_text() == "1\n2\n"
