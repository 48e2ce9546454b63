"""The journal conformance suite over every journal that we have."""

import pytest

from cloister.ports.journal import Journal
from cloister.stores.memory import MemoryJournal
from cloister.testing.behaviour import Behaviour
from cloister.testing.journal import BEHAVIOURS

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[MemoryJournal], ids=lambda kind: kind.__name__)
async def journal(request: pytest.FixtureRequest) -> Journal:
    return request.param()


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.slug)
async def test_journal(journal: Journal, behaviour: Behaviour[Journal]) -> None:
    await behaviour.check(journal)


def test_each_behaviour_has_a_sentence_of_its_own() -> None:
    sentences = {behaviour.sentence for behaviour in BEHAVIOURS}
    assert len(sentences) == len(BEHAVIOURS) >= 18
