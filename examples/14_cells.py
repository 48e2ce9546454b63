"""A cell is a program that goes on while you look away: start it, see what it said so far, come back, be told its end.

Nothing is told twice and nothing is lost. `text`, `image` and `notify` speak to whoever observes it; so does `print`.

Run it: python examples/14_cells.py
"""

import asyncio
import secrets

from cloister import Cloister, Completed, Yielded, tool

PROGRAM = """
# @exec: {"yield_time_ms": 5000, "max_output_tokens": 2000}
done = []
for city in ["Oslo", "Lima", "Pune"]:
    done.append(await survey(city))
    print("surveyed", city)
    if city == "Oslo":
        notify("one of three is done")
        yield_control()
text({"surveyed": len(done)})
sum(done)
""".lstrip()


@tool(side_effect="read")
async def survey(city: str) -> int:
    """Count the bridges of a city. Takes its time."""
    await asyncio.sleep(0.3)
    return len(city)


async def main() -> None:
    async with Cloister(tools=[survey], snapshot_key=secrets.token_bytes(32)) as cloister:
        session = await cloister.open_session()
        events = session.events()

        seen = await session.exec(PROGRAM)
        assert isinstance(seen, Yielded)
        print("so far:", [item["text"] for item in seen.content])
        print("cells:", [(cell.state.value, cell.waiting_for) for cell in await session.cells()])

        seen = await session.wait(seen.cell_id)
        assert isinstance(seen, Completed)
        print("the rest:", [item["text"] for item in seen.content])
        print("its value:", seen.result)

        await events.aclose()
        print("what happened:", [event.kind async for event in events if event.kind.startswith("cell.")])


asyncio.run(main())
