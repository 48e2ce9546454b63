from collections.abc import Generator

import pytest

from tests.server.lab import Running, running
from tests.threads.lab import echo, run_code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    """One for all tests of a module: each takes sessions of its own."""
    place = tmp_path_factory.mktemp("server")
    drivers = {"code": run_code, "native": echo}
    with running(f"sqlite:///{place}/cloister.db?synchronous=normal", drivers=drivers) as made:
        yield made
