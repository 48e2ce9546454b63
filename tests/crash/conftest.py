from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.crash.parent")

from tests.crash.parent import Course, Nursery, walk_through  # noqa: E402


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()
    print(f"\n{made.kills} hosts killed in {made.starts} starts")


@pytest.fixture(scope="session")
def course(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Course]:
    known: dict[str, Course] = {}

    def find(plan: str) -> Course:
        if plan not in known:
            known[plan] = walk_through(nursery, plan, Path(tmp_path_factory.mktemp("course")) / "trial")
        return known[plan]

    return find
