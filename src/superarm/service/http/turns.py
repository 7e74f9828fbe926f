"""Work for one thread, in which those who ask take turns."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class FullError(Exception):
    """Too much waits."""


class Turns:
    """A thread that does one thing of each who asks before it does the next of anybody.

    Args:
        name: of the thread.
        most: how much may wait.
        share: of that, how much of one who asks.
    """

    def __init__(self, name: str, most: int, share: float = 0.5) -> None:
        """Start the thread."""
        self._most, self._of_one = most, max(int(share * most), 1)
        self._thread = ThreadPoolExecutor(1, name)
        self._lock = Lock()
        self._queues: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How much waits."""
        return self._waiting

    async def run(self, who: str, work: Callable[[], _Result]) -> _Result:
        """Do something when its turn comes, or raise `FullError`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()

        def say(result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - of the work
            if done.cancelled():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def act() -> None:
            if done.cancelled():  # nobody waits for it any more
                return
            try:
                result, error = work(), None
            except BaseException as caught:  # noqa: BLE001 - it belongs to who asked
                result, error = None, caught
            loop.call_soon_threadsafe(say, result, error)

        with self._lock:
            queue = self._queues.setdefault(who, deque())
            if self._waiting >= self._most or len(queue) >= self._of_one:
                if not queue:
                    del self._queues[who]
                raise FullError
            queue.append(act)
            self._waiting += 1
        self._thread.submit(self._next)
        return await done

    def _next(self) -> None:
        with self._lock:
            who, queue = next(iter(self._queues.items()))
            act = queue.popleft()
            self._waiting -= 1
            if queue:
                self._queues.move_to_end(who)
            else:
                del self._queues[who]
        act()

    def now(self, work: Callable[[], _Result]) -> _Result:
        """Do something in the thread and wait for it."""
        return self._thread.submit(work).result()

    def close(self) -> None:
        """Finish what waits."""
        self._thread.shutdown(wait=True)
