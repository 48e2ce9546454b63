"""What a program does wrong is never an exception in your process: it is data, with a code, a place and a hint.

A program may also catch a failed call itself and go on. Only what a tool says with `ToolError` reaches it.

Run it: python examples/03_errors_as_data.py
"""

from cloister import ToolError, run_sync, tool

CATCHES = """
found = []
for order_id in ["A7", "B2"]:
    try:
        found.append(await get_order(order_id=order_id))
    except RuntimeError as error:
        found.append(str(error))
found
"""
MISSPELT = "await get_ordr(order_id='A7')"
FAILS = "total = 0\ntotal / total"


@tool(side_effect="read")
async def get_order(order_id: str) -> str:
    """What was ordered."""
    if order_id != "A7":
        raise ToolError("ORDER_NOT_FOUND", f"there is no order {order_id}", "ids look like A7")
    return "a pot of honey"


result = run_sync(CATCHES, tools=[get_order])
print("caught inside:", result.result)

for code in (MISSPELT, FAILS):
    result = run_sync(code, tools=[get_order])
    error = result.error
    if error is not None:
        line = error.span.line if error.span else "?"
        print(f"{result.status.value}: {error.code} on line {line}: {error.message}")
        print("   hint:", error.hint or "none")
