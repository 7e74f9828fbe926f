"""Long computations that let others go on.

A search calls `pause` every few milliseconds and says how much it has done. Alone that does
nothing. Whoever runs several of them in turn, as the service does, gives a function to
`pausing_by`, which may wait until it is this computation's turn again, or raise `WorkLimitError`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Self, TypeVar, overload

_Result_co = TypeVar("_Result_co", covariant=True)

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


class computed_once(Generic[_Result_co]):  # noqa: N801 - used as a decorator
    """A property that is computed on first use, by a function that may pause.

    Up to Python 3.11 `functools.cached_property` holds a lock that all instances share: whoever
    paused in it would keep the others from going on. An instance of a class with such properties
    belongs to one computation.
    """

    def __init__(self, function: Callable[[Any], _Result_co]) -> None:
        """Keep the function."""
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Take note of the name under which the result is kept."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _Result_co: ...
    def __get__(self, instance: object | None, owner: type) -> Self | _Result_co:
        """Compute the result, and put it where the next look finds it first."""
        if instance is None:
            return self
        result = vars(instance)[self._name] = self._function(instance)
        return result
