"""The tools of an MCP server as manifests and contracts.

What a server says of its own tools is a claim, and bounds hold for all of it. `readOnlyHint` makes a tool a `read`;
every other is an `external_system`. A tool may be repeated after a crash only if it says `idempotentHint` or only
reads: nothing said means that it must not be. `destructiveHint`, where it is said, asks a person first.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mcp_types import Tool, ToolAnnotations

from cloister.core.capability import ApprovalPolicy, Capability, SideEffect
from cloister.core.digest import digest_json
from cloister.core.errors import InvalidInput
from cloister.core.limits import CapabilityLimits
from cloister.core.value import Bounds, ValueRefused, sized
from cloister.ports.source import Manifest, SourceFailed
from cloister.tools.contract import BOUNDS, Contract
from cloister.tools.sources.mcp.content import cut
from cloister.tools.sources.mcp.servers import Server
from cloister.tools.sources.names import identifier, identifiers
from cloister.tools.sources.terms import Terms

log = logging.getLogger("cloister.sources")

MAX_TOOLS = 10_000
# All that is kept of a server's list.
MAX_LIST_BYTES = 64 << 20
_LONGEST_NAME = 256
_LONGEST_DESCRIPTION = 8000
_MOST_PARAMETERS = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as its server told it, within bounds. A schema is None where it was over them."""

    original: str
    description: str
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    read_only: bool
    destructive: bool
    idempotent: bool

    def claims(self) -> list[Any]:
        """All of it, for a digest."""
        hints = [self.read_only, self.destructive, self.idempotent]
        return [self.original, self.description, self.input_schema, self.output_schema, *hints]


class Collection:
    """Takes tools page by page. Raises `SourceFailed` when there are more of them than anybody can mean."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._terms = server.terms
        self._size = 0
        self._seen = 0
        self.entries: dict[str, Entry] = {}

    def add(self, tools: Sequence[Tool]) -> None:
        for tool in tools:
            self._seen += 1
            entry = self._read(tool)
            if self._terms.allow(tool.name, identifier(tool.name)):
                self.entries.setdefault(tool.name, entry)
            if len(self.entries) > MAX_TOOLS or self._seen > 10 * MAX_TOOLS:
                raise SourceFailed(f"it has more than {MAX_TOOLS} tools", hint="say in `tools` which of them you want")

    def _read(self, tool: Tool) -> Entry:
        if not 0 < len(tool.name) <= _LONGEST_NAME:
            raise SourceFailed(f"it has a tool with a name of {len(tool.name)} characters")
        schemas = [self._schema(tool.name, schema) for schema in (tool.input_schema, tool.output_schema)]
        description = cut(tool.description or tool.title or "", _LONGEST_DESCRIPTION)
        self._size += len(description) + len(tool.name)
        if self._size > MAX_LIST_BYTES:
            raise SourceFailed(f"the list of its tools takes more than {MAX_LIST_BYTES >> 20} MiB")
        hints = tool.annotations or ToolAnnotations()
        return Entry(
            tool.name,
            description,
            schemas[0],
            schemas[1],
            read_only=hints.read_only_hint is True,
            # Where nothing is said the protocol means yes; then every tool without hints would ask.
            destructive=hints.destructive_hint is True,
            idempotent=hints.idempotent_hint is True,
        )

    def _schema(self, name: str, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is None:
            return None
        try:
            made, size = sized(schema, Bounds(BOUNDS.depth, BOUNDS.nodes, BOUNDS.size))
        except ValueRefused as refused:
            log.warning("%s: a schema of tool %r is not used: %s", self._server.what, name, refused.message)
            return None
        self._size += size
        return cast("dict[str, Any]", made)


class Listing:
    """The tools of a server by the names that programs write."""

    def __init__(self, server: Server, entries: Mapping[str, Entry]) -> None:
        self._server = server
        self._terms: Terms = server.terms
        space = server.space
        names = identifiers(entries)
        self.by_name = {f"{space}.{names[original]}": entry for original, entry in sorted(entries.items())}
        self.manifests = tuple(
            Manifest(full.rpartition(".")[2], space, entry.description, _parameters(entry), server.defer_loading)
            for full, entry in self.by_name.items()
        )
        self.revision = digest_json([[full, entry.claims()] for full, entry in self.by_name.items()])
        self._contracts: dict[str, Capability] = {}

    def contract(self, full_name: str) -> Capability | None:
        known = self._contracts.get(full_name)
        entry = self.by_name.get(full_name)
        if known is None and entry is not None:
            known = self._contracts[full_name] = self._capability(full_name, entry)
        return known

    def _capability(self, full_name: str, entry: Entry) -> Capability:
        server = self._server
        space, _, name = full_name.partition(".")
        default = ApprovalPolicy("manual" if entry.destructive and not entry.read_only else "none")
        takes, gap = self._input(full_name, entry)
        return Capability(
            name=name,
            namespace=space,
            description=f"{entry.description}{gap}".strip(),
            input_schema=takes,
            output_schema=self._output(full_name, entry),
            side_effect=SideEffect.READ if entry.read_only else SideEffect.EXTERNAL_SYSTEM,
            limits=CapabilityLimits(
                timeout_ms=server.call_timeout_ms,
                max_response_bytes=server.max_response_bytes,
                concurrency=server.concurrency,
            ),
            approval_policy=self._terms.policy(entry.original, name, default),
            idempotent=entry.read_only or entry.idempotent,
            defer_loading=server.defer_loading,
        )

    def _input(self, full_name: str, entry: Entry) -> tuple[dict[str, Any], str]:
        """A schema to hold arguments against. The server checks them too: without it a better message is lost."""
        given = {**(entry.input_schema or {}), "type": "object"}
        if entry.input_schema is not None and self._compiles(full_name, "input", given):
            return given, ""
        return {"type": "object"}, "\n\n(The schema of its arguments cannot be used; the server checks them.)"

    def _output(self, full_name: str, entry: Entry) -> dict[str, Any]:
        given = dict(entry.output_schema or {})
        return given if self._compiles(full_name, "output", given) else {}

    def _compiles(self, full_name: str, side: str, schema: dict[str, Any]) -> bool:
        try:
            Contract.compile(schema, what=f"the {side} schema of {full_name}")
        except InvalidInput as error:
            log.warning("%s: %s", self._server.what, error.message)
            return False
        return True


def _parameters(entry: Entry) -> tuple[str, ...]:
    properties = (entry.input_schema or {}).get("properties")
    return tuple(list(cast("dict[str, Any]", properties))[:_MOST_PARAMETERS]) if isinstance(properties, dict) else ()
