"""Every limit is enforced from outside the program, which cannot catch it. The session goes on afterwards.

Run it: python examples/04_limits.py
"""

import asyncio

from cloister import Cloister, SessionLimits

GREEDY = {
    "loops for ever": "while True:\n    pass",
    "tries to hide": "try:\n    while True:\n        pass\nexcept BaseException:\n    'I live'",
    "hoards memory": "hoard = []\nwhile True:\n    hoard.append('x' * 10_000)",
    "recurses": "def down(n):\n    return down(n + 1)\ndown(0)",
}


async def main() -> None:
    limits = SessionLimits(cpu_ms=200, wall_ms=2000, memory_mb=16, max_stack_depth=100)
    async with Cloister(limits=limits) as cloister:
        session = await cloister.open_session()
        await session.run("kept = 42")
        for what, code in GREEDY.items():
            result = await session.run(code)
            assert result.error is not None
            print(f"{what}: {result.status.value}, {result.error.code}")
        after = await session.run("kept")
        print("what the session had is still there:", after.result)


asyncio.run(main())
