"""A server killed at each point by name that concerns a turn (see `points`): the turns come to what they come to."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.crash.served.conversations import CONVERSATIONS
from tests.crash.served.nursery import Nursery
from tests.crash.served.trial import Course, kill_at_points, trial_of

# Each is several servers, one after the other: on a machine that others use too, minutes.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1200)]
# What must be safe before anybody is told: answers of models and of clients, decisions, words in the middle, ends.
_SAFE = "reply turn_end steer tool_answer answer"
_REST = (
    "thread turn item delivered tool_call question asked direct directed began suspended intent settlement ended read"
)
_WHEN = ("before", "committed", "after", "stall")
_AROUND = [f"{when}:{what}" for what in "tool dispatch dump resume end claim".split() for when in ("before", "after")]
FIRST = [f"{when}:{what}" for what in _SAFE.split() for when in _WHEN]
POINTS = [*FIRST, *(f"{when}:{what}" for what in _REST.split() for when in _WHEN), *_AROUND]


def _chosen(points: list[str], course: Course, rng: random.Random) -> list[str]:
    """Those that it has, each at one of its first times: near the beginning of a life they are come to."""
    known = [point for point in points if point in course.points]
    return [f"{point}:{rng.randint(1, min(course.points[point], 3))}" for point in rng.sample(known, len(known))]


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_turns_whose_server_is_killed_where_it_matters_most_come_to_their_ends_once(
    servers: Nursery, course: Callable[[str], Awaitable[Course]], tmp_path: Path, name: str
) -> None:
    known, rng = await course(name), random.Random(name)
    place = list(CONVERSATIONS).index(name)
    # Each conversation has its share of them: together all.
    points, killed, again = _chosen(FIRST[place :: len(CONVERSATIONS)], known, rng), 0, 0
    while points:
        async with trial_of(servers, name, tmp_path / f"{again}") as trial:
            await kill_at_points(trial, known, points)
        points = points[len(trial.lives) :]
        killed, again = killed + trial.kills, again + 1
    assert killed >= len(_chosen(FIRST[place :: len(CONVERSATIONS)], known, rng)) - again


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_every_point_can_be_the_last_of_a_server(
    servers: Nursery, course: Callable[[str], Awaitable[Course]], tmp_path: Path, name: str, seed: int
) -> None:
    known, rng = await course(name), random.Random(f"{name} {seed}")
    points, again = _chosen(POINTS, known, rng), 0
    while points:
        async with trial_of(servers, name, tmp_path / f"{again}") as trial:
            await kill_at_points(trial, known, points)
        points, again = points[len(trial.lives) :], again + 1
