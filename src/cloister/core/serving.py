"""The bounds of a server: how much it takes in, how fast, and how long it takes to stop."""

from dataclasses import dataclass, fields

from cloister.core.errors import InvalidLimits

_MOST = 2**40


@dataclass(frozen=True, slots=True)
class ServerLimits:
    # Of a request; those that carry files, attachments and snapshots have the larger bound.
    max_body_bytes: int = 4 << 20
    max_upload_bytes: int = 64 << 20
    # A head that has not come whole by then is refused, and a connection that says nothing is closed.
    head_timeout_ms: int = 10_000
    # A body that has not come whole by then is refused.
    body_timeout_ms: int = 30_000
    # Requests of one token in a minute; as many may come at once. None: any number.
    rate_per_min: int | None = None
    # A comment in a stream that has had nothing to tell for so long.
    keepalive_ms: int = 15_000
    # Streams that may be open at once.
    max_streams: int = 1_000
    # How long requests under way may take once the server is told to stop.
    shutdown_ms: int = 5_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidLimits(f"{field.name} must be a whole number, not {type(value).__name__}")
            least = 0 if field.name == "shutdown_ms" else 1
            if not least <= value <= _MOST:
                raise InvalidLimits(f"{field.name} must be between {least} and {_MOST}, not {value}")
