"""What a store's owner can get wrong, for both stores that last: refused with what to do, and all is as it was."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, CloisterError, InvalidInput, SecretsLocked
from cloister.core.errors import StoreUnusable
from cloister.ports.store import Store
from cloister.stores.moving import export, import_
from cloister.stores.postgres import PostgresStore
from cloister.testing.stores.lab import everything
from tests.cli.test_store import at
from tests.stores.pg_server import PgServer

pytestmark = pytest.mark.anyio


class Place:
    """Stores of one kind, by name."""

    def __init__(self, directory: Path, server: PgServer | None) -> None:
        self._directory, self._server = directory, server
        self._databases: dict[str, str] = {}

    def store(self, name: str = "a") -> Store:
        if self._server is None:
            return at(self._directory / f"{name}.db")
        if name not in self._databases:
            self._databases[name] = self._server.new_database()
        return PostgresStore(self._server.url(self._databases[name]))

    def open(self, **options: Any) -> Cloister:
        given: dict[str, Any] = {"snapshot_key": b"k" * 32, "secret_key": b"s" * 32, **options}
        return Cloister(store=self.store(), **given)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    server = request.getfixturevalue("pg_server") if request.param == "postgres" else None
    return Place(tmp_path, server)


async def _held(store: Store) -> dict[str, Any]:
    async with store:
        return await everything(store)


async def _refused(error: type[CloisterError], act: Callable[[], Awaitable[object]]) -> CloisterError:
    with pytest.raises(error) as caught:
        await act()
    assert caught.value.hint
    return caught.value


async def test_secrets_under_a_key_that_is_not_here_are_locked_and_stay(place: Place) -> None:
    async with place.open() as cloister:
        session = await cloister.open_session("s")
        await session.secrets.set("TOKEN", "value-of-it")
    before = await _held(place.store())
    async with place.open(secret_key=b"z" * 32) as wrong:
        await _refused(SecretsLocked, lambda: wrong.open_session("s"))
    assert await _held(place.store()) == before
    async with place.open() as cloister:
        assert [info.name for info in await (await cloister.open_session("s")).secrets.list()] == ["TOKEN"]


async def test_fork_at_an_id_that_is_gone_makes_no_session(place: Place) -> None:
    async with place.open() as cloister:
        session = await cloister.open_session("s")
        result = await session.run("x = 1")
        for gone in ("cel_" + "0" * 26, "cal_" + "0" * 26):
            refused = await _refused(InvalidInput, lambda: session.fork(at=gone))  # noqa: B023 - awaited at once
            assert gone in refused.message
        assert (await (await session.fork(at=result.cell_id, session_id="copy")).run("x")).result == 1
    assert {row.id for row in (await _held(place.store()))["sessions"]} == {"s", "copy"}


async def test_import_that_is_cut_off_leaves_the_store_empty(place: Place, tmp_path: Path) -> None:
    async with place.open() as cloister:
        await (await cloister.open_session("s")).run("x = 1")
    file = tmp_path / "export"
    async with place.store() as store:
        with file.open("wb") as out:
            await export(store, out)
    whole = file.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 10):
        file.write_bytes(whole[:size])
        async with place.store("b") as target:
            with file.open("rb") as cut:
                await _refused(StoreUnusable, lambda: import_(target, cut))
            assert not any((await everything(target)).values())
