"""`python -m bench [--only PART]`: prints a row per promise and writes them to build/bench.json."""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from bench import catalog, cells, engines, files, gate, mcp, replay, server, shell, store, threads
from bench.measure import Row

PARTS: dict[str, Callable[[], AsyncIterator[Row]]] = {
    "catalog": catalog.rows,
    "cells": cells.rows,
    "engines": engines.rows,
    "files": files.rows,
    "gate": gate.rows,
    "mcp": mcp.rows,
    "replay": replay.rows,
    "server": server.rows,
    "shell": shell.rows,
    "store": store.rows,
    "threads": threads.rows,
}


async def collect(parts: list[str]) -> list[Row]:
    found: list[Row] = []
    print(f"{'what':78} {'measured':>10} {'target':>10}")
    for part in parts:
        async for row in PARTS[part]():
            mark = "ok" if row.ok else "SHORT"
            print(f"{row.name:78} {row.measured:10.2f} {row.target:10.2f}  {mark}", flush=True)
            found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), help="run one part")
    chosen = parser.parse_args().only
    with tempfile.TemporaryDirectory() as scratch:
        # The key of this run's snapshots goes with it.
        os.environ.setdefault("CLOISTER_DATA_DIR", scratch)
        rows = asyncio.run(collect([chosen] if chosen else sorted(PARTS)))
    target = Path("build/bench.json")
    target.parent.mkdir(exist_ok=True)
    target.write_text(
        json.dumps([{"name": r.name, "measured": r.measured, "target": r.target, "ok": r.ok} for r in rows], indent=2)
    )
    short = [row for row in rows if not row.ok]
    print(f"\n{len(rows) - len(short)} of {len(rows)} targets met; rows are in {target}")


main()
