"""The journal of a cell held against the digests that are on record, before anything is run.

An entry has digests of its request and of its response, and the cell's course has a seal over both: an entry that was
changed, alone or with its digests, does not fit, and one that is gone or was put in is noticed.
"""

import re
from collections.abc import Iterator

from cloister.cells.course import seal
from cloister.core.digest import canonical_json, digest_json
from cloister.core.replay import Divergence, DivergenceKind
from cloister.core.value import Json
from cloister.ports.journal import Entry
from cloister.sessions.replay.paper import shown
from cloister.sessions.replay.past import Past, Told

# In the place of a secret's value: then the digest is of what was there before.
MARKER = re.compile(r"\[secret [A-Za-z_][A-Za-z0-9_]{0,63}\]")


def audit(past: Past) -> Divergence | None:
    """The first call, in the order of their numbers, whose entry is not what was written."""
    told = {one.number: (step, one) for step, (_, some) in enumerate(past.course, 2) for one in some}
    for number in sorted({*past.entries, *(number for number, (_, one) in told.items() if one.seal is not None)}):
        step, one = told.get(number, (None, None))
        for divergence in _faults(past, number, step, one):
            return divergence
    return None


def _faults(past: Past, number: int, step: int | None, told: Told | None) -> Iterator[Divergence]:
    entry = past.entries.get(number)
    if entry is None:
        call = past.calls.get(number)
        name = f"`{call.name}`" if call is not None else "a call"
        yield Divergence(
            DivergenceKind.ENTRY_MISSING, step, number, f"{name} in the journal", "no entry of that number"
        )
        return
    if number not in past.calls:
        found = f"`{entry.intent.name}` with {shown(entry.intent.arguments)}"
        yield Divergence(DivergenceKind.ENTRY_EXTRA, step, number, "no entry: the program made no such call", found)
        return
    if (request := _request(entry)) is not None:
        yield Divergence(DivergenceKind.ENTRY_ALTERED, step, number, *request)
    if (response := _response(entry)) is not None:
        yield Divergence(DivergenceKind.ENTRY_ALTERED, step, number, *response)
    if told is None or told.seal is None:
        return
    if entry.settled is None:
        yield Divergence(DivergenceKind.ENTRY_ALTERED, step, number, "how the call ended", "no settlement")
        return
    intent, settled = entry.intent, entry.settled
    fits = seal(intent.request_digest, settled.status, settled.response_digest, settled.error)
    if fits != told.seal:
        outcome = settled.error.message if settled.error is not None else shown(settled.value)
        found = f"{fits}: `{intent.name}` with {shown(intent.arguments)}, {settled.status}: {outcome}"
        yield Divergence(DivergenceKind.ENTRY_ALTERED, step, number, f"an entry with the seal {told.seal}", found)


def _request(entry: Entry) -> tuple[str, str] | None:
    intent = entry.intent
    made = digest_json([intent.name, intent.arguments])
    if made == intent.request_digest or _has_marker(intent.arguments):
        return None
    return (
        f"a request with the digest {intent.request_digest}",
        f"{made}: `{intent.name}` with {shown(intent.arguments)}",
    )


def _response(entry: Entry) -> tuple[str, str] | None:
    settled = entry.settled
    if settled is None or settled.response_digest is None:
        return None
    made = digest_json(settled.value)
    if made == settled.response_digest:
        return None
    return f"a response with the digest {settled.response_digest}", f"{made}: {shown(settled.value)}"


def _has_marker(value: Json) -> bool:
    return MARKER.search(canonical_json(value).decode("utf-8", "replace")) is not None
