"""The learner as seen by the server: starts it, swaps posteriors, starts it again if it dies."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from superarm.service.learner import LearnerSettings, encoded
from superarm.service.posterior import RoadPosterior
from superarm.service.shared import SharedPosteriors

_PATIENCE_S = 60.0


@dataclass(frozen=True, eq=False)
class Current:
    """The posterior in use, and what is known about learning."""

    posterior: RoadPosterior
    distinct: int
    lag_s: float
    mark: int


class Learning:
    """Owns the learner process.

    Args:
        settings: for the learner; the handle of the memory is filled in.
        shared: the memory.
        noise_std: of one measured edge.
        swap: called with every new posterior, in a thread of this class; when it returns, nobody
            reads the one before.
        note: called with what the learner has to say.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        shared: SharedPosteriors,
        noise_std: float,
        swap: Callable[[Current], None],
        note: Callable[[str], None],
    ) -> None:
        """Start the process."""
        self._settings = settings
        self._shared = shared
        self._noise_std = noise_std
        self._swap = swap
        self._note = note
        self._stopping = False
        self._slot = -1  # which one is being read
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self.restarts = 0
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
        self._thread.join(_PATIENCE_S)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._thread.is_alive() and self._process.poll() is None

    def _started(self) -> subprocess.Popen[str]:
        settings = replace(self._settings, handle=self._shared.handle, busy_slot=self._slot)
        return subprocess.Popen(  # noqa: S603 - the project's own module
            [sys.executable, "-m", "superarm.service.learner", encoded(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(self._shared.handle,),
            text=True,
        )

    def _listen(self) -> None:
        while True:
            assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
            for line in self._process.stdout:
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, RuntimeError) as error:
                    self._note(f"the learner said {line[:200]!r}: {error}")
            self._process.wait()
            if self._stopping:
                return
            self.restarts += 1
            self._note(f"the learner ended with code {self._process.returncode}; starting it again")
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
        if "note" in message:
            self._note(message["note"])
            return
        facts = message["posterior"]
        posterior = self._shared.read(
            facts["slot"],
            version=facts["version"],
            trips=facts["trips"],
            noise_std=self._noise_std,
        )
        before = self._slot
        self._swap(Current(posterior, facts["distinct"], facts["lag_s"], facts["mark"]))
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
