"""The doors inside a cell, over every store, held against the same list as the host's."""

from collections.abc import AsyncIterator

import pytest

from cloister import Cloister, SessionLimits
from cloister.testing.behaviour import Behaviour
from cloister.testing.files import ALL, INITIAL, FileDoor
from tests.stores.pg_server import PgServer, start_pg_server

from .cell_doors import PythonDoor, TypeScriptDoor

pytestmark = pytest.mark.anyio
__all__ = ["start_pg_server"]

LIMITS = SessionLimits(memory_mb=256, wall_ms=30_000, cpu_ms=20_000)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
async def cloister(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cloister]:
    match request.param:
        case "memory":
            store = "memory:"
        case "sqlite":
            store = f"sqlite://{tmp_path_factory.mktemp('files')}/store.db?synchronous=normal"
        case _:
            server: PgServer = request.getfixturevalue("pg_server")
            store = server.url(server.new_database())
    async with Cloister(limits=LIMITS, type_check="off", store=store) as cloister:
        yield cloister


@pytest.mark.parametrize("behaviour", ALL, ids=lambda behaviour: behaviour.slug)
@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_door_of_a_cell(behaviour: Behaviour[FileDoor], language: str, cloister: Cloister) -> None:
    if language == "python" and behaviour.sentence.startswith("no name leads out"):
        pytest.skip("in Python `..` is applied by the path itself: see tests/engines/monty/test_files.py")
    name = f"{language}-{ALL.index(behaviour)}"
    async with await cloister.open_session(name, language=language, files=INITIAL) as session:
        door = PythonDoor(session) if language == "python" else TypeScriptDoor(session)
        await behaviour.check(door)
