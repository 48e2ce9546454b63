"""Cells that go on while nobody looks: when one ends, or asks a person something, its thread hears of it, once.

A cell is watched from when its model was told that it goes on. What is told is an input of the thread under an id of
the cell's own, so that the same is not told twice, also after a restart; of a cell that somebody observes, or whose end
has been read, nothing is told: whoever did so knows.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from cloister.core.cell import CellState
from cloister.core.errors import CloisterError
from cloister.core.item import CellRun
from cloister.ports.store import Store
from cloister.sessions.direct_rows import is_direct
from cloister.sessions.session import Session
from cloister.threads.rows import all_items

log = logging.getLogger("cloister.threads")
_ENDS = ("cell.completed", "cell.terminated")
_ENDED = frozenset({CellState.COMPLETED, CellState.FAILED, CellState.TERMINATED, CellState.INTERRUPTED})

# A thread, what is told, under which id, of which cell.
Tell = Callable[[str, str, str, str], Awaitable[None]]


class Background:
    """Of one host. Event loop only."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        # By session, the threads of its cells.
        self._cells: dict[str, dict[str, str]] = {}
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    def watch(self, session: Session, cell_id: str, thread_id: str) -> None:
        self._cells.setdefault(session.id, {})[cell_id] = thread_id
        if session.id not in self._listening:
            task = asyncio.get_running_loop().create_task(self._listen(session), name=f"cells of {session.id}")
            self._listening[session.id] = task
        else:
            # It may have ended before anybody listened.
            self.soon(self._look(session, cell_id), thread_id)

    def soon(self, work: Coroutine[Any, Any, None], thread_id: str) -> None:
        """Something that a thread does by itself."""
        task = asyncio.get_running_loop().create_task(self._try(work, thread_id), name=f"for {thread_id}")
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _try(self, work: Coroutine[Any, Any, None], thread_id: str) -> None:
        try:
            await work
        except CloisterError as error:
            log.warning("thread %s does not go on by itself: %s", thread_id, error)

    async def watch_again(self, store: Store, session: Session, thread_id: str) -> None:
        """After a restart: those of a thread that a model was told go on, and whose end nobody has read."""
        rows = await store.cells(session.id, live=True)
        mine = {row.id for row in rows if row.thread_id == thread_id and not is_direct(row)}
        for item in await all_items(store, thread_id) if mine else ():
            detail = item.detail
            if isinstance(detail, CellRun) and detail.cell_id in mine and item.status.is_final:
                self.watch(session, detail.cell_id, thread_id)

    def leave(self, session_id: str, cell_id: str) -> None:
        """Somebody else looks after it."""
        self._cells.get(session_id, {}).pop(cell_id, None)

    async def close(self) -> None:
        tasks = [*self._listening.values(), *self._others]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _listen(self, session: Session) -> None:
        try:
            async with session.events() as events:
                for cell_id in list(self._cells.get(session.id, {})):
                    await self._look(session, cell_id)
                while self._cells.get(session.id):
                    event = await anext(events, None)
                    if event is None:
                        break
                    if event.kind == "events.missed":
                        for cell_id in list(self._cells.get(session.id, {})):
                            await self._look(session, cell_id)
                    else:
                        await self._heard(session, event.kind, event.data)
        except CloisterError as error:
            log.warning("the cells of session %s are not watched any more: %s", session.id, error)
        finally:
            self._listening.pop(session.id, None)
            if not session.closed and self._cells.get(session.id):
                # One has come in the very moment in which this one stopped.
                task = asyncio.get_running_loop().create_task(self._listen(session), name=f"cells of {session.id}")
                self._listening[session.id] = task
            else:
                self._cells.pop(session.id, None)

    async def _heard(self, session: Session, kind: str, data: Mapping[str, Any]) -> None:
        cell_id = data.get("cell_id")
        thread_id = self._cells.get(session.id, {}).get(str(cell_id))
        if thread_id is None or not isinstance(cell_id, str):
            return
        if kind in _ENDS:
            await self._look(session, cell_id)
        elif kind == "approval.required":
            await self._asks(thread_id, cell_id, str(data["id"]), str(data["capability"]))

    async def _look(self, session: Session, cell_id: str) -> None:
        """Tell of it if there is something to tell."""
        thread_id = self._cells.get(session.id, {}).get(cell_id)
        if thread_id is None:
            return
        info = next((one for one in await session.cells() if one.id == cell_id), None)
        if info is None or info.state in _ENDED:
            self._cells[session.id].pop(cell_id, None)
        if info is None or info.observed:
            return
        if info.state in _ENDED:
            said = f"[{info.state}] Cell {cell_id}, which went on, has ended. `wait` for it tells what came of it."
            await self._tell(thread_id, said, f"{cell_id}:ended", cell_id)
        for approval_id in info.approvals:
            await self._asks(thread_id, cell_id, approval_id, None)

    async def _asks(self, thread_id: str, cell_id: str, approval_id: str, capability: str | None) -> None:
        what = f" `{capability}`" if capability else " a call"
        said = f"[waiting_for_approval] Cell {cell_id} waits for a person to allow{what}. It goes on by itself."
        await self._tell(thread_id, said, f"{cell_id}:{approval_id}", cell_id)
