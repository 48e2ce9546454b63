# pyright: reportPrivateUsage=false, reportUnusedImport=false
"""The process that is killed: a host with a store, which goes on with whatever it finds there until its plan is done.

    python -m tests.crash.child run DIRECTORY ACK_FD        with its orders in the environment, see `Orders`
    python -m tests.crash.child nursery SOCKET_FD           has all imports done and forks such processes on request

What it was told, it says on its pipe before it goes on. It knows how far the plan is from the store alone.
"""

import asyncio
import importlib
import json
import logging
import os
import socket
import sys
import traceback
from collections.abc import Mapping
from functools import partialmethod
from typing import Any

from cloister import (
    Approval,
    ApprovalClosed,
    CallContext,
    CapabilityLimits,
    CellNotFound,
    Cloister,
    CloisterError,
    Event,
    ExternalCallRecord,
    RunResult,
    Session,
    SessionExists,
    SessionLimits,
    ToolError,
    tool,
)
from cloister.core.cell import CellLimits
from cloister.core.errors import StoreError
from cloister.core.wire import from_json
from cloister.sessions.ledger import Ledger
from tests.crash.plans import FIFTY, HELD, PLANS, Script
from tests.crash.points import Points


class Host:
    def __init__(self, directory: str, ack_fd: int, orders: Mapping[str, str]) -> None:
        self.directory = directory
        self.ack_fd = ack_fd
        self.orders = orders
        self.points = Points(orders.get("CRASH_AT"))
        self._effects = os.open(f"{directory}/effects", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def ack(self, what: str, **said: Any) -> None:
        os.write(self.ack_fd, json.dumps({"what": what, **said}).encode() + b"\n")

    def heard(self, event: Event) -> None:
        self.ack("event", seq=event.seq, kind=event.kind, session=event.session_id)

    # -- tools -------------------------------------------------------------------------------------------------

    def effect(self, name: str, n: int, ctx: CallContext) -> None:
        self.points.hit("before:tool")
        os.write(self._effects, f"{name} {n} {ctx.idempotency_key} {os.getpid()}\n".encode())
        os.fsync(self._effects)
        self.points.hit("after:tool")

    def tools(self) -> list[Any]:
        effect = self.effect

        @tool(side_effect="write", idempotent=False)
        async def pay(n: int, ctx: CallContext) -> str:
            """Once and no more."""
            effect("pay", n, ctx)
            await asyncio.sleep(0.001)
            return f"paid {n}"

        @tool(side_effect="write", idempotent=False, limits=CapabilityLimits(timeout_ms=120_000))
        async def slow(n: int, ctx: CallContext) -> str:
            """Once, and so slowly that its program sleeps meanwhile."""
            await asyncio.sleep(0.02)
            effect("slow", n, ctx)
            self.ack("effect", n=n)
            await asyncio.sleep(0.03)
            while "CRASH_HOLD" in self.orders and not os.path.exists(f"{self.directory}/go"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return f"paid {n}"

        @tool(side_effect="write", idempotent=False)
        async def flop(n: int, ctx: CallContext) -> str:
            """Does something and says that it failed."""
            effect("flop", n, ctx)
            raise ToolError("FLOPPED", "on purpose")

        @tool(side_effect="read")
        async def look(n: int, ctx: CallContext) -> int:
            """Harmless."""
            effect("look", n, ctx)
            return n * 2

        @tool(side_effect="write", idempotent=True)
        async def put(n: int, ctx: CallContext) -> str:
            """May be done again."""
            effect("put", n, ctx)
            await asyncio.sleep(0.001)
            return f"put {n}"

        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def ask(n: int, ctx: CallContext) -> str:
            """Once, if a person says so."""
            effect("ask", n, ctx)
            return f"paid {n}"

        @tool(side_effect="write", idempotent=True, approval_policy="manual")
        async def askput(n: int, ctx: CallContext) -> str:
            """As often as needed, if a person says so."""
            effect("askput", n, ctx)
            return f"put {n}"

        return [pay, slow, flop, look, put, ask, askput]

    # -- the host ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self.points.install()
        if lease := self.orders.get("CRASH_LEASE_MS"):
            Ledger.__init__ = partialmethod(Ledger.__init__, lease_ms=int(lease))  # type: ignore[method-assign]
        made = Cloister(
            tools=self.tools(),
            store=self.orders.get("CRASH_STORE")
            or f"sqlite://{self.directory}/store.db?synchronous={self.orders.get('CRASH_SYNC', 'full')}",
            cells=CellLimits(hibernate_after_ms=15),
            on_event=self.heard,
            workers=2,
            limits=SessionLimits(max_external_calls=64),
        )
        async with made as host:
            report = await host.recovery_report()
            self.ack(
                "opened",
                cells={cell.cell_id: cell.outcome for cell in report.cells},
                elsewhere=report.elsewhere,
            )
            plan = (PLANS | HELD | FIFTY)[self.orders["CRASH_PLAN"]]
            async with asyncio.TaskGroup() as group:
                for session_id, script in plan.items():
                    group.create_task(self.session(host, session_id, script))
            mine = [session_id for session_id in plan if host.find(session_id) is not None]
            self.ack("final", state={session_id: await self.state(host, session_id) for session_id in mine})
        self.ack("left", points=dict(self.points.counts))

    async def session(self, host: Cloister, session_id: str, script: Script) -> None:
        try:
            wait_ms = int(self.orders.get("CRASH_WAIT_MS", "0"))
            session = await host.open_session(session_id, language=script.language, wait_ms=wait_ms)
        except SessionExists as refusal:
            self.ack("refused", session=session_id, message=str(refusal))
            return
        try:
            await self.go_on(host, session, script)
        except StoreError as error:
            self.ack("trouble", session=session_id, code=error.code)

    async def go_on(self, host: Cloister, session: Session, script: Script) -> None:
        session_id = session.id
        store = host._ledger.store  # type: ignore[union-attr]
        rows = await store.cells(session_id)
        self.ack("found", session=session_id, cells=[[row.id, row.state] for row in rows])
        begun = [row.id for row in rows]
        at = 0
        for number, group in enumerate(script.groups):
            for step in group:
                if at == len(begun):
                    seen = await session.exec(step.code, yield_ms=0, isolated=step.isolated)
                    self.ack("began", session=session_id, cell=seen.cell_id)
                    begun.append(seen.cell_id)
                at += 1
            some = begun[at - len(group) : at]
            await asyncio.gather(*(self.tend(host, session, cell_id) for cell_id in some))
            key = f"host.{number}"
            if await session.values.get(key) is None:
                await session.values.set(key, {"group": number})
                self.ack("value", session=session_id, key=key, value={"group": number})
            path = f"/host/{number}"
            if script.files and not await session.files.exists(path):
                await session.files.write(path, f"group {number}")
                self.ack("file", session=session_id, path=path, text=f"group {number}")

    async def tend(self, host: Cloister, session: Session, cell_id: str) -> None:
        """Until the cell has ended. One whose end was read in another life is not there."""
        while True:
            try:
                seen = await session.wait(cell_id, yield_ms=5_000)
            except CellNotFound:
                return
            if seen.status == "waiting_for_approval":
                for approval in seen.approvals:
                    await self.answer(host, cell_id, approval)
            elif seen.status != "yielded":
                error = getattr(seen, "error", None)
                self.ack(
                    "end",
                    cell=cell_id,
                    status=seen.status,
                    result=getattr(seen, "result", None),
                    error=error.code if error is not None else None,
                )
                return

    async def answer(self, host: Cloister, cell_id: str, approval: Any) -> None:
        n = approval.arguments["n"]
        decision = "deny" if n % 3 == 0 else "allow"
        self.ack("pending", approval=approval.id, cell=cell_id, n=n)
        try:
            await host.decide(approval.id, decision)
        except ApprovalClosed:
            return
        self.ack("decided", approval=approval.id, cell=cell_id, n=n, decision=decision)

    async def state(self, host: Cloister, session_id: str) -> dict[str, Any]:
        store = host._ledger.store  # type: ignore[union-attr]
        cells = [_told(row.state, row.doc.get("result")) for row in await store.cells(session_id)]
        values = {row.key: row.value for row in await store.values(session_id)}
        session = host.session(session_id)
        files = {
            entry.path: await session.files.read_text(entry.path) if entry.kind == "file" else None
            for entry in await session.files.list(recursive=True)
        }
        return {"cells": cells, "values": values, "here": await session.values.all(), "files": files}


def _told(state: str, result: Any) -> list[Any]:
    """How a cell ended, without what differs from run to run."""
    if result is None:
        return [state, None, None]
    error = result.get("error")
    return [state, result.get("result"), error and error["code"]]


def _serve(directory: str, ack_fd: int, orders: Mapping[str, str]) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    try:
        asyncio.run(Host(directory, ack_fd, orders).run())
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _warm_up() -> None:
    """What a host would import and make when it first needs it: half of what a short life takes."""
    importlib.import_module("jsonschema_rs")
    for kind in (RunResult, Approval, SessionLimits, ExternalCallRecord):
        try:
            from_json(kind, {})
        except CloisterError:
            pass


def _nursery(fd: int) -> None:
    """One at a time: a request with the pipe's end, its process id, and how it ended once it has."""
    _warm_up()
    with socket.socket(fileno=fd) as wire:
        while True:
            said, fds, _, _ = socket.recv_fds(wire, 1 << 16, 1)
            if not said:
                return
            request = json.loads(said)
            if (pid := os.fork()) == 0:
                wire.close()
                log = os.open(f"{request['directory']}/log", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
                os.dup2(log, 2)
                code = _serve(request["directory"], fds[0], request["orders"])
                sys.stderr.flush()
                os._exit(code)
            os.close(fds[0])
            wire.send(json.dumps({"pid": pid}).encode())
            _, status = os.waitpid(pid, 0)
            wire.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())


if __name__ == "__main__":
    if sys.argv[1] == "nursery":
        _nursery(int(sys.argv[2]))
    else:
        sys.exit(_serve(sys.argv[2], int(sys.argv[3]), os.environ))
