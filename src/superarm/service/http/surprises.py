"""What keys report now: how many of their trips are refused, and whether that is theirs alone.

A key whose trips are refused again and again is set aside. Where most keys are refused, or surprise
far beyond what the model allows, it is the model that is wrong: its deviations are widened until it
has learned, and nobody is set aside.
"""

import threading
from collections import deque
from collections.abc import Sequence

import numpy as np

from superarm.service.learning.common import FEWEST_KEYS
from superarm.service.trips.intake import Checked

RECENT = 20
"""How many trips of a key are looked at."""

MOST_REFUSED = 4
"""So many refused trips among them are not chance (an honest one is refused once in a thousand)."""

_ENOUGH = 5
_MOST_KEYS = 10_000
_MOST_Z = 10.0
_WIDER = 1.5
_WIDEST = 10.0


class Surprises:
    """The last trips of every key, of one server."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = threading.Lock()
        self._last: dict[str, deque[tuple[float, bool]]] = {}

    def after(self, items: Sequence[Checked]) -> dict[str, str]:
        """Take note of trips that are new; return keys to set aside, and why."""
        with self._lock:
            for item in items:
                if not item.has_energy:  # times are looked at by themselves
                    continue
                if len(self._last) > _MOST_KEYS:
                    self._last.clear()
                last = self._last.setdefault(item.key_id, deque(maxlen=RECENT))
                z = float(np.clip(item.z, -_MOST_Z, _MOST_Z))
                last.append((z, item.implausible is not None))
            refused = {
                key: count
                for key, last in self._last.items()
                if (count := sum(bad for _, bad in last)) >= MOST_REFUSED
            }
            heard = [key for key, last in self._last.items() if len(last) >= _ENOUGH]
            if len(heard) >= FEWEST_KEYS and 2 * len(refused) > len(heard):
                return {}
            mine = {item.key_id for item in items}
            return {
                key: f"{count} of its last {len(self._last[key])} trips are not plausible"
                for key, count in refused.items()
                if key in mine
            }

    def forget(self, key_id: str) -> None:
        """Begin again with a key."""
        with self._lock:
            self._last.pop(key_id, None)

    def widened(self) -> float:
        """Return what to multiply the deviations of the gate by: one, unless most keys surprise."""
        with self._lock:
            sizes = [
                float(np.sqrt(np.mean([z * z for z, _ in last])))
                for last in self._last.values()
                if len(last) >= _ENOUGH
            ]
        if len(sizes) < FEWEST_KEYS:
            return 1.0
        usual = float(np.median(sizes))
        return min(usual, _WIDEST) if usual > _WIDER else 1.0
