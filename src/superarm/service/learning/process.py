"""The learner as seen by the server: starts it, swaps posteriors, starts it again if it dies."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from superarm.roads.models.fleet import Fleet
from superarm.roads.models.posterior import RoadPosterior
from superarm.service.learning.learner import LearnerSettings
from superarm.service.learning.shared import SharedPosteriors

_PATIENCE_S = 60.0


@dataclass(eq=False)
class Current:
    """The posterior in use, and what is known about learning.

    Attributes:
        posterior: what is believed.
        distinct: how many edges were part of a measurement.
        lag_s: how old the oldest trip of the last batch was.
        mark: how far the learner has read.
        surprises: how the trips of every key surprise now, in deviations.
        drift: that most keys are surprised the same way, if so.
        contradiction: that trips of all keys scatter otherwise than predicted, if so.
    """

    posterior: RoadPosterior
    distinct: int
    lag_s: float
    mark: int
    surprises: dict[str, float]
    drift: str | None
    contradiction: str | None


class Posteriors:
    """The posterior in use; one that was replaced is given back when nobody reads it any more."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = threading.Condition()
        self._current: Current | None = None
        self._readers: dict[int, int] = {}

    @property
    def current(self) -> Current | None:
        """What is believed now: to look at numbers, not at what lies in shared memory."""
        return self._current

    @contextmanager
    def reading(self) -> Iterator[Current]:
        """Yield the posterior, which stays as it is until the end."""
        with self._lock:
            current = self._current
            if current is None:
                msg = "there is no posterior yet"
                raise LookupError(msg)
            self._readers[id(current)] = self._readers.get(id(current), 0) + 1
        try:
            yield current
        finally:
            with self._lock:
                self._readers[id(current)] -= 1
                if not self._readers[id(current)]:
                    del self._readers[id(current)]
                self._lock.notify_all()

    def swap(self, current: Current) -> None:
        """Put another one in its place; when this returns, nobody reads the one before."""
        with self._lock:
            before, self._current = self._current, current
            self._lock.wait_for(lambda: before is None or id(before) not in self._readers)


class Learning:
    """Owns the learner process.

    Args:
        settings: for the learner; the handle of the memory is filled in.
        shared: the memory.
        fleet: whose roads.
        swap: called with every new posterior, in a thread of this class; when it returns, nobody
            reads the one before.
        told: called with the kind (``note``, ``alarm``, ``away``) and the text of what the learner
            has to say.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        shared: SharedPosteriors,
        fleet: Fleet,
        swap: Callable[[Current], None],
        told: Callable[[str, Any], None],
    ) -> None:
        """Start the process."""
        self._settings = settings
        self._shared = shared
        self._fleet = fleet
        self._swap = swap
        self._told = told
        self._stopping = False
        self._slot = -1  # which one is being read
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self.restarts = 0
        self.failures = 0  # deaths since the last posterior
        self._process = self._started()
        self._thread = threading.Thread(target=self._listen, name="learning", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Say that there are new trips."""
        self._send({"wake": True})

    def stop(self) -> None:
        """Let the learner write a snapshot and end."""
        with self._lock:
            self._stopping = True
        self._ending.set()
        self._send({"stop": True})
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._told(
                "note",
                f"the learner did not end within {_PATIENCE_S:.0f} s and was killed; what it had "
                "not saved is learned again at the next start",
            )
        self._thread.join(_PATIENCE_S)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._thread.is_alive() and self._process.poll() is None

    def _started(self) -> subprocess.Popen[str]:
        settings = replace(self._settings, handle=self._shared.handle, busy_slot=self._slot)
        process = subprocess.Popen(
            [sys.executable, "-m", "superarm.service.learning.learner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(self._shared.handle,),
            text=True,
        )
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        # secrets go through the pipe: everybody on a machine can read command lines
        with contextlib.suppress(BrokenPipeError):  # it has ended; the listener sees to it
            process.stdin.write(json.dumps(asdict(settings)) + "\n")
            process.stdin.flush()
        return process

    def _listen(self) -> None:
        while True:
            assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
            for line in self._process.stdout:
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, RuntimeError) as error:
                    self._told("note", f"the learner said {line[:200]!r}: {error}")
            self._process.wait()
            if self._stopping:
                return
            self.restarts += 1
            self.failures += 1
            ended = f"the learner ended with code {self._process.returncode}; starting it again"
            self._told("note", ended)
            if self._ending.wait(min(self.restarts, 10)):
                return
            if not self._start_again():
                return

    def _start_again(self) -> bool:
        with self._lock:
            if not self._stopping:
                self._process = self._started()
            return not self._stopping

    def _take(self, message: dict[str, Any]) -> None:
        for kind in ("note", "alarm", "away"):
            if kind in message:
                self._told(kind, message[kind])
                return
        facts = message["posterior"]
        posterior = self._shared.read(
            facts["slot"],
            self._fleet,
            version=facts["version"],
            trips=facts["trips"],
            spread=facts["spread"],
            spreads=facts["spreads"],
            time_factors=facts["time_factors"],
        )
        self.failures = 0
        before = self._slot
        names = ("distinct", "lag_s", "mark", "surprises", "drift", "contradiction")
        self._swap(Current(posterior, **{name: facts[name] for name in names}))
        self._slot = facts["slot"]
        if before not in (-1, self._slot):
            self._send({"free": before})

    def _send(self, message: dict[str, object]) -> None:
        with self._lock:
            try:
                assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
                self._process.stdin.write(json.dumps(message) + "\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # it has ended; the listener sees to it
