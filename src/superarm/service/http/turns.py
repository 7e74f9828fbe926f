"""Questions that share one processor: each computes for some milliseconds, then others go on.

One question computes at a time. At every `superarm.pausing.pause` it looks at how much processor
time its turn has taken, and gives way once that is `SLICE_S`. Short questions go first, so that
they wait for a turn and not for a long question; one turn in five is for the long ones. Among
equals the key that has used the least processor time of late is next.
"""

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from superarm.errors import WorkLimitError
from superarm.pausing import pausing_by

SLICE_S = 0.02
"""Processor seconds after which a question gives way at its next pause. Pauses are at most 30 ms
apart, so that a turn lasts 50 ms at the most."""

MOST_LONG = 4
"""Long questions that have begun and take turns; others wait until one of these is answered."""

MOST_LONG_WAITING = 12
"""Long questions that wait to begin; more are turned away, before short ones have to wait."""

LONG_S = 0.2
"""A question that was taken for a short one counts as long after so much processor time."""

_LONG_OF_ONE_KEY = 3
_SHORT_IN_A_ROW = 4
_MOST_BEGUN = 32
_MEMORY_S = 10.0
_GRACE = 0.25  # of the allowed work, to put together an answer from what was found
_MOST_KEYS = 10_000

_Result = TypeVar("_Result")


class FullError(Exception):
    """Too much waits."""


@dataclass(eq=False)
class Work:
    """How much work a question may take, and how much it has taken.

    Attributes:
        most: nodes that may be visited before `WorkLimitError` is raised.
        is_long: whether it takes much longer than a plain question.
        visited: nodes so far.
        cpu_s: processor seconds so far.
    """

    most: float = math.inf
    is_long: bool = False
    visited: int = 0
    cpu_s: float = 0.0

    def take(self, seconds: float) -> None:
        """Count processor time; what takes very long is a long question after all."""
        self.cpu_s += seconds
        self.is_long = self.is_long or self.cpu_s > LONG_S

    def visit(self, visited: int) -> None:
        """Count nodes, or raise if they are too many."""
        self.visited += visited
        if self.visited > self.most:
            most, self.most = self.most, (1 + _GRACE) * self.most
            msg = (
                f"the question takes more work than one may ask for ({most:,.0f} steps on the "
                "network): ask for fewer places on the way, fewer alternatives or stations, or "
                "without a limit on time"
            )
            raise WorkLimitError(msg)


@dataclass(eq=False)
class _Task:
    """A question that waits, computes, or has given way.

    Attributes:
        key: who asked.
        act: what to compute.
        work: that it may take.
        order: of arrival.
        answer: where the result goes.
        go: set when it has the turn again.
        turn_began_s: processor time of its thread when its turn began.
    """

    key: str
    act: Callable[[], Any]
    work: Work
    order: int
    answer: "Future[Any]" = field(default_factory=Future)
    go: threading.Event = field(default_factory=threading.Event)
    turn_began_s: float = 0.0


