"""Tools are functions of yours that a program may call. Calls made together run together.

Eight calls of 100 ms each take little more than 100 ms.

Run it: python examples/02_tools_at_once.py
"""

import asyncio

from cloister import Cloister, tool

TEMPERATURES = {"Oslo": 4, "Rome": 17, "Cairo": 24, "Lima": 19, "Delhi": 27, "Perth": 22, "Quito": 15, "Seoul": 9}

PROGRAM = """
import asyncio

readings = await asyncio.gather(*[get_temperature(city=city) for city in cities])
warmest = max(zip(readings, cities))
f"{warmest[1]}, {warmest[0]} degrees"
"""


@tool(side_effect="network")
async def get_temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    await asyncio.sleep(0.1)
    return TEMPERATURES[city]


async def main() -> None:
    async with Cloister(tools=[get_temperature]) as cloister:
        session = await cloister.open_session()
        result = await session.run(PROGRAM, inputs={"cities": list(TEMPERATURES)})
        waited = sum(call.duration_ms for call in result.external_calls)
        print("warmest:", result.result)
        print(f"{len(result.external_calls)} calls, {waited:.0f} ms of waiting in {result.metrics.duration_ms:.0f} ms")


asyncio.run(main())
