"""A Cloister with careless tools, shared by the tests of a file; for each test a stage of its own."""

import logging
from collections.abc import AsyncIterator

import pytest

from cloister import Cloister, Event
from tests.security.careless import Careless, Stage
from tests.security.leaks import KEY


@pytest.fixture(scope="module")
async def careless_cloister(anyio_backend: str) -> AsyncIterator[tuple[Cloister, Careless, list[Stage]]]:
    careless, stages = Careless(), list[Stage]()

    def hear(event: Event) -> None:
        stages[-1].witness.events.append(event)

    async with Cloister(tools=careless.tools, workers=2, snapshot_key=KEY, on_event=hear) as cloister:
        yield cloister, careless, stages


@pytest.fixture
async def stage(
    careless_cloister: tuple[Cloister, Careless, list[Stage]], caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Stage]:
    cloister, careless, stages = careless_cloister
    caplog.set_level(logging.DEBUG)
    stages.append(Stage(cloister, careless, caplog))
    careless.given.clear()
    careless.sent.clear()
    yield stages[-1]
    await cloister.destroy_session("here")