class Turns:
    """Lets questions compute one at a time, by turns.

    Args:
        name: of the threads.
        most: how many questions may wait to begin.
        share: of that, how many of one key.
    """

    def __init__(self, name: str, most: int, share: float = 0.5) -> None:
        """Prepare the threads; only one of them computes at a time."""
        self._most, self._of_one = most, max(int(share * most), 1)
        self._threads = ThreadPoolExecutor(_MOST_BEGUN, name)
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._waiting: list[_Task] = []  # not begun
        self._paused: list[_Task] = []  # begun, and given way
        self._running: _Task | None = None
        self._usage = _Usage()
        self._short_in_a_row = 0

    @property
    def waiting(self) -> int:
        """How many questions wait to begin."""
        return len(self._waiting)

    async def run(self, key: str, act: Callable[[], _Result], work: Work | None = None) -> _Result:
        """Compute something by turns, or raise `FullError`.

        Args:
            key: who asks.
            act: what to compute; it calls `superarm.pausing.pause`.
            work: how much that may take; what it has taken is counted there.
        """
        return await asyncio.wrap_future(self._enter(key, act, work or Work()))

    def now(self, act: Callable[[], _Result]) -> _Result:
        """Compute something by turns and wait for it."""
        result: _Result = self._enter("", act, Work()).result()
        return result

    def close(self) -> None:
        """Finish what has been asked."""
        while True:
            with self._lock:
                left = [*self._waiting, *self._paused, *filter(None, [self._running])]
            if not left:
                break
            wait([task.answer for task in left])
        self._threads.shutdown(wait=True)

    def _enter(self, key: str, act: Callable[[], Any], work: Work) -> "Future[Any]":
        task = _Task(key, act, work, next(self._order))
        with self._lock:
            limits = self._most, self._of_one
            if work.is_long:
                limits = MOST_LONG_WAITING, _LONG_OF_ONE_KEY
            same = [other.key for other in self._waiting if other.work.is_long == work.is_long]
            if len(same) >= limits[0] or same.count(key) >= limits[1]:
                raise FullError
            self._waiting.append(task)
            if self._running is None:
                self._pass_on()
        return task.answer

    def _pass_on(self) -> None:
        """Give the turn to whoever is next, if anybody is; the lock is held."""
        task = self._next()
        self._running = task
        if task is None:
            return
        if task in self._paused:
            self._paused.remove(task)
            task.go.set()
        else:
            self._waiting.remove(task)
            self._threads.submit(self._compute, task)

    def _next(self) -> _Task | None:
        """Return who is next; the lock is held."""
        long = [task for task in self._paused if task.work.is_long]
        short = [task for task in self._paused if not task.work.is_long]
        may_begin = {True: len(long) < MOST_LONG, False: len(self._paused) < _MOST_BEGUN - 1}
        for task in self._waiting:
            if may_begin[task.work.is_long]:
                (long if task.work.is_long else short).append(task)
        # short ones go first, but do not keep long ones from ever being answered
        is_turn_of_long = self._short_in_a_row >= _SHORT_IN_A_ROW
        candidates = long if (long and is_turn_of_long) or not short else short
        self._short_in_a_row = self._short_in_a_row + 1 if candidates is short else 0
        if not candidates:
            return None
        return min(candidates, key=lambda task: (self._usage.of(task.key), task.order))

    def _compute(self, task: _Task) -> None:
        """Compute one question to its end, in a thread of the pool; it has the turn now."""
        task.turn_began_s = time.thread_time()
        result: Any = None
        problem: BaseException | None = None
        try:
            if not task.answer.cancelled():
                with pausing_by(partial(self._give_way, task)):
                    result = task.act()
        except BaseException as caught:  # noqa: BLE001 - it belongs to who asked
            problem = caught
        with self._lock:
            used = time.thread_time() - task.turn_began_s
            task.work.take(used)
            self._usage.add(task.key, used)
            self._pass_on()
        if not task.answer.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        if problem is None:
            task.answer.set_result(result)
        else:
            task.answer.set_exception(problem)

    def _give_way(self, task: _Task, visited: int) -> None:
        """Let others go on if the turn has lasted long enough, and wait for the next one."""
        task.work.visit(visited)
        used = time.thread_time() - task.turn_began_s
        if used < SLICE_S:
            return
        if task.answer.cancelled():
            raise CancelledError
        with self._lock:
            task.work.take(used)
            self._usage.add(task.key, used)
            self._paused.append(task)
            self._pass_on()  # perhaps to this one again
        task.go.wait()
        task.go.clear()
        task.turn_began_s = time.thread_time()


class _Usage:
    """Processor time that keys have used of late: what lies back counts less and less."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[float, float]] = {}

    def of(self, key: str) -> float:
        """Return the seconds of a key, as they count now."""
        seconds, since = self._used.get(key, (0.0, 0.0))
        return seconds * math.exp((since - time.monotonic()) / _MEMORY_S)

    def add(self, key: str, seconds: float) -> None:
        """Count seconds of a key."""
        self._used[key] = self.of(key) + seconds, time.monotonic()
        if len(self._used) > _MOST_KEYS:
            self._used = {key: self._used[key] for key in self._used if self.of(key) > SLICE_S}
