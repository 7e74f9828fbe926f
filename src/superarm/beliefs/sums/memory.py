"""Large matrices whose memory is used again once nobody holds them any more."""

import sys
from dataclasses import dataclass, field

import numpy as np

from superarm.arrays import Matrix

_OWN = 3  # the pool's list, the loop variable, the argument of getrefcount


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

    def empty(self, size: int) -> Matrix:
        """Return a matrix of shape (size, size), whatever it holds, that nobody else refers to."""
        for memory in self._kept:
            if memory.shape[0] == size and sys.getrefcount(memory) <= _OWN:
                return memory[:]
        memory = np.empty((size, size))
        if len(self._kept) < self.most:
            self._kept.append(memory)
        return memory[:]
