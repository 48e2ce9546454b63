"""What programs and models may call at a server that is killed: `cloister serve --tools tests.crash.served.till`.

An effect is on the disk before it is answered. Imported in the server's process, in whose directory it works.
"""

import asyncio
import os

from cloister import CallContext, CapabilityLimits, tool
from tests.crash.points import Points

# Installed by whoever starts the server, before it opens anything.
POINTS = Points(os.environ.get("CRASH_AT"))
_effects = os.open("effects", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)


def _effect(n: int, ctx: CallContext) -> None:
    POINTS.hit("before:tool")
    os.write(_effects, f"{ctx.name} {n} {ctx.idempotency_key} {os.getpid()}\n".encode())
    os.fsync(_effects)
    POINTS.hit("after:tool")


@tool(side_effect="write", idempotent=False)
async def pay(n: int, ctx: CallContext) -> str:
    """Once and no more."""
    _effect(n, ctx)
    await asyncio.sleep(0.001)
    return f"paid {n}"


@tool(side_effect="write", idempotent=False, limits=CapabilityLimits(timeout_ms=120_000))
async def slow(n: int, ctx: CallContext) -> str:
    """Once, and so slowly that its turn has ended meanwhile."""
    _effect(n, ctx)
    await asyncio.sleep(0.3)
    return f"paid {n}"


@tool(side_effect="read")
async def look(n: int, ctx: CallContext) -> int:
    """Harmless."""
    _effect(n, ctx)
    return n * 2


@tool(side_effect="write", idempotent=True)
async def put(n: int, ctx: CallContext) -> str:
    """May be done again."""
    _effect(n, ctx)
    await asyncio.sleep(0.001)
    return f"put {n}"


@tool(side_effect="write", idempotent=False, approval_policy="manual")
async def ask(n: int, ctx: CallContext) -> str:
    """Once, if a person says so."""
    _effect(n, ctx)
    return f"paid {n}"
