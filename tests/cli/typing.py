"""Commands as they are typed, run in this process: a process of its own for each of so many would take long."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from cloister.cli import main
from tests.cli.shell import BANK, TOOLS


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Typist:
    """`here` is the current directory; `shop` and `bank` are modules in it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.here = directory / "here"
        self.data = directory / "data"
        self.here.mkdir()
        (self.here / "shop.py").write_text(dedent(TOOLS))
        (self.here / "bank.py").write_text(dedent(BANK))
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.chdir(self.here)
        monkeypatch.setenv("CLOISTER_DATA_DIR", str(self.data))
        monkeypatch.delenv("CLOISTER_CONFIG", raising=False)
        monkeypatch.setattr(sys, "path", [str(self.here), *sys.path])
        for name in ("shop", "bank"):
            sys.modules.pop(name, None)

    def __call__(self, line: str, *more: str, stdin: str | bytes = b"") -> Said:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        # A real pipe: some commands read from its descriptor. What is typed is small enough to wait in it.
        read, write = os.pipe()
        os.write(write, data)
        os.close(write)
        self._capsys.readouterr()
        with os.fdopen(read) as piped:
            self._monkeypatch.setattr(sys, "stdin", piped)
            code = main([*line.split(), *more])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def write(self, name: str, text: str) -> Path:
        path = self.here / name
        path.write_text(dedent(text))
        return path

    @property
    def paid(self) -> list[str]:
        file = self.here / "paid"
        return file.read_text().splitlines() if file.exists() else []
