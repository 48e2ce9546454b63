"""Isolated cells run beside each other, each in a fresh namespace; they share stored values and nothing else.

`wait_any` tells of the first that ends, so nobody polls. One that goes astray is ended for sure.

Run it: python examples/15_side_by_side.py
"""

import asyncio
import secrets

from cloister import Cloister, Terminated, tool

COUNT = """
words = (await fetch(page)).split()
store(page, len(words))
len(words)
"""
ASTRAY = "while True:\n    pass"


@tool(side_effect="read")
async def fetch(page: str) -> str:
    """A page's text."""
    await asyncio.sleep({"short": 0.05, "long": 0.2}[page])
    return {"short": "all is well", "long": "once upon a time there was a program that slept"}[page]


async def main() -> None:
    async with Cloister(tools=[fetch], workers=2, snapshot_key=secrets.token_bytes(32)) as cloister:
        session = await cloister.open_session()
        running = [
            (await session.exec(COUNT, inputs={"page": page}, isolated=True, yield_ms=0)).cell_id
            for page in ("long", "short")
        ]
        astray = await session.exec(ASTRAY, isolated=True, yield_ms=0)

        while running:
            seen = await session.wait_any(running)
            if seen is not None:
                print(seen.status, "with", getattr(seen, "result", None))
                running.remove(seen.cell_id)

        stopped = await session.terminate(astray.cell_id)
        print("stopped for sure:", isinstance(stopped, Terminated))
        print("stored:", dict(sorted((await session.values.all()).items())))
        print("cells left:", await session.cells())


asyncio.run(main())
