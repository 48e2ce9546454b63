"""`cloister serve` in a process of its own, and a client for it."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).parents[2]
# A module of tools: what it pays for is asked about first.
BANK = """
    from cloister import tool


    @tool(side_effect="write", approval_policy="manual")
    async def refund(amount: int) -> str:
        return f"paid {amount}"
"""


@contextmanager
def serving(
    place: Path, *words: str
) -> Generator[tuple[subprocess.Popen[str], httpx2.Client, dict[str, Any]], None, None]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CLOISTER_DATA_DIR": str(place / "data")}
    command = [
        sys.executable,
        "-m",
        "cloister.cli",
        "serve",
        "--port",
        "0",
        "--json",
        "--ready-file",
        "ready.json",
        *words,
    ]
    child = subprocess.Popen(
        command, cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, child.stderr.read() if child.stderr is not None else ""
        ready = json.loads(line)
        assert json.loads((place / "ready.json").read_text()) == ready
        token = Path(ready["token_file"]).read_text().strip()
        with httpx2.Client(base_url=ready["url"], headers={"authorization": f"Bearer {token}"}, timeout=30) as client:
            yield child, client, ready
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()
