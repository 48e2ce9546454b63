"""Models behind the port: providers that are reached through their own SDKs, and scripted ones.

    registry   which model a name means
    settings   what is to be said about one; `table` reads it from configuration
    provided   Anthropic, OpenAI and whatever speaks like them; the only place that knows their SDKs
    scripted   answers from a file

Importing this imports no SDK: that takes a second, and is paid by the first request. Knows nothing of threads.
"""

from cloister.threads.models.registry import ModelEntry, ModelRegistry
from cloister.threads.models.scripted import Script, ScriptedModel, parse_script, read_script
from cloister.threads.models.settings import ModelSettings
from cloister.threads.models.table import read_model_table

__all__ = [
    "ModelEntry",
    "ModelRegistry",
    "ModelSettings",
    "Script",
    "ScriptedModel",
    "parse_script",
    "read_model_table",
    "read_script",
]
