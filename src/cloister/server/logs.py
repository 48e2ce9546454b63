"""Logs as lines of JSON, each with the id of the request that it is about.

A request is told of by its route, never by its path, query, headers or body: nothing that a client sent is in a log.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from traceback import extract_tb
from typing import Any

from cloister.core.wire import format_time

# Of the request that is being served.
current_request: ContextVar[str | None] = ContextVar("current_request", default=None)
access = logging.getLogger("cloister.server.access")
log = logging.getLogger("cloister.server")


class JsonLines(logging.Formatter):
    """`ids`: of the trace and the span that a line belongs to."""

    def __init__(self, ids: Callable[[], Mapping[str, str]] | None = None) -> None:
        super().__init__()
        self._ids = ids

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": format_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if (request_id := current_request.get()) is not None:
            said["request_id"] = request_id
        if self._ids is not None:
            said |= self._ids()
        more = getattr(record, "said", None)
        if isinstance(more, dict):
            said |= more
        if record.exc_info and record.exc_info[1] is not None:
            said["error"] = type(record.exc_info[1]).__name__
            # Where it happened, and not with what: a message may have a client's text in it.
            said["where"] = [f"{one.filename}:{one.lineno} in {one.name}" for one in extract_tb(record.exc_info[2])]
        return json.dumps(said, default=str)


def _message(record: logging.LogRecord) -> str:
    """Ours say what they are meant to. Those of others may have values of a program behind their first line, as those
    of asyncio have."""
    said = record.getMessage()
    return said if record.name.startswith("cloister") else said.partition("\n")[0]


def set_up_json_logs(level: int = logging.INFO, ids: Callable[[], Mapping[str, str]] | None = None) -> None:
    """Everything that this process logs goes to the standard error as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(ids))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    for name in ("cloister", "uvicorn", "uvicorn.error", "mcp", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("cloister").setLevel(level)
    # What it says of each start and stop is said by us.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
