"""What durable calls are measured against: the same work as steps of DBOS workflows, on the same PostgreSQL.

    python -m bench.rival URL WORKFLOWS STEPS       prints steps per second

In a process of its own, so that neither is in the other's way. As many workflows as sessions run at once on one event
loop, each awaiting one step after the other; a step does what the tool does, which is nothing.
"""

import asyncio
import logging
import sys
import time

from dbos import DBOS, DBOSConfig


@DBOS.step()
async def look(n: int) -> int:
    return n


@DBOS.workflow()
async def many(steps: int) -> int:
    total = 0
    for n in range(steps):
        total += await look(n)
    return total


async def main(url: str, workflows: int, steps: int) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        # More connections did not make it faster, fewer made it slower.
        "sys_db_pool_size": 20,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        await many(2)
        began = time.perf_counter()
        totals = await asyncio.gather(*(many(steps) for _ in range(workflows)))
        spent = time.perf_counter() - began
    finally:
        DBOS.destroy()
    assert totals == [sum(range(steps))] * workflows
    print(workflows * steps / spent)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
