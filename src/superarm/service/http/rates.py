"""How often a key may ask: a bucket of tokens each."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

BURST_S = 4.0
"""A key's bucket holds so many seconds of its rate."""

MOST_DEBT = 3.0
"""How many buckets a key may owe: after any request it waits for at most four of them to fill."""

_MOST_KEYS = 10_000
_LARGE = 0.75


class RateLimit:
    """Lets each key make `rate` requests per second on average, and `burst` at once."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with full buckets."""
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.RLock()  # endpoints charge from threads

    @property
    def affordable(self) -> float:
        """The most that one request can cost and be paid for in full."""
        return (_LARGE + MOST_DEBT) * self._burst

    def wait_s(self, key: str, cost: float = 1.0) -> int:
        """Take tokens from a key's bucket; return zero, or the seconds to wait instead."""
        with self._lock:
            level = self._level(key)
            # what exceeds a bucket needs one that is nearly full: its request has cost some already
            large = cost > _LARGE * self._burst and level >= _LARGE * self._burst
            if level >= cost or large:
                self.spend(key, cost)
                return 0
        return max(1, math.ceil((min(cost, self._burst) - level) / self._rate))

    def spend(self, key: str, cost: float) -> None:
        """Take tokens from a key's bucket for what was done already; it may owe some."""
        with self._lock:
            level = max(self._level(key) - cost, -MOST_DEBT * self._burst)
            self._buckets[key] = (level, self._clock())
            self._buckets.move_to_end(key)
            if len(self._buckets) > _MOST_KEYS:
                self._buckets.popitem(last=False)

    def _level(self, key: str) -> float:
        """Return what is in a key's bucket now."""
        now = self._clock()
        level, last = self._buckets.get(key, (self._burst, now))
        return min(self._burst, level + (now - last) * self._rate)
