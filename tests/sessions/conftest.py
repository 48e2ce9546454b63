"""Sessions for the tests: a Cloister with two workers, whose key stays in the test's own directory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloister import Cloister, Session


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
async def cloister() -> AsyncIterator[Cloister]:
    async with Cloister(workers=2) as made:
        yield made


@pytest.fixture
async def session(cloister: Cloister) -> Session:
    return await cloister.open_session("here")
