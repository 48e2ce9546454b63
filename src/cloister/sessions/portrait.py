"""A session as others must see it to go on with it: in a snapshot, or in a store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cloister.core.session import SessionMeta
from cloister.core.wire import format_time, to_json
from cloister.gate import Gate
from cloister.ports.clock import moment
from cloister.ports.engine import Engine
from cloister.ports.rows import SessionRow
from cloister.sessions.envelope import Envelope
from cloister.sessions.grounds import SessionOptions
from cloister.sessions.plugins.attached import Plugins
from cloister.tools.registry import ToolRegistry

# So many characters of a digest tell two versions of a tool apart. The row is written at the end of every cell.
ENOUGH = 16


@dataclass(frozen=True, slots=True)
class Portrait:
    options: SessionOptions
    engine: Engine
    tools: ToolRegistry
    gate: Gate
    mark: str
    # Whether tools, sources, plugins, policies, hooks or secrets were given to this session alone.
    own_terms: Callable[[], bool]
    created_ms: int
    plugins: Plugins
    # Those that it has now, by their ids.
    environments: Sequence[str] = ()

    def envelope(
        self,
        state: bytes | None,
        cell: Mapping[str, Any] | None,
        *,
        now: datetime,
        seed: int,
        values: Mapping[str, Any],
        files: tuple[Mapping[str, Any], Mapping[str, bytes]],
        left_out: tuple[str, ...],
    ) -> Envelope:
        options = self.options
        return Envelope(
            session_id=options.id,
            language=options.language,
            engine=self.engine.name,
            engine_version=self.engine.version,
            limits=options.limits,
            capabilities=self.tools.digests(),
            created_at=format_time(now),
            state=state,
            cell=cell,
            seed=seed,
            title=options.title,
            labels=options.labels,
            tenant=options.tenant,
            mark=self.mark,
            calls=dict(self.gate.counts),
            values=values,
            files=files[0],
            contents=files[1],
            plugins=self.plugins.states(),
            left_out=left_out,
        )

    def meta(self, used_ms: int) -> SessionMeta:
        options = self.options
        return SessionMeta(
            id=options.id,
            created_at=moment(self.created_ms),
            last_used_at=moment(used_ms),
            language=options.language,
            limits=options.limits,
            title=options.title,
            labels=options.labels,
            tenant=options.tenant,
        )

    def row(self, image: str | None, *, used_ms: int, seed: int, last_cell: int) -> SessionRow:
        """`image` names the bytes of its namespace."""
        options = self.options
        doc = {
            "language": str(options.language),
            "limits": to_json(options.limits),
            "type_check": str(options.type_check),
            "durability": str(options.durability),
            "title": options.title,
            "labels": dict(options.labels),
            "engine": self.engine.name,
            "engine_version": self.engine.version,
            "capabilities": {name: digest[:ENOUGH] for name, digest in self.tools.digests().items()},
            "plugins": self.plugins.states(),
            "own_terms": self.own_terms(),
            "mark": self.mark,
            "seed": seed,
            "calls": dict(self.gate.counts),
            "last_cell": last_cell,
            **({"environments": list(self.environments)} if self.environments else {}),
        }
        return SessionRow(options.id, self.created_ms, used_ms, doc, image, options.tenant)
