"""A session with all that it holds goes from one kind of store to the other in its middle, and back again."""

from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, Completed, Session, WaitingForApproval, Yielded, tool
from cloister.ports.store import Store
from cloister.stores.moving import export, import_
from cloister.stores.postgres import PostgresStore
from tests.cli.test_store import at
from tests.stores.pg_server import PgServer

pytestmark = pytest.mark.anyio
SECRET = "s3cr3t-of-the-bank"
ASK = {
    "python": "x += 1\nstore('n', x)\nsaid = await ask({n}, secret('BANK'))\n[x, said]",
    "typescript": "x += 1; store('n', x); const said{n} = await ask({{n: {n}, token: secret('BANK')}}); [x, said{n}]",
}


class Bank:
    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def open(self, store: Store) -> Cloister:
        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def ask(n: int, token: str = "") -> str:
            """Once, if a person says so."""
            self.told.append((n, token))
            return f"allowed {n}"

        return Cloister(tools=[ask], store=store, snapshot_key=b"k" * 32, secret_key=b"s" * 32, workers=1)


async def _moved(source: Store, target: Store, file: Path) -> None:
    async with source:
        with file.open("wb") as out:
            sent = await export(source, out)
    assert SECRET.encode() not in file.read_bytes()
    async with target:
        with file.open("rb") as back:
            assert await import_(target, back) == sent
        assert list(await target.check()) == []


async def _asleep(session: Session, n: int) -> WaitingForApproval:
    seen = await session.exec(ASK[session.language].format(n=n), yield_ms=20_000)
    assert isinstance(seen, WaitingForApproval)
    return seen


async def _finished(cloister: Cloister, session: Session, seen: WaitingForApproval) -> Any:
    await cloister.decide(seen.approvals[0].id, "allow")
    while isinstance(end := await session.wait(seen.cell_id), Yielded):
        pass
    assert isinstance(end, Completed)
    return end.result


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_session_goes_on_in_postgresql_and_back_in_sqlite(
    tmp_path: Path, pg_server: PgServer, language: str
) -> None:
    bank, url = Bank(), pg_server.url(pg_server.new_database())
    async with bank.open(at(tmp_path / "a.db")) as cloister:
        session = await cloister.open_session("s", language=language)
        await session.run("x = 40" if language == "python" else "let x = 40")
        await session.files.write("notes/a", b"\x00from sqlite")
        await session.values.set("host", {"a": [1, "é\x00"]})
        await session.secrets.set("BANK", SECRET, allow=["ask"])
        kept = await session.attachments.add(b"attached", media_type="text/plain")
        direct = await session.call("ask", {"n": 1})
        seen = await _asleep(session, 2)
    await _moved(at(tmp_path / "a.db"), PostgresStore(url), tmp_path / "there")

    async with bank.open(PostgresStore(url)) as cloister:
        session = await cloister.open_session("s")
        assert bank.told == []
        assert await _finished(cloister, session, seen) == [41, "allowed 2"]
        assert await session.values.all() == {"host": {"a": [1, "é\x00"]}, "n": 41}
        assert await session.files.read("notes/a") == b"\x00from sqlite"
        assert await session.attachments.get(kept.id) == b"attached"
        assert [info.name for info in await session.secrets.list()] == ["BANK"]
        await session.files.write("notes/b", b"from postgresql")
        await session.values.delete("host")
        more = await session.attachments.add(b"another", "text/plain")
        seen = await _asleep(session, 3)
    await _moved(PostgresStore(url), at(tmp_path / "b.db"), tmp_path / "back")

    async with bank.open(at(tmp_path / "b.db")) as cloister:
        session = await cloister.open_session("s")
        assert await _finished(cloister, session, seen) == [42, "allowed 3"]
        await cloister.decide(direct.approvals[0].id, "allow")
        assert (await session.resume(direct.cell_id)).result == "allowed 1"
        assert await session.values.all() == {"n": 42}
        files = {path: await session.files.read(path) for path in ("notes/a", "notes/b")}
        assert files == {"notes/a": b"\x00from sqlite", "notes/b": b"from postgresql"}
        for digest, data in ((kept.id, b"attached"), (more.id, b"another")):
            assert await session.attachments.get(digest) == data
        past = await session.history()
        assert [cell.state for cell in past] == ["completed"] * 4
        for cell in past:
            assert cell.direct or (await cloister.replay(cell.id)).same
    assert bank.told == [(2, SECRET), (3, SECRET), (1, "")]
