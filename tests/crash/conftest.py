from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.crash.parent")

from tests.crash.parent import Course, Nursery, walk_through  # noqa: E402
from tests.crash.tally import tally  # noqa: E402


@pytest.fixture(scope="session")
def nursery(request: pytest.FixtureRequest) -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()
    mine = tally(request.config)
    mine.kills += made.kills
    mine.starts += made.starts


@pytest.fixture(scope="session")
def course(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Course]:
    known: dict[str, Course] = {}

    def find(plan: str) -> Course:
        if plan not in known:
            known[plan] = walk_through(nursery, plan, Path(tmp_path_factory.mktemp("course")) / "trial")
        return known[plan]

    return find
