"""A session becomes bytes and comes back, as often as you like: each copy goes its own way.

Functions and values are in there. The bytes are authenticated: changed ones are refused.

Run it: python examples/06_snapshot_and_copy.py
"""

import asyncio
import secrets

from cloister import Cloister, SnapshotError

PREPARE = """
prices = {"tea": 450, "honey": 790}

def total(order):
    return sum(prices[item] * count for item, count in order.items())
"""


async def main() -> None:
    # Without snapshot_key a key is made once and kept in your data directory.
    async with Cloister(snapshot_key=secrets.token_bytes(32)) as cloister:
        original = await cloister.open_session("monday")
        await original.run(PREPARE)
        blob = await original.snapshot()

        copy = await cloister.restore_session(blob, session_id="tuesday")
        await copy.run("prices['tea'] = 500")
        for session in (original, copy):
            result = await session.run("total({'tea': 2, 'honey': 1})")
            print(f"{session.id}: {result.result}")

        try:
            forged = blob[:-1] + bytes([blob[-1] ^ 1])
            await cloister.restore_session(forged, session_id="forged")
        except SnapshotError as error:
            print("changed bytes are refused:", error.code)


asyncio.run(main())
