"""What one session is granted its tools under, beside what holds for all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cloister.core.cell import CellLimits
from cloister.core.errors import InvalidInput
from cloister.gate import Hooks, Policy
from cloister.gate.secrets import MemorySecrets
from cloister.ports.engine import TypeCheck


@dataclass(frozen=True, slots=True)
class Terms:
    policy: Policy
    hooks: Hooks
    secrets: MemorySecrets
    # Whether there is any.
    own: bool = False

    @classmethod
    def parse(
        cls,
        tools: Sequence[object],
        approvals: Mapping[str, object] | None,
        deny: Iterable[object],
        hooks: Sequence[object],
        secrets: Mapping[str, object] | None,
    ) -> "Terms":
        policy, watching = Policy(overrides=approvals, deny=deny), Hooks.parse(hooks)
        own = bool(tools or approvals or policy.denied() or watching or secrets)
        return cls(policy, watching, MemorySecrets.parse(secrets or {}), own)

    @classmethod
    def none(cls) -> "Terms":
        return cls.parse((), None, (), (), None)


def parse_type_check(value: object) -> TypeCheck:
    try:
        return TypeCheck(value)
    except ValueError:
        raise InvalidInput(f"type_check is 'strict', 'warn' or 'off', not {value!r}") from None


def check_cells(limits: object) -> CellLimits:
    if limits is None:
        return CellLimits()
    if isinstance(limits, CellLimits):
        return limits
    raise InvalidInput(f"cells are CellLimits, not {type(limits).__name__}", hint="write CellLimits(max_queued=...)")
