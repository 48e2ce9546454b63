"""What is measured: durations and tokens. Labels are few and of a bounded number of values: no id, no text."""

from opentelemetry.metrics import Histogram, MeterProvider, get_meter_provider

from cloister.core.usage import Usage
from cloister.telemetry import conventions as names

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)


class Meters:
    def __init__(self, provider: MeterProvider | None) -> None:
        meter = (provider or get_meter_provider()).get_meter("cloister")

        def seconds(name: str, what: str) -> Histogram:
            return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=_SECONDS)

        self._requests = seconds(names.HTTP_DURATION, "How long requests took")
        self._operations = seconds(names.OPERATION_DURATION, "How long a model took to answer")
        self._turns = seconds(names.TURN_DURATION, "How long turns took")
        self._cells = seconds(names.CELL_DURATION, "How long cells took, without the time that they slept")
        self._calls = seconds(names.CALL_DURATION, "How long calls took, without their wait for a person")
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE, "{token}", "Tokens of a request", explicit_bucket_boundaries_advisory=_TOKENS
        )

    def request(self, method: str, route: str, status: int, took: float) -> None:
        labels = {names.HTTP_METHOD: method, names.HTTP_ROUTE: route, names.HTTP_STATUS: status}
        self._requests.record(took, labels)

    def answer(self, provider: str, model: str, took: float, usage: Usage | None, error: str | None) -> None:
        labels = {names.OPERATION: names.CHAT, names.PROVIDER: provider, names.REQUEST_MODEL: model}
        self._operations.record(took, labels if error is None else {**labels, names.ERROR_TYPE: error})
        if usage is not None:
            self._tokens.record(usage.input_tokens, {**labels, names.TOKEN_TYPE: "input"})
            self._tokens.record(usage.output_tokens, {**labels, names.TOKEN_TYPE: "output"})

    def turn(self, status: str, took: float) -> None:
        self._turns.record(took, {names.TURN_STATUS: status})

    def cell(self, state: str, took: float) -> None:
        self._cells.record(took, {names.CELL_STATE: state})

    def call(self, tool: str, status: str, took: float) -> None:
        self._calls.record(took, {names.TOOL_NAME: tool, names.CALL_STATUS: status})
