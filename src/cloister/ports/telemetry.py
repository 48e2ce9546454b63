"""The telemetry port: who is shown what happens, while it happens, so that it can be traced and measured.

The kernel says what it does with the ids of its own; spans, traces and meters are words of whoever implements this.
Nothing here may fail a call, change it or wait: every method returns at once and never raises. Where there is none,
nothing of it is imported and nothing is spent.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Protocol

from cloister.core.strand import Strand
from cloister.ports.model import Models

# The turn that this task works for.
IN_TURN: ContextVar[str | None] = ContextVar("in_turn", default=None)


class Serving(Protocol):
    """An HTTP request that is being served."""

    def answered(self, method: str, route: str, status: int) -> None:
        """`status` is 0 where nothing was answered. Method and route are names of ours, not the client's."""
        ...


class Telemetry(Protocol):
    def told(self, kind: str, session_id: str, data: Mapping[str, Any], strand: Strand | None) -> None:
        """What happened, in the task in which it happened; kinds and data are those of events."""
        ...

    def within(self, call_id: str) -> AbstractContextManager[object]:
        """Around the tool of a call that was told of: what it does belongs to that call."""
        ...

    def serving(self, path: str, headers: Mapping[bytes, bytes]) -> AbstractContextManager[Serving]:
        """Around a request."""
        ...

    def models(self, models: Models) -> Models:
        """The same models, whose requests are seen."""
        ...

    def ids(self) -> Mapping[str, str]:
        """`trace_id` and `span_id` of what is being done now, for its log."""
        ...
