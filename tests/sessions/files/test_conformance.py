"""The host's door to a session's files, held against the list of what every door does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloister import Cloister
from cloister.testing.behaviour import Behaviour
from cloister.testing.files import ALL, INITIAL, FileDoor, HostDoor

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FileDoor]:
    store = "memory:" if request.param == "memory" else f"sqlite://{tmp_path}/store.db?synchronous=normal"
    async with Cloister(store=store) as cloister:
        session = await cloister.open_session("files", files=INITIAL)
        yield HostDoor(session.files)


@pytest.mark.parametrize("behaviour", ALL, ids=lambda behaviour: behaviour.slug)
async def test_host_door(behaviour: Behaviour[FileDoor], door: FileDoor) -> None:
    await behaviour.check(door)
