from pathlib import Path

import pytest

from tests.mcp.lab import ERAS, Lab


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """Both protocols: that with a handshake, and that of 2026-07-28."""
    return str(request.param)
