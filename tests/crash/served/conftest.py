from collections.abc import Awaitable, Callable, Iterator

import pytest

pytest.register_assert_rewrite("tests.crash.served.trial")

from tests.crash.served.nursery import Nursery  # noqa: E402
from tests.crash.served.trial import Course, walk_through  # noqa: E402


@pytest.fixture(scope="session")
def servers() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="session")
def course(servers: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Awaitable[Course]]:
    known: dict[str, Course] = {}

    async def find(name: str) -> Course:
        if name not in known:
            known[name] = await walk_through(servers, name, tmp_path_factory.mktemp("course") / "trial")
        return known[name]

    return find
