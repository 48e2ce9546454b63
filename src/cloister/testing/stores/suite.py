"""The whole suite, in the order in which it is best read."""

from cloister.testing.behaviour import Behaviour
from cloister.testing.stores import batches, blobs, calls, contents, events, handles, owners, reading, threads
from cloister.testing.stores.lab import StoreLab

# Of every store.
BEHAVIOURS: list[Behaviour[StoreLab]] = [
    behaviour
    for part in (contents, reading, batches, calls, events, threads, blobs, owners, handles)
    for behaviour in part.chapter.behaviours
]
# Of stores that can be opened more than once on the same data: `StoreLab.another`.
SHARED: list[Behaviour[StoreLab]] = handles.shared.behaviours
# Of labs that can let time pass: `StoreLab.advance`.
TIMED: list[Behaviour[StoreLab]] = [*blobs.timed.behaviours, *owners.timed.behaviours]
# Of those that can do both.
SHARED_TIMED: list[Behaviour[StoreLab]] = handles.shared_timed.behaviours
# For stores and labs that can do it all.
ALL: list[Behaviour[StoreLab]] = [*BEHAVIOURS, *SHARED, *TIMED, *SHARED_TIMED]
