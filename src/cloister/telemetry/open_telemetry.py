"""What a host is given: `Cloister(telemetry=OpenTelemetry())`. The port, over the API of OpenTelemetry.

Without providers of its own it uses the global ones, which the host has set up, or which record nothing.
"""

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagate import extract
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, TracerProvider

from cloister.core.strand import Strand
from cloister.ports.model import Model, Models
from cloister.telemetry import conventions as names
from cloister.telemetry.asked import SeenModel, SeenModels
from cloister.telemetry.meters import Meters
from cloister.telemetry.spans import Spans

log = logging.getLogger("cloister.telemetry")
# Asked for every few seconds by what watches a server.
_UNSEEN = frozenset({"/healthz", "/readyz", "/metrics"})
# Set in what the tool of a call does.
_CALL = create_key("cloister call")
# Of the headers of a request, what says which trace it belongs to.
_CARRIED = ("traceparent", "tracestate")


class OpenTelemetry:
    """`content`: whether what is said to models and by them is in the spans of their requests."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
    ) -> None:
        provider = tracer_provider or trace.get_tracer_provider()
        self._tracer = provider.get_tracer("cloister")
        self._meters = Meters(meter_provider)
        self._spans = Spans(self._tracer, self._meters)
        self._content = content

    def told(self, kind: str, session_id: str, data: Mapping[str, Any], strand: Strand | None) -> None:
        try:
            self._spans.told(kind, session_id, data, strand)
        # Containment: no call may fail because nobody could note it.
        except Exception:
            log.exception("%s could not be traced", kind)

    @contextmanager
    def within(self, call_id: str) -> Generator[None, None, None]:
        span = self._spans.call(call_id)
        if span is None:
            yield
            return
        token = attach(set_value(_CALL, True, trace.set_span_in_context(span)))
        try:
            yield
        finally:
            detach(token)

    @contextmanager
    def serving(self, path: str, headers: Mapping[bytes, bytes]) -> "Generator[Request, None, None]":
        if path in _UNSEEN:
            yield Request(INVALID_SPAN, None)
            return
        carrier = {name: value.decode("latin-1") for name in _CARRIED if (value := headers.get(name.encode()))}
        span = self._tracer.start_span("HTTP", extract(carrier), SpanKind.SERVER)
        token = attach(trace.set_span_in_context(span))
        try:
            yield Request(span, self._meters)
        finally:
            detach(token)
            span.end()

    def model(self, model: Model) -> Model:
        """One whose requests are seen, for hosts that ask models themselves."""
        return SeenModel(model, self._tracer, self._meters, self._asking, content=self._content)

    def models(self, models: Models) -> Models:
        return SeenModels(models, self.model)

    def ids(self) -> Mapping[str, str]:
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return {}
        return {
            "trace_id": trace.format_trace_id(found.trace_id),
            "span_id": trace.format_span_id(found.span_id),
        }

    def close(self) -> None:
        """What is still under way ends here, for the exporter to take."""
        self._spans.close()

    def _asking(self) -> Context | None:
        """Whose request to a model this is: a call's, a turn's, or that of whoever asks."""
        return None if get_value(_CALL) else self._spans.in_turn()


class Request:
    def __init__(self, span: Span, meters: Meters | None) -> None:
        self._span = span
        self._meters = meters
        self._began = time.perf_counter()

    def answered(self, method: str, route: str, status: int) -> None:
        if self._meters is None:
            return
        span, shown = self._span, method if method != "other" else names.OTHER
        span.update_name(f"{method} {route}" if route != "none" else method)
        span.set_attribute(names.HTTP_METHOD, shown)
        if route != "none":
            span.set_attribute(names.HTTP_ROUTE, route)
        if status:
            span.set_attribute(names.HTTP_STATUS, status)
        if status >= 500:
            span.set_attribute(names.ERROR_TYPE, str(status))
            span.set_status(Status(StatusCode.ERROR))
        self._meters.request(shown, route, status, time.perf_counter() - self._began)
