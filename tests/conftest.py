"""What every test shares: async tests, marked `anyio`, run on asyncio; a data directory that is not the user's; one
PostgreSQL for those that want it."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.crash.tally import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown
from tests.stores.pg_server import start_pg_server

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary", "pytest_testnodedown", "start_pg_server"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def data_directory_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For what is made before a test has its own, as modules do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOISTER_DATA_DIR", str(tmp_path_factory.mktemp("shared") / "data"))
        yield


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test writes a key into the user's home."""
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


# How long an example takes says something about the machine, not about the property.
settings.register_profile("cloister", deadline=None)
settings.load_profile("cloister")


@pytest.fixture(autouse=True)
def loud_logger() -> Iterator[None]:
    """A command or a server that ran in this process sets up our logger for good; the next test has it as it was."""
    logger = logging.getLogger("cloister")
    before = (logger.level, logger.propagate, logger.handlers[:])
    yield
    logger.setLevel(before[0])
    logger.propagate, logger.handlers[:] = before[1:]
