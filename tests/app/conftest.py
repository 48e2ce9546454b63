"""Every test has a data directory of its own: no key is written into the user's home."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"
