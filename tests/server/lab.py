"""A real server on loopback, in a thread of this process, and clients for it."""

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx2

from cloister import CellLimits, Cloister, tool
from cloister.core.serving import ServerLimits
from cloister.server import Exposure, Ready, Scope, Service, Token, TokenBook, serve
from cloister.threads import OpenTurn, TurnEnd
from tests.threads.lab import Plain

Work: TypeAlias = Callable[[OpenTurn], Awaitable[TurnEnd]]
ADMIN, RUNNER, APPROVER, OTHER = "admin-" + "a" * 20, "runner-" + "b" * 20, "approver-" + "c" * 20, "other-" + "d" * 20


@tool(side_effect="read")
async def get_order(order_id: str) -> dict[str, int]:
    """Look up an order."""
    return {"size": len(order_id)}


@tool(side_effect="write", approval_policy="manual")
async def refund(order_id: str, amount: int) -> str:
    """Give the money back."""
    return f"paid {amount} for {order_id}"


@tool(side_effect="write")
async def pay(card: str) -> str:
    """Pay with a card."""
    return f"paid with {len(card)} characters"


def book() -> TokenBook:
    def sha(shown: str) -> str:
        return hashlib.sha256(shown.encode()).hexdigest()

    return TokenBook(
        {
            sha(ADMIN): Token("admin", "default", frozenset({Scope.ADMIN})),
            sha(RUNNER): Token("runner", "default", frozenset({Scope.RUN})),
            sha(APPROVER): Token("approver", "default", frozenset({Scope.APPROVE})),
            sha(OTHER): Token("other", "acme", frozenset({Scope.ADMIN})),
        },
        configured=True,
        origin="the tests",
    )


@dataclass
class Running:
    url: str
    service: Service
    loop: asyncio.AbstractEventLoop

    def client(self, token: str | None = ADMIN, **given: Any) -> httpx2.Client:
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        return httpx2.Client(base_url=self.url, headers=headers | given.pop("headers", {}), timeout=30, **given)

    def async_client(self, token: str = ADMIN, **given: Any) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=30, **given)


@contextmanager
def running(
    store: str,
    *,
    limits: ServerLimits | None = None,
    cells: CellLimits | None = None,
    tools: Iterable[object] = (get_order, refund, pay),
    drivers: Mapping[str, Work] | None = None,
    **given: Any,
) -> Generator[Running, None, None]:
    started = threading.Event()
    found: list[Running] = []
    broken: list[BaseException] = []
    stops: list[Callable[[], object]] = []

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        cloister = Cloister(tools=tools, store=store, workers=2, cells=cells, **given)
        for kind, work in (drivers or {}).items():
            cloister.threads.drive(kind, Plain(work))
        service = Service(cloister, book(), Exposure(port=0), limits)

        def ready(where: Ready) -> None:
            found.append(Running(where.url, service, loop))
            started.set()

        await serve(service, ready, stop)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            broken.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(60)
    try:
        if not found:
            raise AssertionError("the server did not start") from (broken[0] if broken else None)
        yield found[0]
    finally:
        for stop in stops:
            stop()
        thread.join(60)
        assert not thread.is_alive()
        assert not broken, broken
