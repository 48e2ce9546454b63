"""What every test of a source needs: what it may know of a call, and how one failed."""

from collections.abc import Mapping

from cloister.core.value import Json
from cloister.ports.source import SourceCall, SourceFailed, ToolSource


def about(progress: list[tuple[str, float | None]] | None = None, *, remaining_ms: float = 60_000) -> SourceCall:
    heard: list[tuple[str, float | None]] = [] if progress is None else progress
    return SourceCall("ses", "cel", "cal", "key", remaining_ms, lambda text, share: heard.append((text, share)))


async def failure_of(source: ToolSource, name: str, arguments: Mapping[str, Json] | None = None) -> SourceFailed:
    try:
        value = await source.call(name, dict(arguments or {}), about())
    except SourceFailed as failed:
        return failed
    raise AssertionError(f"{name} returned {value!r}")
