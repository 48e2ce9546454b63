"""`cloister mcp` in a process of its own, driven by the official client."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, cast

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult, ImageContent, ResourceLink, TextContent

ROOT = Path(__file__).parents[2]
ERAS = ("legacy", "auto")

TOOLS = '''
    import asyncio
    from pathlib import Path

    from cloister import tool

    print("this must not reach the protocol")


    @tool(side_effect="read")
    async def get_order(order_id: str) -> dict[str, int]:
        """Look up an order."""
        print("neither must this")
        return {"size": len(order_id)}


    @tool(side_effect="write", approval_policy="manual")
    async def refund(order_id: str, amount: int) -> str:
        """Give the money back."""
        with open("paid", "a") as paid:
            print(order_id, amount, file=paid)
        return f"paid {amount}"


    @tool
    async def rest(began: str, cancelled: str) -> None:
        """Never returns; says when it began and when it was cancelled."""
        Path(began).write_text("began")
        try:
            await asyncio.Event().wait()
        finally:
            Path(cancelled).write_text("cancelled")


    @tool
    def gate(pipe: str) -> str:
        """What somebody writes."""
        return Path(pipe).read_text()
'''


@dataclass(frozen=True)
class Lab:
    place: Path

    def __post_init__(self) -> None:
        (self.place / "shop.py").write_text(dedent(TOOLS))

    def parameters(self, words: Sequence[str], variables: dict[str, str] | None = None) -> StdioServerParameters:
        env = {"PYTHONPATH": str(ROOT / "src"), "CLOISTER_DATA_DIR": str(self.place / "data"), **(variables or {})}
        args = ["-m", "cloister.cli", "mcp", *words]
        return StdioServerParameters(command=sys.executable, args=args, env=env, cwd=self.place)

    @asynccontextmanager
    async def client(
        self, *words: str, env: dict[str, str] | None = None, shop: bool = True, **given: Any
    ) -> AsyncGenerator[Client]:
        """The official client, connected to a server that was started for it."""
        words = ("--tools", "shop", *words) if shop else words
        with open(os.devnull, "w") as errors:
            transport = stdio_client(self.parameters(words, env), errlog=errors)
            async with Client(transport, **given) as client:
                yield client

    def pipe(self, name: str) -> Path:
        """A named pipe: whoever reads it waits for whoever writes."""
        made = self.place / name
        os.mkfifo(made)
        return made

    @property
    def store(self) -> str:
        return f"sqlite:///{self.place}/cloister.db"


def data(result: CallToolResult) -> dict[str, Any]:
    found: object = result.structured_content
    assert isinstance(found, dict)
    return cast("dict[str, Any]", found)


def text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def images(result: CallToolResult) -> list[ImageContent | ResourceLink]:
    return [block for block in result.content if isinstance(block, (ImageContent, ResourceLink))]


async def heard(pipe: Path) -> str:
    return await asyncio.to_thread(pipe.read_text)


async def run(client: Client, code: str, **given: Any) -> dict[str, Any]:
    return data(await client.call_tool("exec", {"code": code, **given}))
