"""Stage 1: from the name that a program wrote to the tool, with its contract known.

A cell sees the offers of sources as they were when it began: of a tool that has changed since, it calls what it knew,
and one that is no longer offered to its session is refused by name.
"""

import asyncio
import difflib
import logging

from cloister.core.call import CallStatus
from cloister.core.codes import Code
from cloister.core.errors import InvalidInput
from cloister.gate.refusal import Refusal, refuse
from cloister.ports.source import SourceFailed
from cloister.tools.offered import Offered
from cloister.tools.registry import ToolRegistry
from cloister.tools.sourced import SOURCE_UNAVAILABLE
from cloister.tools.tool import Tool

log = logging.getLogger("cloister.gate")
# Comparing texts is quadratic, and no tool has a name this long.
_LONGEST = 100
# Of which source's words, too, no more is told.
_LONGEST_SAID = 1000


def find(registry: ToolRegistry, name: str, began_with: Offered | None = None) -> Tool | None:
    tool = registry.get(name)
    if tool is not None and began_with is not None and registry.offered.tools.get(name) is tool:
        return began_with.tools.get(name, tool)
    return tool


def resolve(registry: ToolRegistry, name: str, began_with: Offered | None = None) -> Tool:
    tool = find(registry, name, began_with)
    if tool is not None:
        return tool
    whose = registry.offered.orphans.get(name)
    if whose is not None:
        raise refuse(
            Code.UNKNOWN_TOOL,
            f"the tool `{name}` is gone: {whose} does not offer it any more",
            "it can be called again once it is offered again",
        )
    close = difflib.get_close_matches(name, registry.names(), n=1) if len(name) <= _LONGEST else []
    shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    raise refuse(Code.UNKNOWN_TOOL, f"there is no tool `{shown}`", f"did you mean `{close[0]}`?" if close else None)


async def make_ready(tool: Tool) -> None:
    """Have the tool's contract, within the time that a call of it has. Raises `Refusal`."""
    name, patience_ms = tool.full_name, tool.limits.timeout_ms
    try:
        async with asyncio.timeout(patience_ms / 1000):
            await tool.make_ready()
    except TimeoutError:
        raise refuse(
            Code.TIMEOUT_TOOL,
            f"what `{name}` takes was not known within {patience_ms} ms",
            "try again",
            CallStatus.TIMEOUT,
        ) from None
    except SourceFailed as failed:
        code = SOURCE_UNAVAILABLE if failed.gone else Code.UNKNOWN_TOOL
        raise refuse(code, f"`{name}` cannot be called: {failed.message[:_LONGEST_SAID]}", failed.hint) from None
    except InvalidInput as bad:
        raise _unusable(name, bad.message) from None
    # Containment: a source is the host's code, and one that breaks costs no more than its own tool.
    except Exception:
        log.exception("the contract of tool %s could not be had", name)
        raise _unusable(name, "its contract could not be had") from None


def _unusable(name: str, why: str) -> Refusal:
    return refuse(Code.TOOL_ERROR, f"`{name}` cannot be called: {why[:_LONGEST_SAID]}")
