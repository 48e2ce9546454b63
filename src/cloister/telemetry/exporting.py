"""A process that sends its traces and metrics to a collector, by OTLP over HTTP. The only file that needs the SDK.

The variables OTEL_* say what they say everywhere: where to, with which headers, what is sampled, under which name.
Providers are this host's own and not the process's: libraries that are here have spans of their own, with texts of
their errors in them, and nobody asked for those.
"""

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import Thread

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from cloister.core.errors import InvalidInput
from cloister.telemetry.open_telemetry import OpenTelemetry

log = logging.getLogger("cloister.telemetry")
_PROTOCOL = "http/protobuf"
# For what has not been sent when the process ends: a collector that is gone holds up nobody.
_LAST_SECONDS = 3


@contextmanager
def exporting(
    environment: Mapping[str, str], version: str, *, endpoint: str | None = None, content: bool = False
) -> Generator[OpenTelemetry, None, None]:
    """While it is held, what is shown to it is sent; `endpoint` comes before what the environment says. Raises
    `InvalidInput` for exporters and protocols that there are not."""
    traces, metrics = (_exports(environment, kind) for kind in ("TRACES", "METRICS"))
    base = endpoint.rstrip("/") if endpoint is not None else None
    resource = Resource.create({"service.version": version})
    if str(resource.attributes.get(SERVICE_NAME, "unknown")).startswith("unknown"):
        # What the SDK says when nobody has said anything.
        resource = resource.merge(Resource({SERVICE_NAME: "cloister"}))
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    readers: list[MetricReader] = []
    if traces:
        to = OTLPSpanExporter(endpoint=f"{base}/v1/traces" if base is not None else None)
        tracers.add_span_processor(BatchSpanProcessor(to))
    if metrics:
        away = OTLPMetricExporter(endpoint=f"{base}/v1/metrics" if base is not None else None)
        readers.append(PeriodicExportingMetricReader(away))
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    made = OpenTelemetry(tracer_provider=tracers, meter_provider=meters, content=content)
    try:
        yield made
    finally:
        made.close()
        # The SDK tries for as long as it would at any other time. What it is still at then goes with the process.
        last = [Thread(target=one.shutdown, daemon=True, name="cloister: telemetry") for one in (tracers, meters)]
        for thread in last:
            thread.start()
        until = time.monotonic() + _LAST_SECONDS
        for thread in last:
            thread.join(max(until - time.monotonic(), 0))
        if any(thread.is_alive() for thread in last):
            log.warning("not all telemetry could be sent within %s s", _LAST_SECONDS)


def _exports(environment: Mapping[str, str], kind: str) -> bool:
    exporter = environment.get(f"OTEL_{kind}_EXPORTER", "otlp")
    if exporter not in ("otlp", "none"):
        raise InvalidInput(f"OTEL_{kind}_EXPORTER is otlp or none here, not {exporter!r}")
    general = environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", _PROTOCOL)
    protocol = environment.get(f"OTEL_EXPORTER_OTLP_{kind}_PROTOCOL", general)
    if exporter == "otlp" and protocol != _PROTOCOL:
        raise InvalidInput(
            f"telemetry is sent as {_PROTOCOL}, not as {protocol!r}", hint="collectors take that at port 4318"
        )
    return exporter == "otlp"
