"""What an administrator should look at: raised once, kept until it is over."""

import logging
import threading
from collections import deque
from dataclasses import dataclass

from superarm.service.database import now_us

_KEPT = 100

logger = logging.getLogger("superarm.service")


@dataclass(frozen=True)
class Alarm:
    """Something that should not be."""

    kind: str
    reason: str
    since_us: int
    key_id: str | None = None


class Alarms:
    """Alarms that stand, and the last ones that were raised."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = threading.Lock()
        self._standing: dict[tuple[str, str | None], Alarm] = {}
        self.raised = 0
        self.past: deque[Alarm] = deque(maxlen=_KEPT)

    def say(self, kind: str, reason: str | None, key_id: str | None = None) -> None:
        """Raise an alarm, or with no reason let it rest."""
        with self._lock:
            if reason is None:
                self._standing.pop((kind, key_id), None)
                return
            if (kind, key_id) in self._standing:
                return
            alarm = Alarm(kind, reason, now_us(), key_id)
            self._standing[kind, key_id] = alarm
            self.past.append(alarm)
            self.raised += 1
        logger.error("alarm", extra={"kind": kind, "reason": reason, "key": key_id})

    def standing(self) -> list[Alarm]:
        """Return what is wrong now."""
        with self._lock:
            return list(self._standing.values())
