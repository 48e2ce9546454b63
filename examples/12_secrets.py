"""A program uses a secret and never sees it: it holds a handle, and the value is put in on the way to the tool.

Only to the tools that the secret is allowed for. What comes back is scrubbed, also where a tool repeats it.

Run it: python examples/12_secrets.py
"""

import asyncio

from cloister import Cloister, tool

TOKEN = "tok-5f2a90c1d7e8"  # yours comes from the environment or a vault

PROGRAM = """
token = secret("API_TOKEN")
print("the program holds", token.split(".")[2], "as a handle")
answer = await get_profile(user="ada", token=token)
print("the tool said", answer)
try:
    await post_comment(text=f"my token is {token}")
except RuntimeError as error:
    print(error)
answer["name"]
"""


@tool(side_effect="network")
async def get_profile(user: str, token: str) -> dict[str, str]:
    """Who somebody is. A careless tool: it repeats its request."""
    assert token == TOKEN, "the tool gets the real one"
    return {"name": "Ada", "debug": f"GET /users/{user} Authorization: Bearer {token}"}


@tool(side_effect="network")
async def post_comment(text: str) -> None:
    """Say something in public."""
    print("POSTED", text)


async def main() -> None:
    secrets = {"API_TOKEN": {"value": TOKEN, "allowed": ["get_profile"]}}
    async with Cloister(tools=[get_profile, post_comment], secrets=secrets) as cloister:
        session = await cloister.open_session()
        result = await session.run(PROGRAM)
        print(result.stdout, end="")
        print("its value:", result.result)
        print("the token is in what came back:", TOKEN in repr(result))


asyncio.run(main())
