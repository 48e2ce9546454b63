"""Who may call what: rules that allow by themselves, sessions that are stricter than their tools, and what nobody may.

Rules are CEL, an expression language without loops or effects. Every decision says which rule, and with which values.

Run it: python examples/10_policy.py
"""

import asyncio

from cloister import Cloister, DenyRule, InvalidInput, Session, tool

DENY = DenyRule("args.amount > 1000", tools=("bank.pay",), message="that much is paid by hand")


@tool(namespace="bank", side_effect="write", approval_policy={"auto": {"rule": "args.amount < 100"}})
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


async def show(session: Session, amount: int) -> None:
    result = await session.run("from bank import pay\nawait pay(to='ada', amount=amount)", inputs={"amount": amount})
    if result.approvals:
        said = result.approvals[0].reason
        await session.terminate(result.cell_id)
    else:
        said = result.result if result.ok else result.error and result.error.message
    print(f"{session.id}, {amount}: {result.status.value}: {said}")


async def main() -> None:
    async with Cloister(tools=[pay], deny=[DENY]) as cloister:
        normal = await cloister.open_session("normal")
        for amount in (50, 250, 5000):
            await show(normal, amount)

        # A session's own rules come on top: all of them must hold.
        twice = {"auto": {"rule": "calls.by_name['bank.pay'] < 2"}}
        careful = await cloister.open_session("careful", approvals={"bank.*": twice})
        for amount in (50, 60, 70):
            await show(careful, amount)

        try:
            await cloister.open_session("careless", approvals={"bank.pay": "none"})
        except InvalidInput as error:
            print("refused:", error)

        # A program may ask what it is in for.
        policy = await careful.run("(await current_policy())['tools'][0]['approval']")
        print("in force:", policy.result)


asyncio.run(main())
