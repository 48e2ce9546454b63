"""The other process of the tour: finds a snapshot in a file, wakes the program in it and finishes it."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from cloister.cli.demo.shop import Desk
from cloister.core.language import Language
from cloister.core.wire import to_json


def demo_wake(snapshot: Path, language: Language, /) -> int:
    """Restore a session and finish the cell that sleeps in it."""
    sys.stdout.write(json.dumps(asyncio.run(_wake(snapshot.read_bytes(), language))) + "\n")
    return 0


async def _wake(blob: bytes, language: Language) -> dict[str, object]:
    from cloister.app import Cloister

    desk = Desk("yes, of course", at_once=True)
    async with Cloister(tools=desk.tools()) as cloister:
        # The engine's own start is not what is measured.
        async with await cloister.open_session("warm-up", language=language) as warm_up:
            await warm_up.run("1 + 1")
        began = time.perf_counter()
        session = await cloister.restore_session(blob)
        result = await session.resume()
        took = (time.perf_counter() - began) * 1000
        return {"pid": os.getpid(), "worker_pid": session.worker_pid, "took_ms": took, "result": to_json(result)}
