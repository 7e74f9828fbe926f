"""When old trips are to be folded: once a day, by a clock that does not jump."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from superarm.service.database import now_us

_DAY_US = 86_400_000_000
_EVERY_S = 86_400.0
_MOST_JUMP_S = 3_600.0


@dataclass(frozen=True)
class Clock:
    """The time of day beside one that only goes forward."""

    day_s: float = field(default_factory=time.time)
    steady_s: float = field(default_factory=time.monotonic)

    def jump_s(self) -> float:
        """Return how far the time of day has jumped since."""
        return (time.time() - self.day_s) - (time.monotonic() - self.steady_s)


class Housekeeping:
    """Says when it is time.

    Args:
        retain_days: after how many days trips are folded; zero for never.
        tell: called with what the server shall know.
    """

    def __init__(self, retain_days: float, tell: Callable[[dict[str, object]], None]) -> None:
        """Begin now."""
        self._days, self._tell = retain_days, tell
        self._clock = Clock()
        self._done_s = -np.inf

    def due_us(self) -> int | None:
        """Return before when trips must have been received to be folded; nothing if not now."""
        if self._days <= 0 or time.monotonic() - self._done_s < _EVERY_S:
            return None
        jump = self._clock.jump_s()
        if abs(jump) > _MOST_JUMP_S:
            self._clock = Clock()
            self.done()
            text = f"the clock has jumped by {jump:.0f} s; nothing is folded before it has been "
            self._tell({"note": text + "steady for a day"})
            return None
        return now_us() - int(self._days * _DAY_US)

    def done(self) -> None:
        """Wait for another day."""
        self._done_s = time.monotonic()
