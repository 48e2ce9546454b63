"""The record of one call: what was asked, how it went, never the values themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cloister.core.capability import SideEffect
from cloister.core.diagnostic import ErrorObject
from cloister.core.light import light


class CallStatus(StrEnum):
    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    DENIED = "denied"
    APPROVAL_PENDING = "approval_pending"
    UNKNOWN = "unknown"


@light
@dataclass(frozen=True, slots=True)
class ExternalCallRecord:
    id: str
    name: str
    side_effect: SideEffect
    duration_ms: float
    status: CallStatus
    request_digest: str
    response_digest: str | None = None
    error: ErrorObject | None = None
    # What it has used up, by the tool's own count, if it said so: tokens of a model, for example.
    usage: Mapping[str, int] | None = None
