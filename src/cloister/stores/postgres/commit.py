"""One transaction: a group of batches, tallied, sent and committed.

Mostly that is one round trip: begin, lock, what is expected, what changes, commit, all in one pipeline. Where an
expectation does not hold, where a batch could only be judged by what the store holds, and where large blobs may be
there already, the group is looked up first: two round trips, in which batches are refused one by one.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from psycopg import AsyncCursor, Error
from psycopg.errors import OperationalError

from cloister.core.errors import CloisterError
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.columns import SHAPES
from cloister.stores.postgres.connection import Connection, execute, pipelined
from cloister.stores.postgres.order import Order
from cloister.stores.postgres.statements import (
    BEGIN,
    COMMIT,
    LARGE_BLOB,
    Statement,
    announce,
    append,
    asked_for,
    changes,
    expectations,
    put_blobs,
    questions,
    write_lock,
)
from cloister.stores.postgres.tally import Held, Tally, Undecided, asked_by

Outcome: TypeAlias = tuple[int, ...] | CloisterError
_NOT_AS_ASSUMED = "CL001"


class Committer:
    def __init__(self, address: Address) -> None:
        self._address = address
        # While batches are being refused, most groups have one that will be.
        self._wary = False

    async def commit(self, connection: Connection, group: Sequence[Order], now_ms: int | None) -> list[Outcome]:
        """What became of each. Raises the driver's error when nothing of the group was written, or nobody knows."""
        if self._wary:
            return await self._look_first(connection, group, now_ms)
        tally = Tally()
        try:
            places = [tally.add(order) for order in group]
        except Undecided:
            return await self._look_first(connection, group, now_ms)
        if any(len(data) > LARGE_BLOB for data in tally.blobs.values()):
            return await self._look_first(connection, group, now_ms)
        try:
            numbers = await self._finish(
                connection,
                tally,
                [BEGIN, write_lock(self._address.lock_number), *expectations(tally.expected)],
                (),
                now_ms,
            )
        except Error as error:
            if error.sqlstate != _NOT_AS_ASSUMED:
                raise
            await connection.rollback()
            return await self._look_first(connection, group, now_ms)
        return [tuple(numbers[place.start : place.stop]) for place in places]

    async def _look_first(self, connection: Connection, group: Sequence[Order], now_ms: int | None) -> list[Outcome]:
        held, there = await self._look(connection, group)
        tally = Tally(held)
        outcomes: list[range | CloisterError] = []
        for order in group:
            try:
                outcomes.append(tally.add(order))
            except CloisterError as refusal:
                outcomes.append(refusal)
        numbers = await self._finish(connection, tally, (), there, now_ms)
        self._wary = any(isinstance(outcome, CloisterError) for outcome in outcomes)
        return [
            outcome if isinstance(outcome, CloisterError) else tuple(numbers[outcome.start : outcome.stop])
            for outcome in outcomes
        ]

    async def _look(self, connection: Connection, group: Sequence[Order]) -> tuple[Held, list[str]]:
        """Begins the transaction, and reads what decides about the batches."""
        asked = asked_by(order.batch for order in group)
        async with pipelined(connection):
            await execute(connection, *BEGIN)
            await execute(connection, *write_lock(self._address.lock_number))
            cursors = [await execute(connection, *question) for question in questions(asked, asked_for(group))]
        fences, calls, approvals, heads, blobs = [await cursor.fetchall() for cursor in cursors]
        entry = SHAPES["calls"].make
        held = Held(
            fences=dict(fences),
            calls={key: entry(*parts) for key, *parts in calls},  # type: ignore[misc]
            approvals={key: (state, session_id) for key, state, session_id in approvals},
            heads=dict(heads),
        )
        return held, [name for (name,) in blobs]

    async def _finish(
        self,
        connection: Connection,
        tally: Tally,
        first: Iterable[Statement],
        there: Iterable[str],
        now_ms: int | None,
    ) -> list[int]:
        """Sends the changes and the commit; returns the numbers of the events."""
        numbering: AsyncCursor[tuple[Any, ...]] | None = None
        async with pipelined(connection):
            for statement in first:
                await execute(connection, *statement)
            for statement in changes(tally):
                await execute(connection, *statement)
            for statement in put_blobs(tally.blobs, there, now_ms):
                await execute(connection, *statement)
            if moved := [row[0] for row in tally.rows["events"].values() if row is not None]:
                await execute(connection, *announce(max(moved), self._address.channel))
            if tally.events:
                numbering = await execute(connection, *append(tally.events, self._address.channel))
            end = await execute(connection, *COMMIT)
        if end.statusmessage != "COMMIT":
            raise OperationalError("the transaction was not committed")
        if numbering is None:
            return []
        row = await numbering.fetchone()
        assert row is not None
        return row[0]
