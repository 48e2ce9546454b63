"""The children that programs start: opened under the terms of their parents, ended with them, swept up after a crash.

A child has no terms of its own, and none of the host's for all: it stands on the grounds of its parent, with the tools
that were named. Its calls are counted as its parent's, and rules take it for its parent.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from cloister.app.recovery import Recovery
from cloister.app.spawn import PREFIX, SpawnHost, check_spawn, spawn_tool
from cloister.app.terms import Terms
from cloister.core.durability import Durability
from cloister.core.errors import CloisterError
from cloister.core.limits import SessionLimits
from cloister.gate import ApprovalDesk
from cloister.ports.engine import TypeCheck
from cloister.ports.journal import Journal
from cloister.ports.model import Models
from cloister.ports.rows import CellRow, SessionRow
from cloister.sessions import Session
from cloister.sessions.abandoned import has_ended
from cloister.sessions.envelope import Envelope
from cloister.sessions.grounds import Grounds, SessionOptions
from cloister.sessions.ledger import Ledger
from cloister.threads.complete import check_complete, complete_tool
from cloister.tools.tool import Tool

if TYPE_CHECKING:
    from cloister.app.cloister import Cloister

log = logging.getLogger("cloister.app")
# By which a child is known to be one, and whose.
PARENT_LABEL = "cloister.parent"
CALL_LABEL = "cloister.call"
_WAIT_MS = 5_000
_PAGE = 200


class Spawning:
    """A part of `Cloister`: what programs may do with their host beside the tools that it gives them."""

    _ledger: Ledger | None
    _recovery: Recovery | None
    _sessions: dict[str, Session]
    _grounds: dict[str, Grounds]
    _models: Models | None
    _model: str | None
    _left: bool
    # Set when the host has been entered: what goes on before finds no child yet.
    _ready: asyncio.Event
    _forgetting: "set[asyncio.Task[None]]"
    _type_check: TypeCheck
    _desk: ApprovalDesk

    async def _add(
        self, options: SessionOptions, origin: Envelope | None, terms: Terms, kept: SessionRow | None = None
    ) -> Session:
        raise NotImplementedError

    def _free_id(self, session_id: object) -> str:
        raise NotImplementedError

    async def destroy_session(self, session_id: str) -> bool:
        raise NotImplementedError

    def _inside(self, complete: object, spawn: object, journals: Sequence[Journal]) -> list[Tool]:
        """Base tools, if they are switched on. Those of `journals` are there before any of these is called."""
        self._ready, self._forgetting = asyncio.Event(), set()
        made: list[Tool] = []
        if complete is not None:
            made.append(complete_tool(*check_complete(complete, self._models, self._model), journals))
        if spawn is not None:
            host = SpawnHost(
                parent=self._parent,
                open=self._open_child,
                cells=self._cells_of,
                end=self._end_child,
                forget=self._forget_child,
                is_going=lambda: self._left,
            )
            made.append(spawn_tool(check_spawn(spawn), host, journals))
        return made

    @staticmethod
    def _under(terms: Terms, grounds: Grounds) -> Grounds:
        """A child stands on what its parent does, but for its tools: nothing is looser for it."""
        parent, above = terms.parent, terms.above
        if parent is None or above is None:
            return grounds
        return replace(
            grounds,
            policy=above.policy,
            hooks=above.hooks.then(above.plugins.hooks),
            secrets=above.secrets,
            own_secrets=above.own_secrets,
            acts_for=above.acts_for or parent.id,
        )

    # -- the host comes and goes -----------------------------------------------------------------------------

    async def _look_around(self) -> None:
        await cast("Cloister", self).threads.resume()
        await self._sweep_children()

    async def _sweep_children(self) -> None:
        """Destroy children that a crash has left behind: those whose parent's cell has ended."""
        assert self._ledger is not None
        store, after = self._ledger.store, PREFIX
        while rows := await store.sessions(after=after, limit=_PAGE):
            for row in rows:
                after = row.id
                if not row.id.startswith(PREFIX):
                    return
                call = row.doc["labels"].get(CALL_LABEL)
                if call is None or row.id in self._sessions:
                    continue
                cell = await store.cell(call.rpartition("/")[0])
                if cell is None or has_ended(cell):
                    await self._end_child(row.id)

    async def _close_children(self) -> None:
        """What is under way of their ends is finished; the others are left for whoever comes next."""
        if self._forgetting:
            await asyncio.wait(self._forgetting)

    # -- one child -------------------------------------------------------------------------------------------

    async def _parent(self, session_id: str) -> Session:
        await self._ready.wait()
        return cast("Cloister", self).session(session_id)

    async def _open_child(
        self, parent: Session, child_id: str, tools: Sequence[Tool], limits: SessionLimits, call: str
    ) -> Session:
        known = self._sessions.get(child_id)
        if known is not None:
            return known
        above = self._grounds[parent.id]
        terms = Terms.child(tools, parent, above)
        level = Durability.NONE
        if self._ledger is not None and self._recovery is not None and parent.is_kept:
            found = await self._recovery.reopen(child_id, parent.language, None, terms, None, _WAIT_MS)
            if found is not None:
                return found
            level = Durability.CALL if self._ledger.keeps_calls(parent.id) else Durability.CELL
        options = SessionOptions(
            id=self._free_id(child_id),
            language=parent.language,
            limits=limits,
            type_check=self._type_check,
            title=f"started by {parent.id}",
            tenant=parent.meta().tenant,
            labels={**parent.labels, PARENT_LABEL: parent.id, CALL_LABEL: call},
            durability=level,
        )
        return await self._add(options, None, terms)

    async def _cells_of(self, session_id: str) -> Sequence[CellRow]:
        return await self._ledger.store.cells(session_id) if self._ledger is not None else ()

    async def _end_child(self, child_id: str) -> None:
        try:
            await self.destroy_session(child_id)
            # Of one that was never open here there may be questions all the same.
            self._desk.forget_session(child_id)
        except CloisterError as error:
            log.warning("the child %s could not be ended yet: %s", child_id, error)

    def _forget_child(self, child_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._end_child(child_id), name=f"end of {child_id}")
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)
