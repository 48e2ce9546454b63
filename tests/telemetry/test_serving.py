"""Spans of requests, from a real server; what a server logs; and what it sends to a real collector."""

import json
import logging
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cloister import InvalidInput
from cloister.server.logs import JsonLines
from cloister.telemetry.exporting import exporting
from cloister.threads.models import ModelRegistry
from tests.server.lab import running
from tests.telemetry.lab import Seen, attributes, is_child


def test_a_request_is_the_parent_of_the_cell_that_it_runs(tmp_path: Path) -> None:
    seen = Seen()
    with running(f"sqlite:///{tmp_path}/c.db?synchronous=normal", telemetry=seen.telemetry) as server:
        with server.client() as client:
            client.post("/v1/sessions", json={"id": "s"}).raise_for_status()
            parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            body = {"code": "await get_order(order_id='A7')"}
            answer = client.post("/v1/sessions/s/run", json=body, headers={"traceparent": parent})
            assert answer.json()["status"] == "ok"
            client.get("/healthz")
            client.get("/v1/sessions/none")
            client.get("/no/such/path")
    run = seen.one("POST /v1/sessions/{session_id}/run")
    assert run.parent is not None
    assert format(run.parent.span_id, "016x") == "b7ad6b7169203331"
    assert format(run.parent.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    cell = seen.one("cell")
    assert is_child(cell, of=run)
    assert is_child(seen.one("execute_tool get_order"), of=cell)
    assert attributes(run) == {
        "http.request.method": "POST",
        "http.route": "/v1/sessions/{session_id}/run",
        "http.response.status_code": 200,
    }
    assert [attributes(span)["http.response.status_code"] for span in seen.named("GET")] == [404, 404]
    assert not any("health" in span.name or "such" in span.name for span in seen.spans)
    routes = {labels.get("http.route") for labels, _ in seen.points("http.server.request.duration")}
    assert "/v1/sessions/{session_id}/run" in routes


def test_a_turn_that_was_asked_for_over_http_is_one_trace_down_to_its_calls(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(
        "answers:\n"
        "  - calls:\n"
        "      - {tool: exec, arguments: {code: 'await get_order(order_id=\"A7\")'}}\n"
        "  - text: it is there\n"
    )
    seen = Seen()
    models = ModelRegistry(base=tmp_path)
    store = f"sqlite:///{tmp_path}/c.db?synchronous=normal"
    with running(store, telemetry=seen.telemetry, models=models, model="scripted:script.yaml") as server:
        with server.client() as client:
            thread = client.post("/v1/threads", json={}).raise_for_status().json()
            asked = client.post(f"/v1/threads/{thread['id']}/turns", json={"input": "where is A7?"}).raise_for_status()
            turn_id = asked.json()["turn"]["id"]
            with client.stream("GET", f"/v1/threads/{thread['id']}/events") as events:
                for line in events.iter_lines():
                    if line == "event: turn.completed":
                        break
    request, turn = seen.one("POST /v1/threads/{thread_id}/turns"), seen.one("invoke_agent")
    assert attributes(turn)["cloister.turn.id"] == turn_id
    assert is_child(turn, of=request)
    assert [is_child(chat, of=turn) for chat in seen.named("chat script.yaml")] == [True, True]
    cell = seen.one("cell")
    assert is_child(cell, of=turn)
    assert is_child(seen.one("execute_tool get_order"), of=cell)


def test_lines_of_the_log_say_which_trace_they_belong_to() -> None:
    seen = Seen()
    lines = JsonLines(seen.telemetry.ids)
    record = logging.LogRecord("cloister.server", logging.INFO, "", 0, "hello", None, None)
    assert "trace_id" not in json.loads(lines.format(record))
    with seen.telemetry.serving("/v1/sessions", {}):
        said = json.loads(lines.format(record))
    context = seen.spans[0].get_span_context()
    assert context is not None
    assert said["trace_id"] == format(context.trace_id, "032x")
    assert said["span_id"] == format(context.span_id, "016x")


class Collector(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.came: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert isinstance(self.server, Collector)
        self.server.came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def collector() -> Generator[Collector, None, None]:
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_traces_and_metrics_reach_a_collector(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc")
    with exporting({}, "1.2.3", endpoint=collector.url + "/") as telemetry:
        with running(f"sqlite:///{tmp_path}/c.db?synchronous=normal", telemetry=telemetry) as server:
            with server.client() as client:
                client.post("/v1/sessions", json={"id": "s"}).raise_for_status()
                client.post("/v1/sessions/s/run", json={"code": "'darkest secret'"}).raise_for_status()
    paths = {path for path, _, _ in collector.came}
    assert paths == {"/v1/traces", "/v1/metrics"}
    assert {heads["x-key"] for _, heads, _ in collector.came} == {"abc"}
    assert not any(b"darkest" in body for _, _, body in collector.came)
    spans: list[str] = []
    metrics: set[str] = set()
    for path, _, body in collector.came:
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            spans += [one.name for found in traces.resource_spans for of in found.scope_spans for one in of.spans]
            told = {one.key: one.value.string_value for one in traces.resource_spans[0].resource.attributes}
            assert (told["service.name"], told["service.version"]) == ("cloister", "1.2.3")
        else:
            of_all = ExportMetricsServiceRequest.FromString(body)
            metrics |= {
                one.name for found in of_all.resource_metrics for of in found.scope_metrics for one in of.metrics
            }
    assert "cell" in spans
    assert "POST /v1/sessions/{session_id}/run" in spans
    assert {"http.server.request.duration", "cloister.cell.duration"} <= metrics


def test_a_collector_that_is_not_there_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with Collector() as gone:
        nowhere = gone.url
    with exporting({}, "1", endpoint=nowhere) as telemetry:
        with running(f"sqlite:///{tmp_path}/c.db?synchronous=normal", telemetry=telemetry) as server:
            with server.client() as client:
                client.post("/v1/sessions", json={"id": "s"}).raise_for_status()
    # What would still be trying in other tests takes numbers from `random` for its patience, which property tests mind.
    for thread in threading.enumerate():
        if thread.name == "cloister: telemetry":
            thread.join()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is otlp or none here, not 'zipkin'"),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, "OTEL_METRICS_EXPORTER is otlp or none here, not 'prometheus'"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "telemetry is sent as http/protobuf, not as 'grpc'"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "telemetry is sent as http/protobuf, not as 'http/json'"),
    ],
)
def test_what_there_is_not_is_refused_by_name(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        with exporting(environment, "1"):
            pass


def test_what_is_not_wanted_is_not_sent(collector: Collector) -> None:
    with exporting({"OTEL_TRACES_EXPORTER": "none"}, "1", endpoint=collector.url) as telemetry:
        with telemetry.serving("/v1/sessions", {}) as serving:
            serving.answered("GET", "/v1/sessions", 200)
    assert {path for path, _, _ in collector.came} == {"/v1/metrics"}
