"""The key of a model: from the variable that was named, or from the host's function, and from nowhere else.

Its text is in no error, and nothing here keeps it.
"""

from collections.abc import Mapping

from cloister.core.errors import ProviderUnconfigured
from cloister.ports.source import SourceFailed
from cloister.threads.models.settings import ModelSettings
from cloister.tools.sources.held import given


def check_key(settings: ModelSettings, environment: Mapping[str, str]) -> None:
    """Raises `ProviderUnconfigured` if the variable that has it is not set. A function is not asked."""
    variable = settings.key_variable
    if variable is not None and not environment.get(variable):
        raise ProviderUnconfigured(
            f"the model {settings.name!r} needs a key, and the environment has no variable {variable}",
            hint=f"set {variable}, or name another with api_key_env in a [models.NAME] table",
        )


def find_key(settings: ModelSettings, environment: Mapping[str, str]) -> str | None:
    """None where none is needed. Raises `ProviderUnconfigured`."""
    check_key(settings, environment)
    if settings.api_key is not None:
        key = _given(settings.api_key, settings, "its key")
    else:
        key = environment[settings.key_variable] if settings.key_variable is not None else None
    return _sendable(key, settings, "its key") if key is not None else None


def find_headers(settings: ModelSettings) -> dict[str, str]:
    """Raises `ProviderUnconfigured`."""
    found: dict[str, str] = {}
    for name, value in settings.headers.items():
        what = f"its header {name!r}"
        found[name.lower()] = _sendable(_given(value, settings, what), settings, what)
    return found


def _given(value: object, settings: ModelSettings, what: str) -> str:
    try:
        return given(value, f"the model {settings.name!r}: {what}")  # pyright: ignore[reportArgumentType]
    except SourceFailed as failed:
        raise ProviderUnconfigured(failed.message) from None


def _sendable(text: str, settings: ModelSettings, what: str) -> str:
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable():
        raise ProviderUnconfigured(f"the model {settings.name!r}: {what} is not one line of ASCII")
    return text
