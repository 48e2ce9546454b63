"""What programs may do with their host beside the tools that it gives them: ask a model. Off, unless it is said."""

from collections.abc import Sequence

from cloister.ports.journal import Journal
from cloister.ports.model import Models
from cloister.threads.complete import check_complete, complete_tool
from cloister.tools.tool import Tool


def inside_tools(complete: object, models: Models | None, model: str | None, journals: Sequence[Journal]) -> list[Tool]:
    """Base tools of the host. Those of `journals` are there before any of these is called."""
    if complete is None:
        return []
    return [complete_tool(*check_complete(complete, models, model), journals)]
