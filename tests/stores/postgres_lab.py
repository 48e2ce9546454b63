"""A place for the tests of the PostgreSQL store: stores in schemas of their own, other processes, what must hold."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloister.ports.clock import SystemClock
from cloister.stores.postgres import PostgresStore
from tests.stores.pg_server import PgServer

_CHILD = Path(__file__).with_name("postgres_child.py")


async def until(holds: Callable[[], bool]) -> None:
    """For what nobody tells us: what a server is doing, how far others have come."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class MovedClock(SystemClock):
    """The machine's clock, ahead by as much as it was moved."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    async def move(self, ms: int) -> None:
        self.ahead_ms += ms


class Place:
    """A schema that is empty at first."""

    def __init__(self, server: PgServer) -> None:
        self.server = server
        self.schema = server.new_schema()
        self.clock: MovedClock | None = None

    def store(self, port: int | None = None) -> PostgresStore:
        url = self.server.url()
        if port is not None:
            url = url.replace(f":{self.server.port}/", f":{port}/")
        return PostgresStore(url, schema=self.schema, clock=self.clock)

    def sql(self, text: str) -> list[Any]:
        return self.server.execute(f"SET search_path = {self.schema}; {text}")

    def connections(self, name: str) -> int:
        [(count,)] = self.server.execute(
            f"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'cloister {name}%'"
        )
        return count

    def waits_for(self, what: str) -> bool:
        """Whether a writer does, in the server."""
        found = self.server.execute(
            f"SELECT 1 FROM pg_stat_activity WHERE wait_event = '{what}' AND application_name LIKE 'cloister writer%'"
        )
        return bool(found)

    @contextmanager
    def child(self, name: str, count: int) -> Generator[subprocess.Popen[str]]:
        """Ready, and waiting for a line to begin."""
        process = subprocess.Popen(
            [sys.executable, str(_CHILD), self.schema, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "STORE_URL": self.server.url()},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
