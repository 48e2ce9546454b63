"""`python -m cloister.testing.conformance.wake LANGUAGE < STATE`: wake a program, answer 2, print its value."""

import asyncio
import sys

from cloister.app.engines import make_engine
from cloister.core.language import Language
from cloister.ports.engine import Returned
from cloister.testing.conformance.lab import ROOMY, Lab


async def main(language: str, state: bytes) -> None:
    async with make_engine(Language(language), workers=1, require_confinement=False) as engine:
        lab = Lab(engine)
        interpreter = await engine.open(ROOMY, state)
        step = await interpreter.resume([Returned(1, 2)], lab.turn())
        sys.stdout.write(f"{getattr(step, 'value', step)}\n")
        await interpreter.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.stdin.buffer.read()))
