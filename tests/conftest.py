"""What every test shares: async tests, marked `anyio`, run on asyncio; one PostgreSQL for those that want it."""

import pytest
from hypothesis import settings

from tests.stores.pg_server import start_pg_server

__all__ = ["start_pg_server"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


# How long an example takes says something about the machine, not about the property.
settings.register_profile("cloister", deadline=None)
settings.load_profile("cloister")
