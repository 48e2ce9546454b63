"""A host whose program asks a person twice: `python -m tests.crash.asker STORE LANGUAGE DIRECTORY [CELL]`.

It says on its output which question waits, and after the second it does nothing any more. With CELL it is a later host,
and says how that cell has ended.
"""

import asyncio
import json
import sys
from typing import Any

from cloister import Cloister, Completed, Session, WaitingForApproval, tool

CODE = {
    "python": "[await pay(n=1), await pay(n=2)]",
    "typescript": "[await tools.pay({n: 1}), await tools.pay({n: 2})]",
}


def say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def written(session: Session, approval_id: str) -> str:
    """Once its event is in the log, so is the question."""
    async with session.events(since=0) as events:
        async for event in events:
            if event.kind == "approval.required" and event.data["id"] == approval_id:
                break
    return approval_id


async def ask(session: Session) -> None:
    seen = await session.exec(CODE[session.language], yield_ms=60_000)
    assert isinstance(seen, WaitingForApproval)
    say(cell=seen.cell_id, asked=await written(session, seen.approvals[0].id))
    seen = await session.wait(seen.cell_id, yield_ms=60_000)
    assert isinstance(seen, WaitingForApproval)
    say(asked=await written(session, seen.approvals[0].id))
    # In the way of the event loop, so that no answer is taken; what was being written is.
    sys.stdin.read()


async def main(store: str, language: str, directory: str, cell_id: str | None = None) -> None:
    @tool(side_effect="write", idempotent=False, approval_policy="manual")
    async def pay(n: int) -> str:
        with open(f"{directory}/paid", "a") as paid:
            paid.write(f"{n}\n")
        return f"paid {n}"

    async with Cloister(tools=[pay], store=store, workers=1) as host:
        session = await host.open_session("s", language=language)
        if cell_id is None:
            await ask(session)
            return
        seen = await session.wait(cell_id, yield_ms=60_000)
        say(ended=seen.status, result=seen.result if isinstance(seen, Completed) else None)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
