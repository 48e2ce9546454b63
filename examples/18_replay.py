"""What did that cell do last night, and would it do so again? Replay it: no tool is called, nothing is written.

Here a tool's answer is changed in the store behind everybody's back, and the replay says in which call. So it is with a
program whose behaviour nobody understands: it can be run again, with the very answers that it got.

Run it: python examples/18_replay.py
"""

import asyncio
import secrets
import sqlite3
import tempfile
from pathlib import Path

from cloister import Cloister, tool

PROGRAM = """
total = 0
for order in ["A7", "B2", "C3"]:
    total += await price(order)
print("all priced")
total
"""
ASKED: list[str] = []


@tool(side_effect="read")
async def price(order: str) -> int:
    """Look up what an order costs."""
    ASKED.append(order)
    return 100 * len(ASKED)


def tamper(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE calls SET settled = replace(settled, ',200,', ',2,')")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        key = secrets.token_bytes(32)
        async with Cloister(tools=[price], store=f"sqlite://{path}", snapshot_key=key) as cloister:
            session = await cloister.open_session("shop")
            cell = (await session.run(PROGRAM)).cell_id

        # Another process, days later, which has none of the tools.
        async with Cloister(store=f"sqlite://{path}", snapshot_key=key) as cloister:
            report = await cloister.replay(cell)
            print("the same again:", report.same, f"({report.steps} steps, {report.calls} calls)")
            tamper(path)
            report = await cloister.replay(cell)
            assert report.diverged is not None
            print(f"now: {report.diverged.kind} in call {report.diverged.call}")
        print("prices asked for:", ASKED)


asyncio.run(main())
