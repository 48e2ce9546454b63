"""Telemetry that ends in memory, with the real SDK."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cloister.telemetry import OpenTelemetry


class Seen:
    def __init__(self, *, content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.telemetry = OpenTelemetry(tracer_provider=tracers, meter_provider=meters, content=content)
        self.provider = tracers

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in the order in which they did."""
        return list(self._exporter.get_finished_spans())

    def named(self, start: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith(start)]

    def one(self, start: str) -> ReadableSpan:
        found = self.named(start)
        assert len(found) == 1, [span.name for span in self.spans]
        return found[0]

    def points(self, metric: str) -> list[tuple[dict[str, Any], int]]:
        """The labels of a histogram, and how many were measured under them."""
        data = self._reader.get_metrics_data()
        found = [
            point
            for of_resource in (data.resource_metrics if data is not None else ())
            for of_scope in of_resource.scope_metrics
            for one in of_scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]
        return [(dict(point.attributes or {}), point.count) for point in found if isinstance(point, HistogramDataPoint)]

    def everything(self) -> str:
        """All that anybody could read in it."""
        return " ".join(span.to_json() for span in self.spans)


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    here, there = span.get_span_context(), of.get_span_context()
    assert here is not None
    assert there is not None
    return span.parent is not None and span.parent.span_id == there.span_id and here.trace_id == there.trace_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
