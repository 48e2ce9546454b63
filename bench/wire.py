"""A server in a process of its own, and a client for it that is as thin as can be: bytes on a socket."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

# `cloister serve` as it is measured; the URL of its store comes behind it.
SERVE = ("-m", "cloister.cli", "serve", "--port", "0", "--json", "--workers", "2", "--store")


class Wire:
    """One connection that is kept."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._heads = (
            f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        ).encode()

    async def __aenter__(self) -> "Wire":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._writer.close()

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode()
        return await self._answer(head + self._heads + b"\r\n" + body)

    async def get(self, path: str) -> bytes:
        return await self._answer(self.asking(path))

    def asking(self, path: str) -> bytes:
        """What asks for a stream, for a connection of its own."""
        return f"GET {path} HTTP/1.1\r\n".encode() + self._heads + b"\r\n"

    async def _answer(self, asked: bytes) -> bytes:
        self._writer.write(asked)
        heads = await self._reader.readuntil(b"\r\n\r\n")
        length = int(heads.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        found = await self._reader.readexactly(length)
        assert heads.startswith(b"HTTP/1.1 20"), heads + found
        return found


@contextlib.contextmanager
def started(*words: str) -> Generator[dict[str, Any], None, None]:
    """A process, by what it says when it is ready."""
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=nothing, text=True)
        try:
            assert child.stdout is not None
            yield json.loads(child.stdout.readline())
        finally:
            child.terminate()
            child.communicate(timeout=30)


def token_of(ready: dict[str, Any]) -> str:
    return Path(ready["token_file"]).read_text().strip()
