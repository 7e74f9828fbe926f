"""Numbers for Prometheus, in its text format."""

import threading
from collections import defaultdict
from collections.abc import Mapping

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counts requests and how long they took."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] += seconds
            place = sum(seconds > bound for bound in _BUCKETS)
            self._times[path][place] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all numbers, with gauges given as name -> (help, value)."""
        lines = []
        for name, (meaning, value) in gauges.items():
            full = f"superarm_{name}"
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [
                f"# HELP {full} {meaning}",
                f"# TYPE {full} {kind}",
                f"{full} {float(value)!r}",
            ]
        with self._lock:
            lines += [
                "# HELP superarm_requests_total Requests by path and status.",
                "# TYPE superarm_requests_total counter",
            ]
            lines += [
                f'superarm_requests_total{{path="{path}",status="{status}"}} {count}'
                for (path, status), count in sorted(self._requests.items())
            ]
            name = "superarm_request_seconds"
            lines += [f"# HELP {name} How long requests took.", f"# TYPE {name} histogram"]
            for path, counts in sorted(self._times.items()):
                total = 0
                for bound, count in zip((*_BUCKETS, "+Inf"), counts, strict=True):
                    total += count
                    lines.append(f'{name}_bucket{{path="{path}",le="{bound}"}} {total}')
                lines.append(f'{name}_sum{{path="{path}"}} {self._seconds[path]!r}')
                lines.append(f'{name}_count{{path="{path}"}} {total}')
        return "\n".join(lines) + "\n"
