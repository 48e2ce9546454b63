"""What one session is granted, and under which terms, beside what holds for all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cloister.core.file import Mount
from cloister.gate import Hooks, Policy
from cloister.gate.secrets import MemorySecrets
from cloister.sessions import Session
from cloister.sessions.files import parse_mounts
from cloister.sessions.grounds import Grounds
from cloister.sessions.overlay import Overlay, parse_overlays
from cloister.sessions.plugins.finding import parse_plugins
from cloister.sessions.plugins.plugin import Plugin


@dataclass(frozen=True, slots=True)
class Terms:
    policy: Policy
    hooks: Hooks
    secrets: MemorySecrets
    tools: tuple[object, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    # Whether the host's tools and sources are among what it is granted.
    include_base: bool = True
    # Whether there is any.
    own: bool = False
    mounts: Mapping[str, Mount] = field(default_factory=dict[str, Mount])
    # Whose policies, hooks and secrets hold in place of those here; and what those are.
    parent: Session | None = None
    above: Grounds | None = None

    @classmethod
    def parse(
        cls,
        tools: Iterable[object] = (),
        approvals: Mapping[str, object] | None = None,
        deny: Iterable[object] = (),
        hooks: Sequence[object] = (),
        secrets: Mapping[str, object] | None = None,
        sources: Iterable[object] = (),
        include_base: bool = True,
        plugins: Iterable[object] = (),
        mounts: object = None,
    ) -> "Terms":
        policy, watching, overlays = Policy(overrides=approvals, deny=deny), Hooks.parse(hooks), parse_overlays(sources)
        given, added, mounted = tuple(tools), parse_plugins(plugins), parse_mounts(mounts)
        terms = approvals or policy.denied() or watching or secrets or mounted
        own = bool(given or overlays or added or terms or not include_base)
        return cls(
            policy,
            watching,
            MemorySecrets.parse(secrets or {}),
            tools=given,
            overlays=overlays,
            plugins=added,
            include_base=include_base,
            own=own,
            mounts=mounted,
        )

    @classmethod
    def child(cls, tools: Iterable[object], parent: Session, above: Grounds) -> "Terms":
        """Of a session that may do what another may, with these of its tools alone."""
        return replace(cls.parse(tools, include_base=False), parent=parent, above=above)

    @classmethod
    def none(cls) -> "Terms":
        return cls.parse()
