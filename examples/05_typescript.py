"""The same in TypeScript: tools are under `tools`, `Promise.all` runs calls together, variables last.

Run it: python examples/05_typescript.py
"""

import asyncio

from cloister import Cloister, tool

FIRST = """
interface Stock { item: string; count: number }

const stocks: Stock[] = await Promise.all(
  ["tea", "salt", "honey"].map((item) => tools.get_stock({ item })),
);
console.log(`${stocks.length} items looked up`);
"""
SECOND = """
stocks.filter((stock) => stock.count < 5).map((stock) => stock.item)
"""


@tool(side_effect="read")
async def get_stock(item: str) -> dict[str, str | int]:
    """How many of an item are left."""
    return {"item": item, "count": len(item)}


async def main() -> None:
    async with Cloister(tools=[get_stock]) as cloister:
        session = await cloister.open_session(language="typescript")
        first = await session.run(FIRST)
        print("printed:", first.stdout.strip())
        second = await session.run(SECOND)
        print("running low:", second.result)


asyncio.run(main())
