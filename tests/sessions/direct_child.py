"""The process that is killed in the middle of a direct call: makes it, or finds it and goes on, until it has ended.

python -m tests.sessions.direct_child DIRECTORY        with the point to die at in the environment, see `points`
"""

import asyncio
import json
import os
import sys
from typing import Any

from cloister import CallContext, Cloister, tool
from tests.crash.points import Points


class Life:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._points = Points(os.environ.get("CRASH_AT"))

    async def run(self) -> None:
        self._points.install()
        points, effects = self._points, f"{self._directory}/effects"

        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def pay(n: int, ctx: CallContext) -> str:
            """Once, if a person says so."""
            points.hit("before:tool")
            with open(os.open(effects, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "w") as file:
                file.write(f"{ctx.idempotency_key}\n")
                file.flush()
                os.fsync(file.fileno())
            points.hit("after:tool")
            return f"paid {n}"

        async with Cloister(tools=[pay], store=f"sqlite://{self._directory}/s.db", snapshot_key=b"k" * 32) as cloister:
            told = await self._finish(cloister)
            told["pending"] = [one.id for one in await cloister.approvals(state="pending")]
        sys.stdout.write(json.dumps(told))

    async def _finish(self, cloister: Cloister) -> dict[str, Any]:
        session = await cloister.open_session("s")
        past = [cell for cell in await session.history() if cell.direct]
        if past and past[-1].ended_at is not None and not (await cloister.recovery_report()).cells:
            # It had ended, and its caller knew.
            return {"status": past[-1].calls[0].status, "state": past[-1].state}
        result = await session.resume(past[-1].id) if past else await session.call("pay", {"n": 1})
        while result.approvals:
            if result.approvals[0].state == "pending":
                await cloister.decide(result.approvals[0].id, "allow")
            result = await session.resume(result.cell_id)
        code = result.error.code if result.error is not None else None
        return {"status": result.status.value, "result": result.result, "code": code}


if __name__ == "__main__":
    asyncio.run(Life(sys.argv[1]).run())
