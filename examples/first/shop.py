"""The tools of a first conversation. One looks something up; the other asks a person, each time.

Run it: cloister serve --tools shop --model scripted:answers.yaml
"""

from cloister import tool


@tool(side_effect="read")
async def get_order(order_id: str) -> dict[str, int]:
    """Look up an order."""
    return {"cents": 1250 if order_id == "A7" else 0}


@tool(side_effect="write", approval_policy="manual")
async def refund(order_id: str, cents: int) -> str:
    """Give the money back."""
    return f"{cents} cents of order {order_id} are on their way"
