"""The engine conformance suite over every engine that we have."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloister.app.engines import make_engine
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Engine
from cloister.testing.conformance import BEHAVIOURS, Behaviour, Lab

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    # The engines live as long as the module, so the loop does too.
    return "asyncio"


@pytest.fixture(scope="module", params=list(Language), ids=str)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with make_engine(request.param, workers=2, require_confinement=False) as entered:
        yield entered


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.slug)
async def test_engine(engine: Engine, behaviour: Behaviour[Lab]) -> None:
    await behaviour.check(Lab(engine))


def test_the_suite_has_many_behaviours_with_sentences_of_their_own() -> None:
    sentences = [behaviour.sentence for behaviour in BEHAVIOURS]
    assert len(sentences) >= 60
    assert len(set(sentences)) == len(sentences)


async def test_every_worker_is_gone_after_its_engine() -> None:
    for language in Language:
        async with make_engine(language, workers=2, require_confinement=False) as entered:
            interpreter = await entered.open(SessionLimits())
            pid = interpreter.pid
            await interpreter.close()
        assert pid is not None
        assert not Path(f"/proc/{pid}").exists()
