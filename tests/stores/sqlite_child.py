"""Another process on the same store, for tests that stop, kill or race it: `python sqlite_child.py WHAT PATH [NAME]`.

It says on its standard output what it has done, one line each, and waits for lines on its standard input.
"""

import asyncio
import os
import sys
from typing import Any

import apsw

from cloister.core.digest import digest_bytes
from cloister.core.errors import CloisterError
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Append, Batch, Put, PutBlob, ValueRow
from cloister.stores.sqlite import SqliteStore


def say(text: str) -> None:
    # Whole or not at all, even when this process is killed.
    os.write(1, f"{text}\n".encode())


def wait_for_a_line() -> None:
    sys.stdin.readline()


def batch_of(name: str, number: int) -> Batch:
    """Four writes whose presence, together, can be seen afterwards."""
    key = f"{name}/{number:06}"
    data = key.encode() * 200
    return Batch(
        (
            Put(ValueRow("ses_a", f"{key}/first", number, 1, 1)),
            Append("ses_a", "test.written", number, {"key": key}),
            PutBlob(digest_bytes(data), data),
            Put(ValueRow("ses_a", f"{key}/last", number, 1, 1)),
        )
    )


async def write(path: str, name: str, most: int) -> None:
    """Writes with eight tasks; says the number of each batch once it is acknowledged."""
    async with SqliteStore(path, clock=SystemClock(), busy_timeout_ms=30_000) as store:
        numbers = iter(range(most))

        async def task() -> None:
            for number in numbers:
                await store.write(batch_of(name, number))
                say(f"{number}")

        await asyncio.gather(*(task() for _ in range(8)))
    say("closed")


def hold(path: str) -> None:
    """Takes the lock for writing, and gives it back when told to."""
    connection: Any = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    wait_for_a_line()
    connection.execute("ROLLBACK")
    connection.close()


async def open_it(path: str) -> None:
    try:
        async with SqliteStore(path, clock=SystemClock(), busy_timeout_ms=30_000) as store:
            await store.write(Batch((Append("ses_a", "test.opened", 1),)))
    except CloisterError as error:
        say(f"{error.code}: {error.message} ({error.hint})")
    else:
        say("opened")


def main() -> None:
    what, path, *rest = sys.argv[1:]
    match what:
        case "write":
            asyncio.run(write(path, rest[0], int(rest[1])))
        case "hold":
            hold(path)
        case "open":
            say("ready")
            wait_for_a_line()
            asyncio.run(open_it(path))
        case "open_as_nobody":
            # What Python imports late, another user may not be able to read.
            asyncio.run(asyncio.to_thread(SystemClock().now_ms))
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            asyncio.run(open_it(path))
        case _:
            raise SystemExit(f"unknown: {what}")


if __name__ == "__main__":
    main()
