"""What every test shares: async tests, marked `anyio`, run on asyncio."""

import pytest
from hypothesis import settings


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


# How long an example takes says something about the machine, not about the property.
settings.register_profile("cloister", deadline=None)
settings.load_profile("cloister")
