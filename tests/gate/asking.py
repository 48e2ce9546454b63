"""What the tests of approvals share: a clock that is moved by hand, a desk, and questions for it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from cloister.core.approval import Approval, Approver
from cloister.core.capability import SideEffect
from cloister.core.ids import IdSource
from cloister.gate.approvals import ApprovalDesk
from cloister.gate.archive import MOST_KEPT
from cloister.tools.rule import Facts

START_MS = 1_763_294_400_000


class HandClock:
    """Time that passes when a test says so; whoever sleeps wakes when it has."""

    def __init__(self) -> None:
        self.ms = START_MS
        self._asleep: list[tuple[int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asleep.append((self.ms + round(seconds * 1000), future))
        try:
            await future
        finally:
            self._asleep = [sleeper for sleeper in self._asleep if sleeper[1] is not future]

    def advance(self, ms: int) -> None:
        self.ms += ms
        for due, future in self._asleep:
            if due <= self.ms and not future.done():
                future.set_result(None)

    @property
    def alarms(self) -> list[int]:
        """For when those who sleep want to be woken, in milliseconds from the start."""
        return sorted(due - START_MS for due, _ in self._asleep)


class Heard:
    """A listener: what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, Mapping[str, Any]]] = []

    def __call__(self, kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        self.events.append((kind, session_id, data))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.events]


def a_desk(
    clock: HandClock | None = None,
    *,
    approver: Approver | None = None,
    ttl_ms: int | None = None,
    emit: Callable[[str, str, Mapping[str, Any]], None] | None = None,
    most_kept: int = MOST_KEPT,
) -> ApprovalDesk:
    clock = clock or HandClock()
    ids = IdSource(clock.now_ms)
    return ApprovalDesk(clock, ids, approver=approver, ttl_ms=ttl_ms, emit=emit, most_kept=most_kept)


def ask(
    desk: ApprovalDesk,
    *,
    session_id: str = "shop",
    capability: str = "refund",
    arguments: Any = None,
    request_digest: str = "request",
    terms: str = "terms",
    arguments_digest: str = "arguments",
) -> Approval:
    return desk.ask(
        session_id=session_id,
        cell_id="cel_1",
        call_id="cal_1",
        capability=capability,
        arguments={"amount": 250} if arguments is None else arguments,
        side_effect=SideEffect.WRITE,
        reason="the rule `args.amount < 100` is false: args.amount is 250",
        request_digest=request_digest,
        terms=terms,
        arguments_digest=arguments_digest,
    )


def facts(arguments: Any, *, name: str = "refund", session_id: str = "shop") -> Facts:
    return Facts(
        name=name,
        namespace=None,
        args=arguments,
        side_effect="write",
        idempotent=False,
        session_id=session_id,
        labels={},
        language="python",
        calls_count=0,
        calls_by_name={},
    )


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)
