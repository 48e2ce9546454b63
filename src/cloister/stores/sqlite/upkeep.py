"""Keeping the store small and sound: jobs for the writer, and one question for a reader."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import apsw
import zstandard

from cloister.core.digest import digest_bytes
from cloister.stores.rules import BLOB_GRACE_MS
from cloister.stores.sqlite.link import Link
from cloister.stores.sqlite.steps import Hand, unpack

# How many events are looked at in one transaction: others write in between.
_PRUNED_AT_ONCE = 20_000
_MOST_FINDINGS = 20


@dataclass(frozen=True, slots=True)
class Prune:
    """Looks at some events with numbers above `after`, up to `last`; gives how many it dropped, and where to go on."""

    after: int
    last: int
    before_ms: int | None
    last_dropped: int

    def __call__(self, hand: Hand) -> tuple[int, int]:
        seen = hand.value(
            "SELECT max(seq) FROM (SELECT seq FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?)",
            (self.after, self.last, _PRUNED_AT_ONCE),
        )
        if seen is None:
            return 0, self.last
        dropped = hand.changes(
            "DELETE FROM events WHERE seq > ? AND seq <= ? AND (seq <= ? OR at_ms < ?) "
            "AND session_id NOT IN (SELECT session_id FROM cells WHERE live) "
            "AND (thread_id IS NULL OR thread_id NOT IN (SELECT id FROM threads))",
            (self.after, seen, self.last_dropped, self.before_ms),
        )
        return dropped, seen


def last_beyond(link: Link, keep: int) -> int:
    """The number of the newest event that is not among the newest `keep`; 0 if all are."""
    found = link.rows("SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?", (keep,))
    return found[0][0] if found else 0


_REFERENCES = (
    "SELECT image FROM sessions WHERE image IS NOT NULL UNION SELECT image FROM cells WHERE image IS NOT NULL "
    "UNION SELECT image FROM snapshots UNION SELECT each.value FROM snapshots, json_each(snapshots.blobs) AS each "
    "UNION SELECT blob FROM files UNION SELECT blob FROM attachments"
)


def collect(hand: Hand, now_ms: int) -> int:
    dropped = hand.rows(
        f"DELETE FROM blobs WHERE written_ms < ? AND name NOT IN ({_REFERENCES}) RETURNING content",  # noqa: S608
        (now_ms - BLOB_GRACE_MS,),
    )
    for content in dropped:
        hand.run("DELETE FROM contents WHERE id = ?", content)
    return len(dropped)


def vacuum(hand: Hand) -> None:
    hand.run("VACUUM")
    # The new file is in the log until now, and the log is as large as it.
    hand.rows("PRAGMA wal_checkpoint(TRUNCATE)")


_MISSING = " UNION ALL ".join(
    f"SELECT '{what} ' || {key}, {column} FROM {table} WHERE {column} IS NOT NULL "  # noqa: S608
    f"AND {column} NOT IN (SELECT name FROM blobs)"
    for what, key, table, column in (
        ("session", "id", "sessions", "image"),
        ("cell", "id", "cells", "image"),
        ("snapshot", "id", "snapshots", "image"),
        ("snapshot", "snapshots.id", "snapshots, json_each(snapshots.blobs) AS each", "each.value"),
        ("file", "path || ' of session ' || session_id", "files", "blob"),
        ("attachment", "blob || ' of session ' || session_id", "attachments", "blob"),
    )
)


def check(link: Link) -> list[str]:
    findings: list[str] = []
    try:
        said = [str(line) for (line,) in link.rows(f"PRAGMA integrity_check({_MOST_FINDINGS})")]
        findings += [] if said == ["ok"] else said
        for who, name in link.rows(f"{_MISSING} LIMIT ?", (_MOST_FINDINGS,)):
            findings.append(f"{who} refers to blob {name}, which is not there")
        findings += islice(_changed_blobs(link), _MOST_FINDINGS)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        # What was found until there tells more.
        return findings or [f"the file is damaged: {error}"]
    return findings


def _changed_blobs(link: Link) -> Iterator[str]:
    """SQLite does not know whether bytes are still what they were; their names tell."""
    name = ""
    # One at a time: a read that lasts would keep the log from being written back.
    while found := link.rows("SELECT name, packed, content FROM blobs WHERE name > ? ORDER BY name LIMIT 1", (name,)):
        [(name, packed, content)] = found
        try:
            data = link.rows("SELECT data FROM contents WHERE id = ?", (content,))
            if data and digest_bytes(unpack(data[0][0]) if packed else data[0][0]) == name:
                continue
        except apsw.CorruptError as error:
            # The others may be whole.
            yield f"blob {name} cannot be read: {error}"
            continue
        except zstandard.ZstdError:
            pass
        yield f"blob {name} is not what was written"
