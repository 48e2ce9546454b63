"""The tools of the tour. Each takes a moment, and counts how often it was called."""

import asyncio
import os
from collections import Counter as Tally
from pathlib import Path

from cloister.tools import Tool, tool

CALL_MS = 100
_PRICES = {"tea": 450, "honey": 790, "bread": 320, "olives": 610, "salt": 90}


class Shop:
    """Three tools and what happened to them."""

    def __init__(self) -> None:
        self.calls: Tally[str] = Tally()

    def tools(self) -> list[Tool]:
        @tool(side_effect="read")
        async def get_price(item: str) -> int:
            """The price of an item in cents."""
            self.calls["get_price"] += 1
            await asyncio.sleep(CALL_MS / 1000)
            return _PRICES[item]

        @tool(side_effect="write", idempotent=False)
        async def refund(order_id: str, cents: int) -> bool:
            """Give money back."""
            self.calls["refund"] += 1
            return True

        return [get_price, refund]


class Desk:
    """A manager who is asked, and answers when told to: `asked` is set when the question is in."""

    def __init__(self, answer: str, *, at_once: bool) -> None:
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self._answer = answer
        if at_once:
            self.answers.set()

    def tools(self) -> list[Tool]:
        @tool(side_effect="read")
        async def ask_manager(question: str) -> str:
            """A manager's answer. May take a day."""
            self.asked.set()
            await self.answers.wait()
            return self._answer

        return [ask_manager]


class Bank:
    """Gives money back if a person allows it, and only for the right token. `told` is what it was really given."""

    TOKEN = "tok_4f9a2c71d0"  # noqa: S105 - nobody's

    def __init__(self) -> None:
        self.told: list[str] = []

    def tools(self) -> list[Tool]:
        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def refund(order_id: str, cents: int, token: str) -> str:
            """Give money back."""
            self.told.append(token)
            return f"{order_id}: {cents} cents, by the right of {token}"

        return [refund]


class Counter:
    """Takes money and gives it back. What it did is in a file, whichever process did it, and survives them all."""

    def __init__(self, disk: Path) -> None:
        self._book = disk / "book"

    def made(self) -> list[str]:
        return self._book.read_text().splitlines() if self._book.exists() else []

    def tools(self) -> list[Tool]:
        @tool(side_effect="write", idempotent=False)
        async def charge(order_id: str, cents: int) -> str:
            """Take money, once."""
            self._write(f"charge {order_id}")
            return f"charged {cents} cents"

        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def refund(order_id: str, cents: int) -> str:
            """Give money back, once, if a person allows it."""
            self._write(f"refund {order_id}")
            return f"gave {cents} cents back"

        return [charge, refund]

    def _write(self, line: str) -> None:
        with open(os.open(self._book, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "w") as book:
            book.write(f"{line}\n")
            book.flush()
            os.fsync(book.fileno())
