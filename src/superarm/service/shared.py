"""Memory that the learner writes and routers read: two slots, one in use, one being filled."""

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from superarm.arrays import frozen
from superarm.service.posterior import InducedJoint, Joint, RoadPosterior, WholeJoint

SLOTS = 2
_FLOAT = 8


class SharedPosteriors:
    """Room for two posteriors of n edges in memory without a name: it goes with its processes.

    A posterior is summed up by M features if M > 0. Features and what they leave never change; they
    lie in front of the slots and are written once.

    Args:
        n_edges: n.
        n_features: M, or zero if the covariance of all edges is held.
        handle: of memory to attach to; made, if not given.
    """

    def __init__(self, n_edges: int, n_features: int = 0, handle: int | None = None) -> None:
        """Make the memory, or attach to it."""
        self._n, self._m = n_edges, n_features
        self._front = _FLOAT * (n_features * n_edges + n_edges) if n_features else 0
        self._size = _FLOAT * (3 * n_edges + (n_features or n_edges) ** 2)
        size = self._front + SLOTS * self._size
        self.handle = _anonymous_file(size) if handle is None else handle
        # pages are claimed at once: the first routes shall not wait for thousands of page faults
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._memory = mmap.mmap(self.handle, size, flags)
        self._filled = False

    def write(self, slot: int, posterior: RoadPosterior) -> None:
        """Fill a slot that nobody reads."""
        parts = self._parts(slot)
        for name in ("mean", "std", "counts"):
            parts[name][...] = getattr(posterior, name)
        match posterior.joint:
            case WholeJoint(matrix):
                parts["body"][...] = matrix
            case InducedJoint(features, core, residual):
                known = core.shape[0]  # fewer may explain everything; the rest stays zero
                parts["body"][:known, :known] = core
                if not self._filled:
                    front = self._static()
                    front["features"][:known], front["residual"][...] = features, residual
                    self._filled = True

    def read(self, slot: int, *, version: int, trips: int, noise_std: float) -> RoadPosterior:
        """Return the posterior of a slot; valid until the slot is freed."""
        parts = {name: frozen(part) for name, part in self._parts(slot).items()}
        body = parts.pop("body")
        joint: Joint = WholeJoint(body)
        if self._m:
            front = {name: frozen(part) for name, part in self._static().items()}
            joint = InducedJoint(front["features"], body, front["residual"])
        return RoadPosterior(
            version=version, trips=trips, noise_std=noise_std, joint=joint, **parts
        )

    def _static(self) -> dict[str, Any]:
        floats = np.frombuffer(self._memory, dtype=np.float64, count=self._front // _FLOAT)
        cut = self._m * self._n
        return {"features": floats[:cut].reshape(self._m, self._n), "residual": floats[cut:]}

    def _parts(self, slot: int) -> dict[str, Any]:
        n, side = self._n, self._m or self._n
        floats = np.frombuffer(
            self._memory,
            dtype=np.float64,
            count=self._size // _FLOAT,
            offset=self._front + slot * self._size,
        )
        return {
            "mean": floats[:n],
            "std": floats[n : 2 * n],
            "counts": floats[2 * n : 3 * n],
            "body": floats[3 * n :].reshape(side, side),
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
