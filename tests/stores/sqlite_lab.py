"""A place for the tests of the SQLite store: a clock to move, stores on files, their connections, other processes."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from cloister.stores.sqlite import SqliteStore

CHILD = Path(__file__).with_name("sqlite_child.py")


class HandClock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000

    async def sleep(self, seconds: float) -> None:
        self.at_ms += int(seconds * 1000)


def store_at(path: Path, **options: Any) -> SqliteStore:
    return SqliteStore(path, clock=options.pop("clock", HandClock()), **options)


@contextmanager
def connections() -> Generator[list[Any]]:
    """All connections that are made meanwhile; a store's first is the one that writes."""
    made: list[Any] = []
    hooks: list[Any] = apsw.connection_hooks
    hooks.append(made.append)
    try:
        yield made
    finally:
        hooks.remove(made.append)


def sql(path: Path, *statements: str) -> list[Any]:
    """What the last of the statements finds, by a connection of its own."""
    connection: Any = apsw.Connection(str(path))
    try:
        found: list[Any] = []
        for statement in statements:
            found = connection.execute(statement).fetchall()
        return found
    finally:
        connection.close()


@contextmanager
def child(*arguments: object) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(CHILD), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def heard(process: subprocess.Popen[bytes]) -> str:
    """The next line that it says; empty when there will be none."""
    assert process.stdout is not None
    line = bytearray()
    while (byte := process.stdout.read(1)) not in (b"\n", b""):
        line += byte
    return line.decode()


def all_heard(process: subprocess.Popen[bytes]) -> list[str]:
    """All that it says until it ends."""
    assert process.stdout is not None
    return process.stdout.read().decode().splitlines()


def tell(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
