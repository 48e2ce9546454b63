"""A real server on loopback, for all tests of a module, and the clients of it."""

from collections.abc import Generator

import pytest

from cloister.client import Client, Retry
from tests.server.lab import ADMIN, Running, running

QUICK = Retry(first_ms=1, most_ms=20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    with running(f"sqlite://{tmp_path_factory.mktemp('store')}/store.db") as one:
        yield one


@pytest.fixture
def client(server: Running) -> Generator[Client, None, None]:
    with Client(server.url, ADMIN, retry=QUICK) as one:
        yield one
