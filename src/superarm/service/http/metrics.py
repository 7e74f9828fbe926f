"""Numbers for Prometheus, by its official client."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

Gauges = Mapping[str, tuple[str, float | Mapping[tuple[str, ...], float], tuple[str, ...]]]
"""Name -> meaning, value (or values by labels), names of labels."""


class Metrics:
    """Counts requests and how long they took."""

    def __init__(self) -> None:
        """Start at zero."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "superarm_requests",
            "Requests by path and status.",
            ("path", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "superarm_request_seconds",
            "How long requests took.",
            ("path",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._refused = Counter(
            "superarm_refused_connections",
            "Connections closed because there were too many, or they were too slow.",
            ("reason",),
            registry=self._registry,
        )

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a connection that was closed."""
        self._refused.labels(reason).inc()

    def show(self, gauges: Callable[[], Gauges]) -> None:
        """Ask for these whenever numbers are asked for."""
        self._registry.register(_Gauges(gauges))

    def text(self) -> bytes:
        """Return all numbers."""
        return generate_latest(self._registry)


class _Gauges(Collector):
    def __init__(self, gauges: Callable[[], Gauges]) -> None:
        self._gauges = gauges

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        for name, (meaning, value, labels) in self._gauges().items():
            full = f"superarm_{name}"
            if name.endswith("_total"):
                family: Metric = CounterMetricFamily(full, meaning, labels=labels)
            else:
                family = GaugeMetricFamily(full, meaning, labels=labels)
            values = value if isinstance(value, Mapping) else {(): value}
            for place, number in values.items():
                family.add_metric(place, number)  # type: ignore[attr-defined]
            yield family
