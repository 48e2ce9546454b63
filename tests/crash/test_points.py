"""Kills at every commit point by name: see `points`."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.parent import Course, Nursery, Trial, kill_at_points
from tests.crash.plans import PLANS

# Each is dozens of processes, one after the other: on a machine that others use too, minutes.
pytestmark = pytest.mark.timeout(600)
_WRITTEN = "session began suspended asked intent settlement question answer ended read values events"
POINTS = [
    *(f"{when}:{what}" for what in _WRITTEN.split() for when in ("before", "committed", "after", "stall")),
    *(f"{when}:{what}" for what in "tool dispatch dump resume end claim".split() for when in ("before", "after")),
]
# Of each plan, at the least.
KILLS = 18
# So that what a recovered cell has come to must outlive the host that finished it.
_SECOND = "after:read:1"


@pytest.mark.parametrize("plan", PLANS)
def test_a_host_killed_at_one_point_after_the_other_comes_to_the_same_end(
    nursery: Nursery, course: Callable[[str], Course], tmp_path: Path, plan: str
) -> None:
    rng, known = random.Random(plan), course(plan)
    # Near the beginning of each life, so that they are come to.
    names = [point for point in sorted(known.points) if not point.endswith(("session", "claim"))]
    chosen = rng.sample(names, len(names))
    points = [f"{point}:{rng.randint(1, min(known.points[point], 4))}" for point in chosen]
    killed = again = 0
    while killed < KILLS:
        # The further a plan is, the fewer of its points are left: each trial begins where the last one did not come to.
        trial = Trial(nursery, plan, tmp_path / f"{again}")
        kill_at_points(trial, known, points[: KILLS - killed])
        points = points[len(trial.lives) :] or points
        killed, again = killed + trial.kills, again + 1


# Points that those lives come to once, at their beginning, or that chance does not choose above.
_SELDOM = (
    *(f"{when}:{what}:1" for what in ("session", "claim") for when in ("before", "after")),
    "committed:session:1",
    "stall:session:1",
    "before:asked:1",
    "stall:asked:1",
    "committed:asked:1",
    "after:question:1",
)


def test_a_host_killed_at_points_that_are_seldom_come_to_goes_on(
    nursery: Nursery, course: Callable[[str], Course], tmp_path: Path
) -> None:
    for number, point in enumerate(_SELDOM):
        trial = Trial(nursery, "asking-python", tmp_path / f"{number}")
        kill_at_points(trial, course("asking-python"), [point])
        assert trial.kills == 1, f"{point} was not come to"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("plan", PLANS)
def test_every_occurrence_of_every_point_can_be_the_last(
    nursery: Nursery, course: Callable[[str], Course], tmp_path: Path, plan: str, point: str
) -> None:
    known = course(plan)
    failed: list[str] = []
    for nth in range(1, known.points.get(point, 0) + 1):
        try:
            kill_at_points(Trial(nursery, plan, tmp_path / f"{nth}"), known, [f"{point}:{nth}", _SECOND])
        except AssertionError as failure:
            failed.append(str(failure))
    assert not failed, f"{len(failed)} of {known.points[point]}:\n" + "\n".join(failed)
