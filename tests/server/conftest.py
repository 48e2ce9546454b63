from collections.abc import Generator

import pytest

from tests.server.lab import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    """One for all tests of a module: each takes sessions of its own."""
    place = tmp_path_factory.mktemp("server")
    with running(f"sqlite:///{place}/cloister.db?synchronous=normal") as made:
        yield made
