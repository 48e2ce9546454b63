"""The names are those that the published conventions have."""

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, http_attributes

from cloister.telemetry import conventions


def test_every_name_that_is_not_ours_is_published() -> None:
    published = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics, http_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    } | {"http.server.request.duration"}
    own = {value for name, value in vars(conventions).items() if name.isupper() and isinstance(value, str)}
    dotted = {value for value in own if "." in value and not value.startswith("cloister.")}
    assert len(dotted) > 20
    assert dotted <= published
