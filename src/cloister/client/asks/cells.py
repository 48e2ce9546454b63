"""Programs: run to their end, or started as cells that go on while nobody looks."""

from collections.abc import Mapping
from typing import Any

from cloister.client.ask import Ask, asked, at
from cloister.client.reading import many, observation, run_result
from cloister.core.cell import CellInfo, Observation
from cloister.core.run import RunResult

_YIELD_MS = 10_000


def run(
    session_id: str,
    code: str,
    *,
    inputs: Mapping[str, Any] | None = None,
    limits: Mapping[str, int] | None = None,
    timeout_ms: int | None = None,
    return_snapshot: bool = False,
    validate_only: bool = False,
    key: str | None = None,
) -> Ask[RunResult]:
    """Run a program to its end, or until it waits for approval. What it does wrong is in the result.

    With a `key` of the caller's it is run once in its session however often it is asked for, also by a server that was
    started again, and so it is asked for again when the connection breaks."""
    body = asked(
        code=code,
        inputs=dict(inputs) if inputs is not None else None,
        limits=dict(limits) if limits is not None else None,
        timeout_ms=timeout_ms,
    )
    body |= {"return_snapshot": return_snapshot, "validate_only": validate_only}
    return Ask(
        "POST", at("sessions", session_id, "run"), run_result, body, headers=_key(key), keyed=key is not None,
        takes_ms=timeout_ms,
    )  # fmt: skip


def validate(session_id: str, code: str, *, inputs: Mapping[str, Any] | None = None) -> Ask[RunResult]:
    """Look for mistakes without running anything."""
    body = asked(code=code, inputs=dict(inputs) if inputs is not None else None)
    return Ask("POST", at("sessions", session_id, "validate"), run_result, body)


def exec_(
    session_id: str,
    code: str,
    *,
    yield_ms: int = _YIELD_MS,
    max_output_tokens: int | None = None,
    isolated: bool = False,
    inputs: Mapping[str, Any] | None = None,
    limits: Mapping[str, int] | None = None,
    key: str | None = None,
) -> Ask[Observation]:
    """Start a cell and look at it for `yield_ms`. It goes on after that. `key` is as with `run`."""
    body = asked(
        code=code,
        yield_ms=yield_ms,
        max_output_tokens=max_output_tokens,
        inputs=dict(inputs) if inputs is not None else None,
        limits=dict(limits) if limits is not None else None,
    )
    return Ask(
        "POST", at("sessions", session_id, "cells"), observation, {**body, "isolated": isolated}, headers=_key(key),
        keyed=key is not None, takes_ms=yield_ms,
    )  # fmt: skip


def wait(session_id: str, cell_id: str, *, yield_ms: int = _YIELD_MS) -> Ask[Observation]:
    """What is new of a cell: as soon as it has ended or waits for approval, and otherwise after `yield_ms`. Each thing
    is told once, so this is not sent twice."""
    return Ask(
        "POST", at("sessions", session_id, "cells", cell_id, "wait"), observation, {"yield_ms": yield_ms},
        takes_ms=yield_ms,
    )  # fmt: skip


def terminate(session_id: str, cell_id: str) -> Ask[Observation]:
    """End a cell: when this returns, it has stopped and its calls are over."""
    return Ask("POST", at("sessions", session_id, "cells", cell_id, "terminate"), observation, {})


def list_(session_id: str) -> Ask[tuple[CellInfo, ...]]:
    """The cells that have not ended, and those whose end nobody has read; the oldest first."""
    return Ask("GET", at("sessions", session_id, "cells"), many(CellInfo, "cells"))


def _key(key: str | None) -> dict[str, str]:
    return {"idempotency-key": key} if key is not None else {}
