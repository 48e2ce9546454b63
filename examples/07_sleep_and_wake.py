"""A program asleep in the middle of a call: nothing of it is left running, and it wakes where it was.

The approval is asked for in one Cloister, which is then closed: no process, no memory, a few KB of bytes. Another
Cloister (another process or machine would do, with the same key) wakes the program and answers.

Run it: python examples/07_sleep_and_wake.py
"""

import asyncio
import secrets

from cloister import Cloister, tool

PROGRAM = """
order = {"id": "A7", "cents": 1250}
print("asking")
answer = await approve(what=f"refund {order['cents']} cents for {order['id']}")
print("answered")
f"{order['id']}: {answer}"
"""


async def main() -> None:
    key, asked = secrets.token_bytes(32), asyncio.Event()

    @tool(name="approve")
    async def approve_some_day(what: str) -> str:
        """Ask a person."""
        print("a person is asked:", what)
        asked.set()
        await asyncio.Event().wait()
        return "never"

    @tool(name="approve")
    async def approve_now(what: str) -> str:
        """Ask a person."""
        return "approved"

    async with Cloister(tools=[approve_some_day], snapshot_key=key) as evening:
        session = await evening.open_session()
        running = asyncio.create_task(session.run(PROGRAM))
        await asked.wait()
        blob = await session.snapshot()
        running.cancel()
    print(f"asleep: {len(blob)} bytes, and nothing else is left of it")

    async with Cloister(tools=[approve_now], snapshot_key=key) as morning:
        session = await morning.restore_session(blob)
        result = await session.resume()
        print("woke and finished:", result.result)
        print("printed in all:", result.stdout.split())


asyncio.run(main())
