"""A program sleeps for a person, with half of its fifty calls settled, and its host is killed: it ends all the same."""

from pathlib import Path

import pytest

from tests.crash.parent import Nursery, Trial, kill_at_points, look, walk_through
from tests.crash.plans import FIFTY

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("plan", FIFTY)
def test_program_asleep_with_half_of_its_calls_settled_ends_after_a_restart(
    nursery: Nursery, tmp_path: Path, plan: str
) -> None:
    known = walk_through(nursery, plan, tmp_path / "course")
    trial = Trial(nursery, plan, tmp_path / "trial")
    # Twenty-five are paid and the others are asked about: it is killed before the first of the answers.
    assert not trial.live(at="before:answer:1")
    assert trial.lives == ["before:answer:1"]
    assert trial.kills == 1
    kept = look(tmp_path / "trial" / "store.db")
    (cell,) = [row for row in kept.cells.values() if row.live]
    assert cell.state == "asleep"
    assert len([row for row in kept.approvals.values() if row.state == "pending"]) == 25
    assert len([entry for entry in kept.calls.values() if entry.settled is not None]) == 25
    # And once more, when half of the questions are answered.
    kill_at_points(trial, known, ["committed:answer:12"])
    assert trial.kills == 2
