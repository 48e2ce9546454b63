"""Whether a command sends traces and metrics, and where to: its flag, the configuration, the standard environment.

Where they are not wanted nothing of OpenTelemetry is imported.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from cloister import __version__
from cloister.app.config import Config
from cloister.cli.failures import UsageError

if TYPE_CHECKING:
    from cloister.telemetry import OpenTelemetry


def telemetry_of(
    flag: bool | None, config: Config, environment: Mapping[str, str]
) -> "AbstractContextManager[OpenTelemetry | None]":
    """To be held as long as the command works. Raises `InvalidInput` for what OTEL_* ask and there is not."""
    if not wanted(flag, config, environment):
        return nullcontext()
    try:
        from cloister.telemetry.exporting import exporting
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise UsageError(
            "telemetry needs the SDK of OpenTelemetry",
            "pip install 'cloister[telemetry]', or turn it off: --no-telemetry",
        ) from None
    endpoint, content = config.get("telemetry.endpoint"), config.get("telemetry.content")
    return exporting(environment, __version__, endpoint=endpoint, content=content)


def wanted(flag: bool | None, config: Config, environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        if flag:
            raise UsageError("--telemetry, and OTEL_SDK_DISABLED says that there is none", "unset OTEL_SDK_DISABLED")
        return False
    if flag is not None:
        return flag
    if (enabled := config.get("telemetry.enabled")) is not None:
        return enabled
    named = any(name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("ENDPOINT") for name in environment)
    return named or config.get("telemetry.endpoint") is not None
