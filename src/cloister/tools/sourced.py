"""A tool that a source offers: its manifest now, its contract when somebody needs it.

Sessions share it, so it knows none of them. Before `load` it has a name, a description and perhaps parameters, and
stands for the worst: a call of it could change anything and must not be made twice. What a source says of a tool is
held to the same forms as what a host declares; a contract that does not fit makes its own tool unusable, and no other.
"""

from dataclasses import replace
from typing import Any, cast

from cloister.core.capability import Capability, SideEffect
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.ports.source import Manifest, SourceCall, SourceFailed, ToolSource
from cloister.tools.context import CallContext
from cloister.tools.given import Shape
from cloister.tools.signature import BadArguments, Bound
from cloister.tools.tool import Tool, ToolError
from cloister.tools.unwrap import unwrap

# The code of a call whose source cannot be reached.
SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"


class SourcedTool(Tool):
    """`namespace` replaces the one of the manifest."""

    def __init__(self, source: ToolSource, manifest: Manifest, namespace: str | None = None) -> None:
        self.source = source
        self.manifest = manifest
        self._declare(self._carry, manifest.name, namespace or manifest.namespace)
        self._describe(manifest.description)
        self._govern(SideEffect.EXTERNAL_SYSTEM, None, "none", False)
        self.defer_loading = manifest.defer_loading
        self.parameters = manifest.parameters
        self._signature = None
        self._input = self._given_output = None
        self._shape = Shape(is_array=False)
        self.takes_context = "context"
        self.is_known = self.is_ready = False
        self._told: Capability | None = None

    async def load(self) -> None:
        """Ask for its contract, unless it is known. Raises `SourceFailed`, or `InvalidInput` for one that is not
        usable."""
        if self._told is None:
            asked = self.manifest.full_name
            told = await self.source.contract(asked)
            if told.full_name != asked:
                raise InvalidInput(
                    f"source {self.source.name!r} was asked for {asked!r} and told of {told.full_name!r}"
                )
            self._learn(told)

    async def make_ready(self) -> None:
        """Load it and compile its schemas; raises as `load` does."""
        await self.load()
        if not self.is_ready:
            told = self.capability
            given = self._compile("input", told.input_schema)
            assert given is not None
            self._given_output = self._compile("output", told.output_schema) if told.output_schema else None
            self._input = given
            self.is_ready = True

    def in_namespace(self, namespace: str) -> "SourcedTool":
        """The same tool under another name."""
        made = SourcedTool(self.source, self.manifest, namespace)
        if self._told is not None:
            made._learn(self._told)
        return made

    def is_same(self, other: "SourcedTool") -> bool:
        """Whether a program could tell them apart."""
        return self.manifest == other.manifest and self._told == other._told

    def _learn(self, told: Capability) -> None:
        self._govern(told.side_effect, told.limits, told.approval_policy, told.idempotent)
        properties: Any = told.input_schema.get("properties")
        names = tuple(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else ()
        self._shape = Shape(is_array=told.input_schema.get("type") == "array", positions=names)
        self.parameters = names or self.parameters
        described = told.description or self.manifest.description
        self._describe(described)
        self._told, self.is_known = told, True
        # What was said while nothing was known.
        for made in ("capability", "capability_digest", "digest", "_output"):
            self.__dict__.pop(made, None)

    def make_capability(self) -> Capability:
        told = self._told
        if told is None:
            told = Capability(self.name, input_schema={}, side_effect=self.side_effect, idempotent=False)
        return replace(
            told,
            name=self.name,
            namespace=self.namespace,
            description=self.description,
            defer_loading=self.defer_loading,
        )

    # -- a call ----------------------------------------------------------------------------------------------------

    def bind(self, arguments: Json) -> Bound:
        if not isinstance(arguments, (dict, list)):
            raise BadArguments("expected arguments by name or in order")
        return Bound(kwargs={"arguments": arguments})

    def unwrap(self, value: Any) -> Any:
        return unwrap(value)

    async def _carry(self, *, arguments: Json, context: CallContext) -> Json:
        about = SourceCall(
            session_id=context.session_id,
            cell_id=context.cell_id,
            call_id=context.call_id,
            idempotency_key=context.idempotency_key,
            remaining_ms=context.remaining_ms,
            progress=context.progress,
        )
        try:
            return await self.source.call(self.manifest.full_name, arguments, about)
        except SourceFailed as failed:
            raise ToolError(SOURCE_UNAVAILABLE if failed.gone else "TOOL_ERROR", failed.message, failed.hint) from None


__all__ = ["SOURCE_UNAVAILABLE", "SourcedTool"]
