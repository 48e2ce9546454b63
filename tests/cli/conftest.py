"""What the tests of the command line share: a directory with tools in it, and a shell there."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.typing import Typist


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typist:
    return Typist(tmp_path, monkeypatch, capsys)
