"""What every test of a source needs: what it may know of a call, and its tools as a session takes them."""

from collections.abc import Mapping
from typing import Any

from cloister.core.value import Json
from cloister.ports.source import SourceCall, SourceFailed, ToolSource
from cloister.tools import CallContext, Tool, ToolError


def about(progress: list[tuple[str, float | None]] | None = None, *, remaining_ms: float = 60_000) -> SourceCall:
    heard: list[tuple[str, float | None]] = [] if progress is None else progress
    return SourceCall("ses", "cel", "cal", "key", remaining_ms, lambda text, share: heard.append((text, share)))


async def failure_of(source: ToolSource, name: str, arguments: Mapping[str, Json] | None = None) -> SourceFailed:
    try:
        value = await source.call(name, dict(arguments or {}), about())
    except SourceFailed as failed:
        return failed
    raise AssertionError(f"{name} returned {value!r}")


async def tools_of(source: ToolSource) -> list[Tool]:
    return [await _tool(source, manifest.full_name) for manifest in await source.manifests()]


async def _tool(source: ToolSource, name: str) -> Tool:
    found = await source.contract(name)

    async def handler(call_context: CallContext, **arguments: Any) -> Any:
        context = call_context
        call = SourceCall(
            context.session_id,
            context.cell_id,
            context.call_id,
            context.idempotency_key,
            context.remaining_ms,
            context.report,
        )
        try:
            return await source.call(name, arguments, call)
        except SourceFailed as failed:
            raise ToolError("TOOL_ERROR", failed.message, failed.hint) from None

    return Tool.from_schema(
        name=found.name,
        namespace=found.namespace,
        description=found.description,
        handler=handler,
        input_schema=found.input_schema,
        output_schema=found.output_schema,
        side_effect=found.side_effect,
        limits=found.limits,
        approval_policy=found.approval_policy,
        idempotent=found.idempotent,
    )
