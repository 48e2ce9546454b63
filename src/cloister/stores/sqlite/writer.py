"""The writer: one thread, one connection, and as many batches in one commit as came while the last one was made.

The batches of a group are run one after the other, as if none would be refused. If one is, the group is rolled back and
run again, each job in a savepoint of its own: then one that is refused is rolled back alone, and those beside it are
committed. When the commit fails, nothing of the group was written and all of it fails. The event loop is woken once for
each commit.
"""

import asyncio
import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import apsw

from cloister.core.errors import CloisterError, InvalidInput, StoreError, StoreUnavailable
from cloister.stores.sqlite.link import Link
from cloister.stores.sqlite.receipt import Receipt
from cloister.stores.sqlite.steps import Hand, Steps
from cloister.stores.sqlite.trouble import damaged, trouble

T = TypeVar("T")

_log = logging.getLogger(__name__)

# A group ends here, so that the first of it does not wait long for the last.
_MOST_JOBS = 500
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Job:
    run: Callable[[Hand], Any]
    receipt: Receipt[Any]
    weight: int
    # Not in a transaction: what SQLite does in none.
    alone: bool = False


Outcome: TypeAlias = tuple[Job, Any, BaseException | None]


class Writer:
    """`tell` is called on the event loop after a commit, with the last number of its events."""

    def __init__(self, link: Link, path: str, loop: asyncio.AbstractEventLoop, tell: Callable[[int], None]) -> None:
        self._path = path
        self._file = os.stat(path)
        self._loop = loop
        self._tell = tell
        self._hand = Hand(link.raw)
        self._queue: queue.SimpleQueue[list[Job] | None] = queue.SimpleQueue()
        # Put in this round of the event loop: they go over together, and wake the thread once.
        self._coming: list[Job] = []
        # Taken from the queue already, but not for the group that was being gathered.
        self._next: deque[Job] = deque()
        self._is_last = False
        # That the group has appended so far.
        self._last_event = 0
        self._thread = threading.Thread(target=self._work, name=f"cloister-writer {path}", daemon=True)
        self._thread.start()

    def put(self, run: Callable[[Hand], T], *, weight: int = 1000, alone: bool = False) -> Receipt[T]:
        """Its place in the order is that of this call."""
        receipt: Receipt[T] = Receipt(self._loop)
        self._coming.append(Job(run, receipt, weight, alone))
        if len(self._coming) == 1:
            self._loop.call_soon(self.hand_over)
        return receipt

    def hand_over(self) -> None:
        """What was put goes to the thread."""
        jobs, self._coming = self._coming, []
        if jobs:
            self._queue.put(jobs)

    def close(self) -> None:
        """Waits until all that was handed over is done, and the log is written back into the file."""
        self._queue.put(None)
        self._thread.join()

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (group := self._gather()) is not None:
            self._last_event = 0
            outcomes = self._alone(group[0]) if group[0].alone else self._commit(group)
            self._announce(outcomes, self._last_event)
            # Or the last of them would be held until somebody writes again.
            del group, outcomes
        self._write_back()
        self._hand.close()

    def _gather(self) -> list[Job] | None:
        """What may go together, of all that has come; None when nothing will come any more."""
        waiting = self._next
        if not waiting and not self._is_last:
            self._receive(self._queue.get())
        while True:
            try:
                self._receive(self._queue.get_nowait())
            except queue.Empty:
                break
        if not waiting:
            return None
        first = waiting.popleft()
        group, weight = [first], first.weight
        while waiting and not first.alone and weight < _MOST_BYTES and len(group) < _MOST_JOBS:
            job = waiting[0]
            if job.alone or weight + job.weight > _MOST_BYTES:
                break
            group.append(waiting.popleft())
            weight += job.weight
        return group

    def _receive(self, jobs: list[Job] | None) -> None:
        if jobs is None:
            self._is_last = True
        else:
            self._next.extend(jobs)

    def _commit(self, group: list[Job]) -> list[Outcome]:
        hand = self._hand
        try:
            self._look_for_the_file()
            hand.begin()
            outcomes = self._together(group)
            if outcomes is None:
                self._last_event = 0
                hand.run("ROLLBACK")
                hand.begin()
                outcomes = [self._one(job) for job in group]
            hand.run("COMMIT")
            return outcomes
        except apsw.Error as error:
            outcomes = self._all_fail(group, [trouble(error, self._path) for _ in group])
            if isinstance(error, apsw.FullError):
                self._write_back()
            return outcomes
        except StoreUnavailable as error:
            return self._all_fail(group, [StoreUnavailable(error.message, hint=error.hint) for _ in group])

    def _together(self, group: list[Job]) -> list[Outcome] | None:
        """None if one of them was refused, or could be for what it finds: then nobody knows what is left of it."""
        if not all(isinstance(job.run, Steps) for job in group):
            return None
        hand, outcomes = self._hand, list[Outcome]()
        hand.one_by_one = False
        for job in group:
            hand.appended = []
            try:
                outcomes.append((job, job.run(hand), None))
            except (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError):
                return None
            except apsw.Error:
                raise
            except Exception:  # noqa: BLE001 - it is run again by itself, and told there
                return None
            self._last_event = max(hand.appended, default=self._last_event)
        return outcomes

    def _one(self, job: Job) -> Outcome:
        hand = self._hand
        hand.run("SAVEPOINT job")
        hand.appended, hand.one_by_one = [], True
        if not isinstance(job.run, Steps):
            # It may be about who owns a session.
            hand.fences.clear()
        try:
            value = job.run(hand)
        except CloisterError as refusal:
            # Its traceback has this frame in it, which holds the job, which will hold the refusal.
            outcome = (job, None, refusal.with_traceback(None))
        except (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, TypeError) as error:
            outcome = (job, None, InvalidInput(f"a row does not fit into its table: {error}"))
        except apsw.Error:
            raise
        except ValueError as error:
            # In what was read, to see whether the write is allowed: what is written was encoded before.
            outcome = (job, None, damaged(self._path, f"a row cannot be read: {error}"))
        except Exception as error:  # noqa: BLE001
            # One caller's mistake is told to that caller, and stops nobody else.
            outcome = (job, None, error)
        else:
            hand.run("RELEASE job")
            self._last_event = max(hand.appended, default=self._last_event)
            return job, value, None
        hand.run("ROLLBACK TO job")
        hand.run("RELEASE job")
        return outcome

    def _all_fail(self, group: list[Job], why: Sequence[StoreError]) -> list[Outcome]:
        self._last_event = 0
        # After some errors SQLite has rolled back by itself.
        if self._hand.raw.in_transaction:
            try:
                self._hand.run("ROLLBACK")
            except apsw.Error as error:
                _log.warning("%s", trouble(error, self._path))
        return [(job, None, error) for job, error in zip(group, why, strict=True)]

    def _write_back(self) -> None:
        """The log into the file, as far as nobody reads it: then it begins anew, and takes no more room than it has."""
        try:
            self._hand.rows("PRAGMA wal_checkpoint(PASSIVE)")
        except apsw.Error as error:
            # The log stays as it is, and whoever opens the file reads both.
            _log.warning("%s", trouble(error, self._path))

    def _alone(self, job: Job) -> list[Outcome]:
        try:
            return [(job, job.run(self._hand), None)]
        except apsw.Error as error:
            return [(job, None, trouble(error, self._path))]

    def _look_for_the_file(self) -> None:
        """What is written to a file that was removed is lost, and SQLite would not notice."""
        try:
            if os.path.samestat(os.stat(self._path), self._file):
                return
        except OSError:
            pass
        raise StoreUnavailable(
            f"the store {self._path} was removed, or replaced by another file, while it was open",
            hint="put it back, with what is beside it, or open the store again",
        )

    def _announce(self, outcomes: list[Outcome], last_event: int) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, outcomes, last_event)
        except RuntimeError:
            # The loop is closed: nobody is there who could wait.
            pass

    # -- on the event loop ---------------------------------------------------------------------------------------------

    def _settle(self, outcomes: list[Outcome], last_event: int) -> None:
        for job, value, error in outcomes:
            job.receipt.settle(value, error)
        if last_event:
            self._tell(last_event)
