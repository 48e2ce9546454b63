"""The host of the tour that is killed: its program waits for a person, and it says so and waits for its end."""

import asyncio
import json
import sys
from pathlib import Path

from cloister.cli.demo.programs import SELLING
from cloister.core.language import Language


def demo_host(disk: Path, language: Language, /) -> int:
    """Run a program until it waits for a person."""
    asyncio.run(_run(disk, language))
    return 0


async def _run(disk: Path, language: Language) -> None:
    from cloister.cli.demo.killed import SESSION, opened

    async with opened(disk) as cloister:
        session = await cloister.open_session(SESSION, language=language)
        seen = await session.exec(SELLING[language], yield_ms=30_000)
        sys.stdout.write(json.dumps({"cell_id": seen.cell_id, "status": seen.status}) + "\n")
        sys.stdout.flush()
        # If nobody kills it, it ends with whoever started it.
        await asyncio.to_thread(sys.stdin.read)
