"""A client of a server: a thread whose model writes a program, a tool of the client's own, and every event once.

Needs the extra: pip install 'cloister[server]'. The model is scripted; any other is named the same way.

Run it: python examples/25_client.py
"""

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from cloister import DynamicToolCallResult, DynamicToolSpec, ThreadParams, TurnParams
from cloister.client import Client

ANSWERS = """
answers:
  - text: I ask the shop.
    exec: |
      from shop import price
      3 * int(await price(item="tea"))
  - expect: "1350"
    text: Three packets of tea are 1350 cents.
"""
SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
PRICE = DynamicToolSpec("price", namespace="shop", description="What an item costs, in cents.", input_schema=SCHEMA)


def main(place: Path) -> None:
    (place / "answers.yaml").write_text(ANSWERS)
    model, store = f"scripted:{place}/answers.yaml", f"sqlite:///{place}/cloister.db"
    command = ["serve", "--port", "0", "--model", model, "--store", store, "--json"]
    server = subprocess.Popen(
        [sys.executable, "-m", "cloister.cli", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with server, ExitStack() as at_the_end:
        at_the_end.callback(server.terminate)
        assert server.stdout is not None
        # The token is where `cloister serve` has put it: nothing to set on one machine.
        client = at_the_end.enter_context(Client(json.loads(server.stdout.readline())["url"]))
        thread = client.threads.create(ThreadParams(title="Prices", dynamic_tools=(PRICE,)))
        turn = client.threads.turn(thread.id, TurnParams("Three packets of tea?", operation_key="q-1")).turn
        with client.events(thread_id=thread.id) as events:
            for event in events:
                if event.event == "tool_call.requested":
                    print("asked of us:", event.payload["tool"], event.payload["arguments"])
                    result = DynamicToolCallResult(True, ({"type": "input_text", "text": "450"},))
                    client.threads.answer(thread.id, turn.id, event.payload["call_id"], result)
                elif event.event == "turn.completed":
                    break
        print("it says:", client.threads.get(thread.id).items[-1].detail.text)


with tempfile.TemporaryDirectory() as folder:
    main(Path(folder))
