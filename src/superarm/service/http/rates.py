"""How often a key may ask: a bucket of tokens each."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

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

    def spend(self, key: str, cost: float) -> None:
        """Take tokens for what a request has taken beyond its price; a debt is a burst at most."""
        now = self._clock()
        level, last = self._buckets.pop(key, (self._burst, now))
        level = min(self._burst, level + (now - last) * self._rate)
        self._buckets[key] = (max(level - cost, -self._burst), now)

    def wait_s(self, key: str, cost: float = 1.0) -> int:
        """Take tokens from a key's bucket; return zero, or the seconds to wait instead."""
        now = self._clock()
        level, last = self._buckets.pop(key, (self._burst, now))
        level = min(self._burst, level + (now - last) * self._rate)
        # what exceeds a bucket needs one that is nearly full: its request has cost some already
        enough = level >= cost or (cost > _LARGE * self._burst and level >= _LARGE * self._burst)
        self._buckets[key] = (level - cost if enough else level, now)
        if len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)
        return 0 if enough else max(1, math.ceil((min(cost, self._burst) - level) / self._rate))
