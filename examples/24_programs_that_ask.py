"""A program that asks a model, and hands a part of its work to a child that may do less than itself.

Run it: python examples/24_programs_that_ask.py
"""

import asyncio
import tempfile
from pathlib import Path

from cloister import Cloister, CompleteOptions, SpawnOptions, tool
from cloister.threads.models import ModelRegistry

# Answers from a file, so that this runs without a key. With one it is "openai:..." or "anthropic:...".
SCRIPT = """
answers:
  - - {when: late, text: angry, usage: {input_tokens: 14, output_tokens: 1}}
    - {text: pleased, usage: {input_tokens: 13, output_tokens: 2}}
"""
# What the child is given is somebody else's code: it may look at tickets, and at nothing else.
PROGRAM = """
import asyncio
tickets = await list_tickets()
moods = await asyncio.gather(*[complete(f"One word for the mood: {text}") for text in tickets])
told = await spawn("len(await list_tickets()) + await refund(ticket=1)", tools=["list_tickets"])
[moods, told["status"], told["error"]["message"]]
"""


@tool(side_effect="read")
async def list_tickets() -> list[str]:
    """What customers have written."""
    return ["My order is late again!", "Thank you for the tea."]


@tool(side_effect="write", approval_policy="manual")
async def refund(ticket: int) -> str:
    """Give the money back."""
    return f"refunded {ticket}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "moods.yaml").write_text(SCRIPT)
        complete = CompleteOptions("scripted:moods.yaml", max_calls=10, max_output_tokens=20)
        spawn = SpawnOptions(max_children=2)
        async with (
            ModelRegistry(base=Path(folder)) as models,
            Cloister(tools=[list_tickets, refund], models=models, complete=complete, spawn=spawn) as cloister,
        ):
            session = await cloister.open_session()
            result = await session.run(PROGRAM)
            moods, status, error = result.result
            print("moods:", moods)
            print(f"the child {status}: {error}")
            for call in result.external_calls:
                print(call.name, call.status.value, *([call.usage["output_tokens"]] if call.usage else []))


asyncio.run(main())
