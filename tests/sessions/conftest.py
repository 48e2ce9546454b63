"""Sessions for the tests: a Cloister with two workers."""

from collections.abc import AsyncIterator

import pytest

from cloister import Cloister, Session


@pytest.fixture
async def cloister() -> AsyncIterator[Cloister]:
    async with Cloister(workers=2) as made:
        yield made


@pytest.fixture
async def session(cloister: Cloister) -> Session:
    return await cloister.open_session("here")
