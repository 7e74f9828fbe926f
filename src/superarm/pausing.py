"""Long computations that let others go on.

A search calls `pause` every few milliseconds and says how much it has done. Alone that does
nothing. Whoever runs several of them in turn, as the service does, gives a function to
`pausing_by`, which may wait until it is this computation's turn again, or raise `WorkLimitError`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Pause = Callable[[int], None]
"""Takes the number of nodes visited since the last call."""

_current_pause: ContextVar[Pause | None] = ContextVar("superarm_pause", default=None)


def pause(visited: int = 0) -> None:
    """Let whoever runs this computation do something else first.

    Args:
        visited: how many nodes of a graph, or edges of a route, were looked at since the last call.
    """
    current = _current_pause.get()
    if current is not None:
        current(visited)


@contextmanager
def pausing_by(function: Pause) -> Iterator[None]:
    """Call a function at every `pause` of what runs inside, in this thread.

    >>> with pausing_by(lambda visited: print("visited", visited)):
    ...     pause(20)
    visited 20
    """
    token = _current_pause.set(function)
    try:
        yield
    finally:
        _current_pause.reset(token)
