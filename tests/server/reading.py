"""How tests read streams of events: as the protocol says, and with nothing forgiven."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import httpx2

# Only what hangs gets there.
PATIENCE_S = 60.0
Json = dict[str, Any]


async def frames(client: httpx2.AsyncClient, path: str, **given: Any) -> AsyncGenerator[dict[str, str], None]:
    async with client.stream("GET", path, **given) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        frame: dict[str, str] = {}
        # Lines end as the protocol says, and not where Python thinks that they might.
        rest = b""
        async for part in answer.aiter_bytes():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                assert b"\r" not in line
                if not line:
                    if frame:
                        yield frame
                    frame = {}
                else:
                    name, _, value = line.decode().partition(": ")
                    assert name not in frame or not name
                    frame[name or "comment"] = value.strip(": ")


async def events(
    client: httpx2.AsyncClient, path: str, until: Callable[[list[Json]], bool], **given: Any
) -> list[Json]:
    """Those that come, deltas too, up to the first that makes `until` true."""
    found: list[Json] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(frames(client, path, **given)) as coming:
        async for frame in coming:
            if "data" not in frame:
                continue
            said = json.loads(frame["data"])
            assert frame["event"] == said["event"]
            assert frame.get("id") == (str(said["seq"]) if "seq" in said else None)
            found.append(said)
            if until(found):
                break
    return found


def count(wanted: int) -> Callable[[list[Json]], bool]:
    return lambda found: len(found) == wanted


def named(name: str) -> Callable[[list[Json]], bool]:
    return lambda found: found[-1]["event"] == name


def numbered(found: list[Json]) -> list[Json]:
    return [one for one in found if "seq" in one]
