"""One cell, gone over again: its record read, its journal looked through, its program run once more."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from cloister.cells.seats import Seats
from cloister.core.errors import CannotReplay
from cloister.core.language import Language
from cloister.core.replay import ReplayReport
from cloister.ports.store import Store
from cloister.sessions.replay.audit import audit
from cloister.sessions.replay.past import Past, read_past
from cloister.sessions.replay.play import Player

FindSeats: TypeAlias = Callable[[Language], Awaitable[Seats]]


async def replay_cell(store: Store, seats: FindSeats, cell_id: str) -> ReplayReport:
    """Whether the cell does again what it did. Raises `CellNotFound`, and `CannotReplay` where that cannot be told."""
    past = await read_past(store, cell_id)
    diverged = audit(past)
    if diverged is not None:
        return ReplayReport(past.cell_id, past.session_id, past.language, 0, 0, diverged)
    start = past.start
    if start is None:
        error = past.result.get("error")
        why = error["message"] if error is not None else str(past.state)
        return ReplayReport(past.cell_id, past.session_id, past.language, 0, 0, None, f"it never ran: {why}")
    found = await seats(past.language)
    _check_engine(past, start.engine, found.engine.version)
    player = Player(past, start)
    interpreter = await found.open(past.bounds, start.image, start.seed, owner=past.cell_id)
    try:
        diverged = await player.play(interpreter)
    finally:
        await found.give_back(interpreter)
    return ReplayReport(
        past.cell_id, past.session_id, past.language, player.steps, player.calls, diverged, player.outside
    )


def _check_engine(past: Past, was: str, here: str) -> None:
    if was != here:
        raise CannotReplay(
            f"cell {past.cell_id} ran in {was!r}; this is {here!r}",
            hint="replay it with the release of Cloister that it ran with",
        )
