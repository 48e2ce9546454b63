"""A program that waits costs nothing: a thousand of them wait for a person here, on two workers.

Each is a few kilobytes. When they are decided, they go on by themselves, session by session in turn.

Run it: python examples/16_a_thousand_waiting.py
"""

import asyncio
import secrets

from cloister import CellLimits, Cloister, Completed, Observation, Session, tool

PROGRAM = "bonus = await grant(person)\nf'{person}: {bonus}'"
SESSIONS, EACH = 10, 100


@tool(side_effect="write", approval_policy="manual")
async def grant(person: int) -> int:
    """Grant a bonus."""
    return person * 10


async def main() -> None:
    limits = CellLimits(max_isolated=EACH)
    key = secrets.token_bytes(32)
    async with Cloister(tools=[grant], workers=2, type_check="off", cells=limits, snapshot_key=key) as cloister:
        sessions = [await cloister.open_session(f"team_{n}") for n in range(SESSIONS)]

        async def start(session: Session, first: int) -> list[Observation]:
            people = range(first, first + EACH)
            return [await session.exec(PROGRAM, inputs={"person": n}, isolated=True) for n in people]

        waiting = await asyncio.gather(*(start(session, n * EACH) for n, session in enumerate(sessions)))
        asleep = [cell.state.value for session in sessions for cell in await session.cells()]
        print(f"{asleep.count('asleep')} of {len(asleep)} asleep")

        questions = await cloister.approvals(state="pending")
        await cloister.decide_many({"id": question.id, "decision": "allow"} for question in questions)
        results: list[str] = []
        for session, cells in zip(sessions, waiting, strict=True):
            for seen in cells:
                ended = await session.wait(seen.cell_id)
                results += [ended.result] if isinstance(ended, Completed) else []
        print(len(results), "completed; the last says", results[-1])


asyncio.run(main())
