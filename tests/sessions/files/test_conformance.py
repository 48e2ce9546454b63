"""The host's door to a session's files, over every store, held against the list of what every door does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloister import Cloister
from cloister.testing.behaviour import Behaviour
from cloister.testing.files import ALL, INITIAL, FileDoor, HostDoor
from tests.stores.pg_server import PgServer, start_pg_server

pytestmark = pytest.mark.anyio
__all__ = ["start_pg_server"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
async def cloister(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Cloister]:
    match request.param:
        case "memory":
            store = "memory:"
        case "sqlite":
            store = f"sqlite://{directory}/store.db?synchronous=normal"
        case _:
            server: PgServer = request.getfixturevalue("pg_server")
            store = server.url(server.new_database())
    async with Cloister(store=store) as made:
        yield made


@pytest.mark.parametrize("behaviour", ALL, ids=lambda behaviour: behaviour.slug)
async def test_host_door(behaviour: Behaviour[FileDoor], cloister: Cloister) -> None:
    async with await cloister.open_session(f"door-{ALL.index(behaviour)}", files=INITIAL) as session:
        await behaviour.check(HostDoor(session.files))


async def test_what_a_door_left_behind_is_found_again(cloister: Cloister, request: pytest.FixtureRequest) -> None:
    async with await cloister.open_session("again", files=INITIAL) as session:
        await session.files.write("/a/b", b"\x00\xff")
        left = [await session.files.stat(one.path) for one in await session.files.list(recursive=True)]
    async with await cloister.open_session("again") as session:
        found = [await session.files.stat(one.path) for one in await session.files.list(recursive=True)]
        if "memory" in request.node.name:
            assert found == []
        else:
            assert found == left
            assert await session.files.read("/a/b") == b"\x00\xff"
