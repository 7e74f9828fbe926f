"""Memory that the learner writes and routers read: two slots, one in use, one being filled."""

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from superarm.arrays import frozen
from superarm.service.posterior import Posterior

SLOTS = 2
_FLOAT = 8


class SharedPosteriors:
    """Room for two posteriors of n edges in memory without a name: it goes with its processes."""

    def __init__(self, n_edges: int, handle: int | None = None) -> None:
        """Make the memory, or attach to that of a handle."""
        self._n = n_edges
        self._size = _FLOAT * (3 * n_edges + n_edges**2)
        self.handle = _anonymous_file(SLOTS * self._size) if handle is None else handle
        self._memory = mmap.mmap(self.handle, SLOTS * self._size)

    def write(self, slot: int, posterior: Posterior) -> None:
        """Fill a slot that nobody reads."""
        parts = self._parts(slot)
        for name, part in parts.items():
            part[...] = getattr(posterior, name)

    def read(self, slot: int, *, version: int, trips: int, noise_std: float) -> Posterior:
        """Return the posterior of a slot; valid until the slot is freed."""
        parts = {name: frozen(part) for name, part in self._parts(slot).items()}
        return Posterior(version=version, trips=trips, noise_std=noise_std, **parts)

    def _parts(self, slot: int) -> dict[str, Any]:
        n = self._n
        floats = np.frombuffer(
            self._memory, dtype=np.float64, count=self._size // _FLOAT, offset=slot * self._size
        )
        return {
            "mean": floats[:n],
            "std": floats[n : 2 * n],
            "counts": floats[2 * n : 3 * n],
            "covariance": floats[3 * n :].reshape(n, n),
        }


def _anonymous_file(size: int) -> int:
    """Return a handle of a file without a name, in memory where the system offers that."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("superarm")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return handle
