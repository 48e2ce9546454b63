"""A secret that a session keeps is of use to an allowed tool, and unreadable to everybody else.

A real tool speaks to a real server on loopback. Then the value is looked for, in every form, in all that is left: the
program's answers, listings, events, snapshots, logs, every byte of the database and its log, and an export of it.
"""

import asyncio
import logging
import os
import shutil
import sqlite3
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
import zstandard

from cloister import Cloister, Session, tool
from cloister.ports.clock import SystemClock
from cloister.stores.moving import export
from cloister.stores.sqlite import SqliteStore
from tests.security.careless import LANGUAGES, attempts, call
from tests.security.leaks import KEY, Witness, found_in, texts_in

pytestmark = pytest.mark.anyio
VALUES = {"plain": "hunter2-hunter2-hunter2", "signs": "a+b%20c&d=e/f?g#h-ünïcode", "quotes": 'he said "no" \\ twice'}
TOKEN = "=secret('TOKEN')"
SECRET_KEY = os.urandom(32)


class Server(ThreadingHTTPServer):
    """Lets in who has a token of those that it knows, and is careless: it repeats what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.known: set[str] = set()
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Door(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        token = self.rfile.read(int(self.headers["Content-Length"])).decode()
        server = cast("Server", self.server)
        server.seen.append(token)
        welcome = token in server.known
        body = f"{'welcome' if welcome else 'go away'}, you sent {token}".encode()
        self.send_response(200 if welcome else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        logging.getLogger("server").info(format, *args)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


class Web:
    """One allowed tool, and one that would like to be."""

    def __init__(self) -> None:
        self.leaked: list[str] = []

        @tool(side_effect="network")
        def http_post(url: str, token: str) -> str:
            request = urllib.request.Request(url, token.encode(), method="POST")
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.read().decode()

        @tool(side_effect="network")
        def publish(text: str) -> None:
            self.leaked.append(text)

        @tool(side_effect="network", approval_policy="manual")
        def ask_and_post(url: str, token: str) -> str:
            return http_post(url, token)

        self.tools = [http_post, publish, ask_and_post]


def bytes_of(database: Path, scratch: Path) -> Iterator[bytes]:
    """Every byte of the files, and every value in them, unpacked if it is packed."""
    for suffix in ("", "-wal"):
        source = Path(f"{database}{suffix}")
        assert source.exists(), "the store is still open: what it wrote last is in its log"
        yield source.read_bytes()
        shutil.copy(source, scratch.with_name(scratch.name + suffix))
    with sqlite3.connect(scratch) as copy:
        for (table,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in copy.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    yield value if isinstance(value, bytes) else str(value).encode()
                    if isinstance(value, bytes) and value.startswith(b"\x28\xb5\x2f\xfd"):
                        yield zstandard.ZstdDecompressor().decompress(value, max_output_size=64 << 20)
    copy.close()


async def exported(database: Path, file: Path) -> bytes:
    async with SqliteStore(database, clock=SystemClock()) as store:
        with file.open("wb") as out:
            await export(store, out)
    return zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", VALUES)
async def test_kept_secret_is_used_by_an_allowed_http_tool_and_unreadable_anywhere(
    tmp_path: Path, server: Server, kind: str, language: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    first, second = f"{VALUES[kind]}-1", f"{VALUES[kind]}-2"
    server.known = {first, second}
    web, witness, database = Web(), Witness(), tmp_path / "store.db"
    options: dict[str, Any] = {
        "workers": 1,
        "snapshot_key": KEY,
        "secret_key": SECRET_KEY,
        "store": f"sqlite://{database}",
    }
    async with Cloister(tools=web.tools, on_event=witness.events.append, **options) as cloister:
        session = await cloister.open_session("s", language=language)
        await session.secrets.set("TOKEN", first, allow=["http_post", "ask_and_post"])
        calls = [
            call(language, "http_post", url=server.url, token=TOKEN),
            call(language, "publish", text=TOKEN),
        ]
        result = await witness.run(session, attempts(language, calls))
        assert result.ok, result.error
        assert result.result[0] == "welcome, you sent [secret TOKEN]"
        assert [record.status.value for record in result.external_calls] == ["ok", "denied"]
        await _waits_with_it(session, witness, server, language)
        # Another value for the next call.
        await session.secrets.set("TOKEN", second)
        result = await witness.run(session, attempts(language, calls[:1]))
        assert result.result == ["welcome, you sent [secret TOKEN]"]
        assert server.seen == [first, second]
        fork = await session.fork(session_id="fork")
        listed = await asyncio.gather(session.secrets.list(), fork.secrets.list(), session.history())
        logged = [part for line in caplog.records for part in (line.getMessage(), line.exc_text, str(line.args))]
        kept = list(bytes_of(database, tmp_path / "copy.db"))
        seen = [*await witness.all(cloister), *texts_in(listed), *texts_in(logged), *kept]
        assert any(b"TOKEN" in part for part in kept)
    seen.append(await exported(database, tmp_path / "exported"))
    # Nobody but those who may, and the key is not there either.
    for value in (first, second):
        assert found_in(seen, value) == set()
    assert web.leaked == []
    assert not [part for part in kept if SECRET_KEY in part or SECRET_KEY.hex().encode() in part]


async def _waits_with_it(session: Session, witness: Witness, server: Server, language: str) -> None:
    """A program that sleeps in the middle of such a call is written down too."""
    waiting = await witness.run(session, call(language, "ask_and_post", url=server.url, token=TOKEN))
    assert waiting.status == "waiting_for_approval"
    await session.terminate(waiting.cell_id)


async def test_search_would_find_a_value_that_is_there(tmp_path: Path) -> None:
    value, database = VALUES["plain"], tmp_path / "store.db"
    async with Cloister(workers=1, store=f"sqlite://{database}") as cloister:
        session = await cloister.open_session("s")
        await session.values.set("k", value)
        assert "raw" in found_in(bytes_of(database, tmp_path / "copy.db"), value)
    assert "raw" in found_in([await exported(database, tmp_path / "exported")], value)
