"""Types are checked against your tools before anything happens. `strict` refuses the program, `warn` tells.

Here the second call is wrong. In strict mode the first one is not made either.

Run it: python examples/08_strict_types.py
"""

import asyncio

from cloister import Cloister, tool

PROGRAM = """
balance = await get_balance(account="ada")
await pay(account="ada", cents="everything")
"""
calls: list[str] = []


@tool(side_effect="read")
async def get_balance(account: str) -> int:
    """What an account holds, in cents."""
    calls.append("get_balance")
    return 1250


@tool(side_effect="write")
async def pay(account: str, cents: int) -> bool:
    """Pay money out."""
    calls.append("pay")
    return True


async def main() -> None:
    async with Cloister(tools=[get_balance, pay]) as cloister:
        for mode in ("strict", "warn"):
            calls.clear()
            session = await cloister.open_session(mode, type_check=mode)
            result = await session.run(PROGRAM)
            found = result.diagnostics[0]
            where = f"line {found.span.line}" if found.span else "nowhere"
            print(f"{mode}: {found.severity.value} {found.code} on {where}; calls made: {calls}")
            print("   hint:", found.hint)


asyncio.run(main())
