"""The cells of a turn that is not to go on, stopped for sure."""

from collections.abc import Callable

from cloister.core.errors import CellNotFound, InvalidInput
from cloister.core.strand import Strand
from cloister.ports.store import Store
from cloister.sessions.session import Session


async def stop_cells(
    session: Session, store: Store, turn_id: str, strand_of: Callable[[str, str], Strand | None]
) -> None:
    """Returns when they have stopped, and their calls are over."""

    def is_its(cell_id: str) -> bool:
        strand = strand_of(session.id, cell_id)
        return strand is not None and strand.turn_id == turn_id

    # Those of programs are known here before they are written down, calls that wait for a person by their rows.
    mine = [one.id for one in await session.cells() if is_its(one.id)]
    rows = await store.cells(session.id, live=True)
    mine += [row.id for row in rows if row.turn_id == turn_id and row.id not in mine]
    for cell_id in mine:
        try:
            await session.terminate(cell_id)
        except (CellNotFound, InvalidInput):
            # It ended, and somebody has read so.
            continue
