"""What one session is granted its tools under, beside what holds for all; and what a host says of limits, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cloister.core.cell import CellLimits
from cloister.core.errors import InvalidInput
from cloister.core.file import Mount
from cloister.core.limits import SessionLimits
from cloister.gate import Hooks, Policy
from cloister.gate.secrets import MemorySecrets
from cloister.ports.engine import TypeCheck
from cloister.sessions.files import parse_mounts


@dataclass(frozen=True, slots=True)
class Terms:
    policy: Policy
    hooks: Hooks
    secrets: MemorySecrets
    # Whether there is any.
    own: bool = False
    mounts: Mapping[str, Mount] = field(default_factory=dict[str, Mount])

    @classmethod
    def parse(
        cls,
        tools: Sequence[object],
        approvals: Mapping[str, object] | None,
        deny: Iterable[object],
        hooks: Sequence[object],
        secrets: Mapping[str, object] | None,
        mounts: object = None,
    ) -> "Terms":
        policy, watching = Policy(overrides=approvals, deny=deny), Hooks.parse(hooks)
        mounted = parse_mounts(mounts)
        own = bool(tools or approvals or policy.denied() or watching or secrets or mounted)
        return cls(policy, watching, MemorySecrets.parse(secrets or {}), own, mounted)

    @classmethod
    def none(cls) -> "Terms":
        return cls.parse((), None, (), (), None)


def parse_type_check(value: object) -> TypeCheck:
    try:
        return TypeCheck(value)
    except ValueError:
        raise InvalidInput(f"type_check is 'strict', 'warn' or 'off', not {value!r}") from None


def check_limits(limits: object) -> SessionLimits | None:
    if limits is None or isinstance(limits, SessionLimits):
        return limits
    raise InvalidInput(
        f"limits are SessionLimits, not {type(limits).__name__}", hint="write SessionLimits(wall_ms=...)"
    )


def check_cells(limits: object) -> CellLimits:
    if limits is None:
        return CellLimits()
    if isinstance(limits, CellLimits):
        return limits
    raise InvalidInput(f"cells are CellLimits, not {type(limits).__name__}", hint="write CellLimits(max_queued=...)")
