from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.crash.parent")

from tests.crash.parent import Course, Nursery, walk_through  # noqa: E402
from tests.crash.plans import PLANS  # noqa: E402

# What is promised, of a run with all these tests.
MOST = {
    "test_a_plan_comes_to_the_same_end_however_often_its_host_is_killed",
    "test_a_host_killed_at_one_point_after_the_other_comes_to_the_same_end",
}
SLOW = {"test_a_plan_comes_to_the_same_end_for_many_seeds", "test_every_occurrence_of_every_point_can_be_the_last"}
LEAST_KILLS, LEAST_KILLS_WITH_SLOW = 300, 3_000


_TOLD = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if told := config.stash.get(_TOLD, None):
        terminalreporter.write_line(told)


@pytest.fixture(scope="session")
def nursery(request: pytest.FixtureRequest) -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()
    request.config.stash[_TOLD] = f"{made.kills} hosts killed in {made.starts} starts"
    least = _promised(request.session)
    # In the last test's teardown: so few kills are an error, whatever the tests say.
    assert made.kills >= least, f"{made.kills} hosts were killed, and at least {least} are promised"


def _promised(session: pytest.Session) -> int:
    """How many kills a run with these tests is to have; 0 for one that was only of some, or that failed."""
    ran = Counter(getattr(item, "originalname", "") for item in session.items)
    if session.testsfailed or any(ran[name] < len(PLANS) for name in MOST):
        return 0
    return LEAST_KILLS_WITH_SLOW if all(ran[name] >= len(PLANS) * 12 for name in SLOW) else LEAST_KILLS


@pytest.fixture(scope="session")
def course(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Course]:
    known: dict[str, Course] = {}

    def find(plan: str) -> Course:
        if plan not in known:
            known[plan] = walk_through(nursery, plan, Path(tmp_path_factory.mktemp("course")) / "trial")
        return known[plan]

    return find
