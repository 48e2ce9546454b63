"""A whole gate around a few tools, for tests: real journal, real desk, and everything on record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cloister.core.ids import IdSource
from cloister.core.language import Language
from cloister.gate import (
    ApprovalDesk,
    Asked,
    Budget,
    Caller,
    Gate,
    Handles,
    Hooks,
    Outcome,
    Passed,
    Policy,
    Scope,
    Wiring,
)
from cloister.gate.secrets import MemorySecrets
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.engine import Call
from cloister.ports.journal import Journal
from cloister.stores.memory import MemoryJournal
from cloister.tools import ToolRegistry

MARK = "0123456789abcdefghij"


@dataclass
class Lab:
    """`Lab([tool]).call("name", 1, key=2)` is what a program's call goes through."""

    tools: list[object]
    language: Language = Language.PYTHON
    clock: Clock = field(default_factory=SystemClock)
    journal: Journal = field(default_factory=MemoryJournal)
    hooks: list[object] = field(default_factory=list[object])
    approvals: Mapping[str, object] = field(default_factory=dict[str, object])
    deny: list[object] = field(default_factory=list[object])
    secrets: Mapping[str, object] = field(default_factory=dict[str, object])
    budget: Budget = field(default_factory=lambda: Budget(99, 99))
    ttl_ms: int | None = None

    def __post_init__(self) -> None:
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.registry = ToolRegistry(self.tools)
        ids = IdSource(self.clock.now_ms)
        self.desk = ApprovalDesk(self.clock, ids, ttl_ms=self.ttl_ms, emit=self._hear)
        self.provider = MemorySecrets.parse(self.secrets)
        self.gate = Gate(
            self.registry,
            Wiring(self.clock, ids, self.desk, self.journal, self._hear),
            Scope("lab", self.language, {"env": "test"}),
            Policy(overrides=self.approvals, deny=self.deny),
            Hooks.parse(self.hooks),
            Handles(MARK, self.provider),
        )
        self.caller = Caller("cel_lab", self.budget)
        self._made = 0

    def _hear(self, kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        assert session_id == "lab"
        self.events.append((kind, data))

    async def pass_call(self, call: Call) -> Passed:
        return await self.gate.handle(call, self.caller)

    async def try_call(self, name: str, /, *args: Any, **kwargs: Any) -> Passed:
        self._made += 1
        return await self.pass_call(Call(self._made, name, args, kwargs))

    async def call(self, name: str, /, *args: Any, **kwargs: Any) -> Outcome:
        passed = await self.try_call(name, *args, **kwargs)
        assert isinstance(passed, Outcome)
        return passed

    async def ask(self, name: str, /, *args: Any, **kwargs: Any) -> Asked:
        passed = await self.try_call(name, *args, **kwargs)
        assert isinstance(passed, Asked)
        return passed

    def handle(self, name: str) -> str:
        """What `secret(name)` gives a program here."""
        return f"~secret.{MARK}.{name}."
