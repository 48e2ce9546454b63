"""Questions that are closed, kept for whoever lists them.

Bounded twice: those that closed first are dropped when there are too many, and lose their arguments when these take
too much room. Programs choose the arguments, and may ask all day.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from cloister.gate.question import Question

MOST_KEPT = 10_000
MOST_BYTES = 32 << 20


class Archive:
    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        # Both in the order in which they closed; the second has those that still have their arguments.
        self._kept: dict[str, Question] = {}
        self._whole: deque[Question] = deque()
        self._bytes = 0

    def add(self, question: Question) -> None:
        self._kept[question.approval.id] = question
        self._whole.append(question)
        self._bytes += question.size
        while self._bytes > self._most_bytes:
            self._strip()
        if len(self._kept) > self._most:
            oldest = self._kept.pop(next(iter(self._kept)))
            if self._whole and self._whole[0] is oldest:
                self._strip()

    def get(self, approval_id: str) -> Question | None:
        return self._kept.get(approval_id)

    def __iter__(self) -> Iterator[Question]:
        return iter(self._kept.values())

    def _strip(self) -> None:
        oldest = self._whole.popleft()
        self._bytes -= oldest.size
        oldest.approval = replace(oldest.approval, arguments=None)
