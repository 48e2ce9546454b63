"""The driver port: what turns a turn into requests to a model, and the model's answers into work.

What a driver may rely on, and what it must keep to:
- `run` is called once a turn is in progress, and again after a crash, with all that was journalled: settled answers,
  items, inputs that were delivered. It must look there first, and neither ask nor call anything twice.
- Each answer of a model is journalled (`OpenTurn.settle`) before anything is done about it.
- It returns how the turn ended, or raises: a `CloisterError` is told as it is, everything else as a failure of the
  host. It is cancelled when the turn is interrupted or the host goes, and need not write anything down then.
- It holds nothing of a turn between two calls of `run`, and one driver serves many turns at once.

One that has models (`ModelDriver`) is asked which is meant before a turn is taken, and can summarise a conversation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from cloister.core.diagnostic import ErrorObject
from cloister.core.item import Item
from cloister.core.thread import Thread
from cloister.core.turn import TurnUsage
from cloister.threads.open_turn import OpenTurn


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """Completed, or failed for `error`. With `finished`, `answer` is the value that a program gave to `finish`."""

    error: ErrorObject | None = None
    finished: bool = False
    answer: Any = None


class Driver(Protocol):
    async def run(self, turn: OpenTurn) -> TurnEnd: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that is meant, and whose it is."""

    model: str
    provider: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What a model made of a conversation. `answer` is what is journalled of it."""

    text: str
    request_digest: str
    answer: Mapping[str, Any]
    usage: TurnUsage


@runtime_checkable
class ModelDriver(Driver, Protocol):
    def choose(self, thread: Thread, model: str | None, *, switch_provider: bool) -> Choice:
        """Raises what keeps the thread from being driven by that model."""
        ...

    async def summarise(
        self, choice: Choice, items: Sequence[Item], answered: int, now: Callable[[], datetime]
    ) -> Summary:
        """A summary of these items, by that model, which has answered so often in their thread before."""
        ...
