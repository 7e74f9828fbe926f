"""Large matrices whose memory is used again once nobody holds them any more."""

import sys
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from superarm.arrays import Matrix


def _references(kept: list[Matrix], place: int) -> int:
    return sys.getrefcount(kept[place])


_ALONE = _references([np.empty((0, 0))], 0)  # what the list and the question itself count for


@dataclass(eq=False)
class MatrixMemory:
    """Memory for n x n matrices: claiming pages anew can take longer than filling them.

    A matrix handed out is a view of memory kept here; as long as anything refers to it (a belief, a
    posterior, a slice of it), the memory is taken, and never written to by anybody else.

    Attributes:
        most: how many pieces of memory to keep at most.
    """

    most: int = 3
    _kept: list[Matrix] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def empty(self, size: int) -> Matrix:
        """Return a matrix of shape (size, size), whatever it holds, that nobody else refers to."""
        with self._lock:
            for place in range(len(self._kept)):
                if _references(self._kept, place) == _ALONE:
                    if self._kept[place].shape[0] != size:  # nobody wants this size any more
                        self._kept[place] = np.empty((size, size))
                    return self._kept[place][:]
            memory = np.empty((size, size))
            if len(self._kept) < self.most:
                self._kept.append(memory)
            return memory[:]
