"""A tool that a person must be asked about, and what it did."""

import asyncio
from typing import Any

from cloister import CapabilityLimits, Tool


class Till:
    """`refund(order_id, amount)` pays out, once for each time it is called."""

    def __init__(self, approval_policy: Any = "manual", *, name: str = "refund", idempotent: bool = False) -> None:
        self.paid: list[tuple[str, int]] = []
        self.used = asyncio.Event()
        self.tool = Tool(
            self._refund,
            name=name,
            side_effect="write",
            idempotent=idempotent,
            approval_policy=approval_policy,
            limits=CapabilityLimits(timeout_ms=60_000),
        )

    async def _refund(self, order_id: str, amount: int = 10) -> str:
        """Give the money back."""
        self.paid.append((order_id, amount))
        self.used.set()
        return f"paid {amount} for {order_id}"
