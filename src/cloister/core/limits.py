"""The limits of a session and of a capability, with their defaults.

A limit is a positive whole number. What a request asks for may only narrow what its session has.
"""

from collections.abc import Mapping
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


def _asked(request: "SessionLimits | Mapping[str, int]", own: Mapping[str, int]) -> dict[str, int]:
    if isinstance(request, SessionLimits):
        values = {field.name: (getattr(request, field.name), field.default) for field in fields(request)}
        return {name: asked for name, (asked, default) in values.items() if asked != default or asked <= own[name]}
    if not isinstance(request, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidLimits(f"limits are SessionLimits or a mapping of them, not {type(request).__name__}")
    unknown = sorted(set(request) - set(own))
    if unknown:
        raise InvalidLimits(f"there is no limit {', '.join(map(repr, unknown))}; there are {', '.join(own)}")
    # Made once for its own checks: whole numbers, in range.
    SessionLimits(**request)
    return dict(request)


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

    def narrowed_by(self, request: "SessionLimits | Mapping[str, int] | None") -> "SessionLimits":
        """These limits with those of `request` in place of them; raises when one of them is wider.

        A mapping asks for just the fields it has. Of a `SessionLimits` every field counts, but for those that stand
        at their default above the session's own value: they were not asked for.
        """
        if request is None:
            return self
        chosen = {field.name: getattr(self, field.name) for field in fields(self)}
        wider: list[str] = []
        for name, asked in _asked(request, chosen).items():
            if asked <= chosen[name]:
                chosen[name] = asked
            else:
                wider.append(f"{name}={asked} (session: {chosen[name]})")
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
