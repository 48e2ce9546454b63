"""The limits of a session and of a capability, with their defaults.

A limit is a positive whole number. What a request asks for may only narrow what its session has.
"""

from dataclasses import dataclass, fields

from cloister.core.errors import InvalidLimits

# Far above any sane use; keeps a typo such as wall_ms=10**30 out of timers and rlimits.
_CEILING = 2**40


def _check(owner: object) -> None:
    for field in fields(owner):  # type: ignore[arg-type]
        value = getattr(owner, field.name)
        if value is None and field.default is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidLimits(f"{field.name} must be a whole number, not {type(value).__name__}")
        least = 0 if field.name == "max_external_calls" else 1
        if not least <= value <= _CEILING:
            raise InvalidLimits(f"{field.name} must be between {least} and {_CEILING}, not {value}")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What one cell of a session may use. Each is enforced in every language."""

    memory_mb: int = 64
    cpu_ms: int = 2000
    wall_ms: int = 5000
    max_stdout_bytes: int = 65536
    max_external_calls: int = 32
    max_stack_depth: int = 256

    def __post_init__(self) -> None:
        _check(self)

    def narrowed_by(self, request: "SessionLimits | None") -> "SessionLimits":
        """These limits with those of `request` in place of them; raises when one of them is wider.

        A field that the request leaves at its default asks for nothing: the session's own value stays.
        """
        if request is None:
            return self
        chosen: dict[str, int] = {}
        wider: list[str] = []
        for field in fields(self):
            own, asked = getattr(self, field.name), getattr(request, field.name)
            if asked <= own:
                chosen[field.name] = asked
            elif asked == field.default:
                chosen[field.name] = own
            else:
                wider.append(f"{field.name}={asked} (session: {own})")
        if wider:
            raise InvalidLimits(f"a request may only narrow its session's limits: {', '.join(wider)}")
        return SessionLimits(**chosen)

    def intersection(self, other: "SessionLimits") -> "SessionLimits":
        """The narrower of the two, field by field."""
        return SessionLimits(**{f.name: min(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})


@dataclass(frozen=True, slots=True)
class CapabilityLimits:
    """What one call of a capability may use."""

    timeout_ms: int = 5000
    max_request_bytes: int = 1 << 20
    max_response_bytes: int = 1 << 20
    concurrency: int = 16
    rate_per_min: int | None = None

    def __post_init__(self) -> None:
        _check(self)
