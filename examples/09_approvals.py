"""Some calls ask a person first. Meanwhile the program is a few KB of bytes: no worker is held, its clock stands still.

Here three refunds are asked about at once. Two are allowed and one is denied, which the program catches.

Run it: python examples/09_approvals.py
"""

import asyncio
import secrets

from cloister import Approval, Cloister, tool

PROGRAM = """
import asyncio

async def pay_back(order_id, cents):
    try:
        return await refund(order_id=order_id, cents=cents)
    except RuntimeError as error:
        return str(error)

await asyncio.gather(*[pay_back(order_id, cents) for order_id, cents in orders.items()])
"""


@tool(side_effect="write", idempotent=False, approval_policy="manual")
async def refund(order_id: str, cents: int) -> str:
    """Give money back."""
    return f"{order_id}: {cents} cents paid"


def decide(approval: Approval) -> dict[str, str]:
    print("asked:", approval.capability, approval.arguments)
    if approval.arguments["cents"] < 5000:
        return {"id": approval.id, "decision": "allow"}
    return {"id": approval.id, "decision": "deny", "message": "ask the bank first"}


async def main() -> None:
    async with Cloister(tools=[refund], snapshot_key=secrets.token_bytes(32)) as cloister:
        session = await cloister.open_session()
        result = await session.run(PROGRAM, inputs={"orders": {"A7": 1250, "B2": 400, "C9": 99000}})
        print("status:", result.status.value)
        print(f"asleep: worker {session.worker_pid}, {len(await session.snapshot())} bytes")

        # An hour or a week later. Every decision is taken, or refused, by itself.
        pending = await cloister.approvals(state="pending")
        decided = await cloister.decide_many([decide(approval) for approval in pending])
        print("decided:", [one.approval.state.value for one in decided if one.approval])

        result = await session.resume(result.cell_id)
        for line in result.result:
            print("-", line)


asyncio.run(main())
