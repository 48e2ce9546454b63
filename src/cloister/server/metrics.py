"""Counts and durations, as Prometheus reads them. Labels are names of ours only: no id, path or token of a client."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Durations:
    __slots__ = ("buckets", "count", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.count = 0
        self.total = 0.0


class Metrics:
    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[tuple[str, str], _Durations] = {}
        self._counts: Counter[str] = Counter()
        # What is asked when somebody reads.
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests[method, route, status] += 1
        spent = self._durations.get((method, route))
        if spent is None:
            spent = self._durations[method, route] = _Durations()
        spent.buckets[bisect_left(_BOUNDS, seconds)] += 1
        spent.count += 1
        spent.total += seconds

    def count(self, name: str) -> None:
        self._counts[name] += 1

    def gauge(self, name: str, what: str, read: Callable[[], float]) -> None:
        self._gauges[name] = (what, read)

    def text(self) -> str:
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield "# HELP cloister_http_requests_total Requests that were answered."
        yield "# TYPE cloister_http_requests_total counter"
        for (method, route, status), number in sorted(self._requests.items()):
            labels = _labels({"method": method, "route": route, "status": str(status)})
            yield f"cloister_http_requests_total{labels} {number}"
        yield "# HELP cloister_http_request_seconds How long they took."
        yield "# TYPE cloister_http_request_seconds histogram"
        for (method, route), spent in sorted(self._durations.items()):
            own, below = {"method": method, "route": route}, 0
            for bound, number in zip(_BOUNDS, spent.buckets, strict=False):
                below += number
                yield f"cloister_http_request_seconds_bucket{_labels({**own, 'le': f'{bound:g}'})} {below}"
            yield f"cloister_http_request_seconds_bucket{_labels({**own, 'le': '+Inf'})} {spent.count}"
            yield f"cloister_http_request_seconds_sum{_labels(own)} {spent.total:.6f}"
            yield f"cloister_http_request_seconds_count{_labels(own)} {spent.count}"
        for name, number in sorted(self._counts.items()):
            yield f"# TYPE cloister_{name}_total counter"
            yield f"cloister_{name}_total {number}"
        for name, (what, read) in self._gauges.items():
            yield f"# HELP cloister_{name} {what}"
            yield f"# TYPE cloister_{name} gauge"
            yield f"cloister_{name} {read():g}"


def _labels(labels: Mapping[str, str]) -> str:
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text in labels.items()
    }
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}"
