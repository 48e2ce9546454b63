"""A server killed at random instants, again and again, until the turns of its threads have ended."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.crash.served.conversations import CONVERSATIONS
from tests.crash.served.nursery import Nursery
from tests.crash.served.record import InServer
from tests.crash.served.trial import Course, kill_at_random, trial_of
from tests.stores.pg_server import PgServer

# Each is several servers, one after the other: on a machine that others use too, minutes.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1200)]
KILLS = 3


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_turns_come_to_their_ends_once_however_often_their_server_is_killed(
    servers: Nursery, course: Callable[[str], Awaitable[Course]], tmp_path: Path, name: str
) -> None:
    known, killed, again = await course(name), 0, 0
    while killed < KILLS:
        async with trial_of(servers, name, tmp_path / f"{again}") as trial:
            await kill_at_random(trial, known, again, most_kills=KILLS - killed)
        killed, again = killed + trial.kills, again + 1


async def test_turns_in_postgresql_come_to_their_ends_once_however_often_their_server_is_killed(
    servers: Nursery, course: Callable[[str], Awaitable[Course]], pg_server: PgServer, tmp_path: Path
) -> None:
    known = await course("code-python")
    async with trial_of(servers, "code-python", tmp_path / "trial", InServer(pg_server)) as trial:
        await kill_at_random(trial, known, 0, most_kills=KILLS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_turns_come_to_their_ends_once_for_many_seeds(
    servers: Nursery, course: Callable[[str], Awaitable[Course]], tmp_path: Path, name: str, seed: int
) -> None:
    known = await course(name)
    for again in range(2):
        async with trial_of(servers, name, tmp_path / f"{again}") as trial:
            await kill_at_random(trial, known, seed * 1000 + again, most_kills=10)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1, 3))
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_turns_in_postgresql_come_to_their_ends_once_for_many_seeds(
    servers: Nursery,
    course: Callable[[str], Awaitable[Course]],
    pg_server: PgServer,
    tmp_path: Path,
    name: str,
    seed: int,
) -> None:
    known = await course(name)
    async with trial_of(servers, name, tmp_path / "trial", InServer(pg_server)) as trial:
        await kill_at_random(trial, known, seed, most_kills=8)
