"""Who owns a session: jobs for the writer.

A fence is drawn once for each claim, and all sessions of that claim get it: it is new to every one of them.
"""

import json
from collections.abc import Sequence

from cloister.ports.rows import Claim, Fence
from cloister.stores.sqlite.shapes import SHAPES
from cloister.stores.sqlite.steps import Hand


def join(hand: Hand, owner: str, now_ms: int, ttl_ms: int) -> None:
    # One whose time is over is as good as not there.
    hand.run("DELETE FROM owners WHERE expires_ms <= ?", (now_ms,))
    hand.run(
        "INSERT INTO owners VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET expires_ms = excluded.expires_ms",
        (owner, now_ms + ttl_ms),
    )


_NAMED = "id IN (SELECT value FROM json_each(?))"
_FREE = "(owner IS NULL OR owner = ? OR owner NOT IN (SELECT id FROM owners WHERE expires_ms > ?))"


def claim(hand: Hand, owner: str, session_ids: Sequence[str] | None, now_ms: int) -> list[Claim]:
    shape = SHAPES["sessions"]
    named = () if session_ids is None else (json.dumps(list(session_ids)),)
    where = f"{_FREE} AND {_NAMED}" if named else _FREE
    fence = hand.value("SELECT last + 1 FROM fences")
    taken = hand.rows(
        f"UPDATE sessions SET owner = ?, fence = ? WHERE {where} RETURNING {shape.select}",  # noqa: S608
        (owner, fence, owner, now_ms, *named),
    )
    if taken:
        hand.run("UPDATE fences SET last = ?", (fence,))
    claims = [Claim(Fence(columns[0], fence), shape.decode(columns)) for columns in taken]
    return sorted(claims, key=lambda claim: claim.row.id)


def release(hand: Hand, owner: str, session_ids: Sequence[str] | None) -> None:
    if session_ids is None:
        hand.run("UPDATE sessions SET owner = NULL WHERE owner = ?", (owner,))
        hand.run("DELETE FROM owners WHERE id = ?", (owner,))
    else:
        hand.run(
            f"UPDATE sessions SET owner = NULL WHERE owner = ? AND {_NAMED}",  # noqa: S608
            (owner, json.dumps(list(session_ids))),
        )
