"""What one session is granted its tools under, beside what holds for all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cloister.core.file import Mount
from cloister.gate import Hooks, Policy
from cloister.gate.secrets import MemorySecrets
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
