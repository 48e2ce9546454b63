"""Another process on the same store: `postgres_child.py SCHEMA NAME COUNT` appends COUNT events and says their numbers.

The address is in the environment, as everybody can read a command line.
"""

import asyncio
import os
import sys

from cloister.ports.rows import Append, Batch
from cloister.stores.postgres import PostgresStore

_AT_ONCE = 20


async def main(schema: str, name: str, count: int) -> None:
    async with PostgresStore(os.environ["STORE_URL"], schema=schema) as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for first in range(0, count, _AT_ONCE):
            answers = [store.write(Batch((Append(name, "x", n),))) for n in range(first, min(first + _AT_ONCE, count))]
            for answer in answers:
                [number] = await answer
                sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
