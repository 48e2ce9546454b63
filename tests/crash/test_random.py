"""Kills at random instants, many in the life of one plan, until it is done."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.parent import Course, Nursery, Trial, kill_at_random
from tests.crash.plans import PLANS

# Each is dozens of processes, one after the other: on a machine that others use too, minutes.
pytestmark = pytest.mark.timeout(600)
# Of each plan; with those of `test_points` they are what `conftest` counts.
KILLS = 18


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_comes_to_the_same_end_however_often_its_host_is_killed(
    nursery: Nursery, course: Callable[[str], Course], tmp_path: Path, plan: str
) -> None:
    killed = again = 0
    while killed < KILLS:
        trial = Trial(nursery, plan, tmp_path / f"{again}")
        kill_at_random(trial, course(plan), again, most_kills=KILLS - killed)
        killed, again = killed + trial.kills, again + 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10, 22))
@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_comes_to_the_same_end_for_many_seeds(
    nursery: Nursery, course: Callable[[str], Course], tmp_path: Path, plan: str, seed: int
) -> None:
    for again in range(3):
        trial = Trial(nursery, plan, tmp_path / f"{again}")
        kill_at_random(trial, course(plan), seed * 1000 + again, most_kills=12)
