"""Traces and metrics by OpenTelemetry: the only room that knows it. It knows no session, engine or store.

It is shown what happens (`ports.telemetry`) and makes spans and measurements of it. Of programs, prompts and results
nothing is in them unless the host says so; what programs may choose never becomes a label of a metric. The names are
those of the conventions, all of them in `conventions`. The SDK is imported by `exporting` alone.

Needs `opentelemetry-api`; `pip install 'cloister[telemetry]'` has the SDK and an exporter too.
"""

from cloister.telemetry.open_telemetry import OpenTelemetry

__all__ = ["OpenTelemetry"]
