"""What a session is made of: its own options, and what it shares with the other sessions of its host."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cloister.cells.supervisor import Supervisor
from cloister.core.durability import Durability
from cloister.core.file import FileLimits, InitialFile, Mount
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.gate import Hooks, Policy, Wiring
from cloister.gate.secrets import MemorySecrets
from cloister.ports.engine import TypeCheck
from cloister.ports.keys import KeySource
from cloister.ports.secrets import SecretProvider
from cloister.sessions.catalog import SessionCatalog
from cloister.sessions.events import Events
from cloister.sessions.ledger import Ledger
from cloister.sessions.plugins.attached import Plugins
from cloister.sessions.vault import Vault


@dataclass(frozen=True, slots=True)
class SessionOptions:
    id: str
    language: Language = Language.PYTHON
    limits: SessionLimits = field(default_factory=SessionLimits)
    type_check: TypeCheck = TypeCheck.WARN
    title: str | None = None
    tenant: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    durability: Durability = Durability.NONE
    # What a new session begins with.
    files: Mapping[str, InitialFile] = field(default_factory=dict[str, InitialFile])
    # The host's environments that it has, by their ids.
    environments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a session is built on: the tools it was granted and the terms they are granted under."""

    catalog: SessionCatalog
    plugins: Plugins
    policy: Policy
    hooks: Hooks
    # Those of the runtime, and those that were given to this session in code.
    secrets: SecretProvider
    own_secrets: MemorySecrets
    vault: Vault
    wiring: Wiring
    snapshot_keys: KeySource
    supervisor: Supervisor
    events: Events
    ledger: Ledger | None = None
    # Whether any of this was given to this session alone: who goes on with it elsewhere must be given it again.
    own_terms: bool = False
    file_limits: FileLimits = field(default_factory=FileLimits)
    # What is mounted among its files, by path.
    mounts: Mapping[str, Mount] = field(default_factory=dict[str, Mount])
    # The session that its policies take it for: a child is under the rules of its parent.
    acts_for: str | None = None
    # What its host could mount there, by id; a session has those that it was given.
    environments: Mapping[str, Mount] = field(default_factory=dict[str, Mount])
