"""From the shell: what a person waits for who types a command, in processes of their own."""

import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.measure import Row

_SCRIPT = str(Path(sysconfig.get_path("scripts")) / "cloister")
_RUN = [_SCRIPT, "run", "-e", "1+1"]
_IMPORT = [sys.executable, "-c", "import cloister"]
_ROUNDS = 15


def _seconds(words: list[str], here: str) -> float:
    began = time.perf_counter()
    subprocess.run(words, cwd=here, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


async def rows() -> AsyncIterator[Row]:
    """The faster half of each, in turns: see `measure.typical`."""
    runs, imports = list[float](), list[float]()
    # A directory without a configuration.
    with tempfile.TemporaryDirectory() as here:
        # The first writes the bytecode.
        for words in (_RUN, _IMPORT):
            _seconds(words, here)
        for _ in range(_ROUNDS):
            runs.append(_seconds(_RUN, here))
            imports.append(_seconds(_IMPORT, here))
    half = _ROUNDS // 2 + 1
    run, alone = sum(sorted(runs)[:half]) / half, sum(sorted(imports)[:half]) / half
    yield Row('cloister run -e "1+1", cold from the shell, s', run, 0.8)
    yield Row('cloister run -e "1+1", in times of python -c "import cloister"', run / alone, 3.0)
