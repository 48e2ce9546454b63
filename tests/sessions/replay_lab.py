"""What replays are shown with: a host with a store, tools that count what they do, and a store to tamper with."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, Session, Tool, ToolError, Yielded, tool
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Batch, Write
from cloister.stores.sqlite import SqliteStore

KEY = b"k" * 32
both = pytest.mark.parametrize("language", ["python", "typescript"])
# How each language writes what the tests say in both.
PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "sequence": {
        "python": """
import random
from datetime import datetime
got = []
for i in range(3):
    got.append(await pay(i))
    print('paid', i)
    text({'at': datetime.now().isoformat()})
store('got', got)
[got, random.random(), datetime.now().isoformat(), load('got')]
""",
        "typescript": """
let got: any[] = []
for (let i = 0; i < 3; i++) {
  got.push(await pay({n: i}))
  console.log('paid', i)
  text({at: Date.now()})
}
store('got', got);
[got, Math.random(), Date.now(), load('got')]
""",
    },
    "nested": {
        "python": """
async def inner(n):
    return [await pay(n), await look(n + 1)]
async def outer(n):
    first, second = await asyncio.gather(inner(n), inner(n + 10))
    return [first, second, await look(n + 20)]
import asyncio
await outer(100)
""",
        "typescript": """
async function inner(n: number) { return [await pay({n}), await look({n: n + 1})] }
async function outer(n: number) {
  const [first, second] = await Promise.all([inner(n), inner(n + 10)])
  return [first, second, await look({n: n + 20})]
}
await outer(100)
""",
    },
    # They settle as the host lets them, not as they were made.
    "race": {
        "python": """
import asyncio
order = []
async def one(n):
    order.append(await turn(n))
await asyncio.gather(one(1), one(2), one(3), asyncio.sleep(0.01), pay(4))
order
""",
        "typescript": """
const order: any[] = []
async function one(n: number) { order.push(await turn({n})) }
await Promise.all([one(1), one(2), one(3), new Promise(d => setTimeout(d, 10)), pay({n: 4})])
order
""",
    },
    "asking": {
        "python": """
got = [await ask(1)]
try:
    got.append(await ask(2))
except RuntimeError as e:
    got.append(str(e))
got
""",
        "typescript": """
let got: any[] = [await ask({n: 1})]
try { got.push(await ask({n: 2})) } catch (e: any) { got.push(e.code + e.message) }
got
""",
    },
    "caught": {
        "python": """
async def safe(made):
    try:
        return await made
    except RuntimeError as e:
        return str(e)
[await safe(flop(1)), await safe(pay('x')), len(await list_tools()), (await current_policy())['calls'],
 await safe(describe_tool('pay'))]
""",
        "typescript": """
async function safe(made: Promise<any>) { try { return await made } catch (e: any) { return e.code + e.message } }
[await safe(flop({n: 1})), await safe(pay({n: 'x'} as any)), (await list_tools()).length,
 (await current_policy()).calls, await safe(describe_tool({name: 'pay'}))]
""",
    },
    "fail": {
        "python": "x = await pay(1)\nprint('so far')\nstore('k', x)\nraise ValueError('on purpose')",
        "typescript": "let x = await pay({n: 1}); console.log('so far'); store('k', x); throw new Error('on purpose')",
    },
    "flop": {"python": "await flop(1)", "typescript": "await flop({n: 1})"},
    "many": {
        "python": "for i in range(100):\n    await pay(i)",
        "typescript": "for (let i = 0; i < 100; i++) await pay({n: i})",
    },
    "unknown": {
        "python": "try:\n    r = await turn(1)\nexcept RuntimeError as e:\n    r = str(e)[:15]\n[r, await pay(2)]",
        "typescript": "let r; try { r = await turn({n: 1}) } catch (e: any) { r = e.code }\n[r, await pay({n: 2})]",
    },
    "turn": {"python": "[await turn(1), await pay(2)]", "typescript": "[await turn({n: 1}), await pay({n: 2})]"},
    "loop": {
        "python": "await pay(1)\nyield_control()\nwhile True:\n    pass",
        "typescript": "await pay({n: 1}); yield_control(); while (true) {}",
    },
    "define": {
        "python": "import random\nx = [random.random()]\ndef twice(n):\n    return [n, n]\nstore('y', 1)",
        "typescript": "let x = [Math.random()]; function twice(n: any) { return [n, n] }; store('y', 1)",
    },
    "use": {"python": "[twice(x), load('y'), await pay(7)]", "typescript": "[twice(x), load('y'), await pay({n: 7})]"},
    "empty": {"python": "await pay(1)\n''", "typescript": "await pay({n: 1}); ''"},
}


class World:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "store.db"
        self.done: list[str] = []
        self.entered: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.turns: dict[int, asyncio.Event] = defaultdict(asyncio.Event)

        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Pay."""
            self.done.append(f"pay {n}")
            return f"paid {n}"

        @tool(side_effect="read")
        async def look(n: int) -> int:
            """Look."""
            self.done.append(f"look {n}")
            return n * 2

        @tool(side_effect="write", idempotent=False)
        async def turn(n: int) -> int:
            """Wait for its turn."""
            self.done.append(f"turn {n}")
            self.entered[n].set()
            await self.turns[n].wait()
            return n

        @tool(side_effect="write", idempotent=False)
        async def flop(n: int) -> str:
            """Fail."""
            self.done.append(f"flop {n}")
            raise ToolError("FLOPPED", "on purpose")

        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def ask(n: int) -> str:
            """Ask first."""
            self.done.append(f"ask {n}")
            return f"allowed {n}"

        self.tools: list[Tool] = [pay, look, turn, flop, ask]

    def open(self, path: Path | None = None, **options: Any) -> Cloister:
        given: dict[str, Any] = {"tools": self.tools, "snapshot_key": KEY, "workers": 2, **options}
        return Cloister(store=f"sqlite://{path or self.path}", **given)

    async def write(self, *writes: Write) -> None:
        """Behind everybody's back."""
        async with SqliteStore(self.path, clock=SystemClock()) as store:
            await store.write(Batch(writes))


async def ended(session: Session, cell_id: str) -> Any:
    async with asyncio.timeout(60):
        while isinstance(seen := await session.wait(cell_id), Yielded):
            pass
    return seen
