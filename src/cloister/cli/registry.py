"""The models of a server's threads: the one that is meant when nobody names one, those of `[models.NAME]` tables, and
those that clients may name beside them. Others may not be: a name can be that of a file, or cost money.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from cloister.app.config import Config

if TYPE_CHECKING:
    from cloister.threads.models import ModelRegistry


def registry_of(config: Config, model: str | None) -> "tuple[ModelRegistry | None, str | None]":
    """The registry, to be entered, and the name of the default model. None where nobody has said anything of models.
    Raises what keeps the default from being asked."""
    item = config.items["threads.model"]
    default = model if model is not None else item.value
    asked = config.complete()
    own = [asked.model] if asked is not None and asked.model is not None else []
    wanted: list[str] = [*([default] if default is not None else []), *config.get("threads.models"), *own]
    named = list(dict.fromkeys(wanted))
    configured = config.models()
    if not named and not configured:
        return None, None
    from cloister.threads.models import ModelRegistry

    tables = {one.name for one in configured}
    base = item.origin.source.path.parent if model is None and item.origin.source is not None else Path()
    registry = ModelRegistry(
        configured, allowed=[one for one in named if one not in tables], environment=config.environment, base=base
    )
    for name in named:
        # Now, and not when somebody talks to it: a name that is none, a file that is not there, a key that is missing.
        registry.get(name)
    return registry, default
