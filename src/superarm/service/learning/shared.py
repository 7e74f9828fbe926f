"""Memory that the learner writes and routers read: two slots, one in use, one being filled."""

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from superarm.arrays import Vector, frozen
from superarm.beliefs import DenseGP, InducedGP
from superarm.navigation.times import PARTS, TimeModel, TimePosterior
from superarm.service.model.fleet import Fleet
from superarm.service.model.posterior import RoadPosterior
from superarm.values import assembled

SLOTS = 2
_FLOAT = 8


class SharedPosteriors:
    """Room for two posteriors of n arms in memory without a name: it goes with its processes.

    A posterior is summed up by M features if M > 0. Features and what they leave never change; they
    lie in front of the slots and are written once.

    Args:
        n_arms: n, roads and gains.
        n_features: M, or zero if the covariance of all arms is held.
        times: whose prior the travel times have.
        handle: of memory to attach to; made, if not given.
    """

    def __init__(
        self, n_arms: int, n_features: int, times: TimeModel, handle: int | None = None
    ) -> None:
        """Make the memory, or attach to it."""
        self._n, self._m, self._times = n_arms, n_features, times
        parts, n_edges = len(PARTS), times.network.n_edges
        self._shapes = {
            "deviation_s": (parts, n_edges),
            "pull": (n_edges, parts),
            "own_variance": (n_edges,),
            "covariance": (parts * times.features.shape[1],) * 2,
        }
        self._front = _FLOAT * (n_features * n_arms + n_arms) if n_features else 0
        of_times = sum(int(np.prod(shape)) for shape in self._shapes.values())
        self._body = 3 * n_arms + (n_features or n_arms) ** 2
        self._size = _FLOAT * (self._body + of_times)
        size = self._front + SLOTS * self._size
        self.handle = _anonymous_file(size) if handle is None else handle
        # pages are claimed at once: the first routes shall not wait for thousands of page faults
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._memory = mmap.mmap(self.handle, size, flags)
        self._filled = False

    def write(
        self,
        slot: int,
        belief: DenseGP | InducedGP,
        std: Vector,
        counts: Vector,
        times: TimePosterior,
    ) -> None:
        """Fill a slot that nobody reads."""
        parts = self._parts(slot)
        for name in self._shapes:
            parts[name][...] = getattr(times, name)
        parts["mean"][...], parts["std"][...] = belief.mean, std
        parts["counts"][: counts.size] = counts
        if isinstance(belief, DenseGP):
            parts["body"][...] = belief.matrix
            return
        known = belief.core_mean.size  # fewer may explain everything; the rest stays zero
        parts["body"][:known, :known] = belief.core_covariance
        if not self._filled:
            front = self._static()
            front["features"][:known], front["residual"][...] = belief.features, belief.residual
            self._filled = True

    def read(self, slot: int, fleet: Fleet, **facts: Any) -> RoadPosterior:  # noqa: ANN401 - of a posterior
        """Return the posterior of a slot; valid until the slot is freed."""
        parts = {name: frozen(part) for name, part in self._parts(slot).items()}
        mean, std, body = parts["mean"], parts["std"], parts["body"]
        common = {"prior": fleet.marginal_prior, "evidence": None, "load": frozen(np.zeros(0))}
        belief: DenseGP | InducedGP
        if not self._m:
            belief = assembled(DenseGP, **common, mean=mean, matrix=body)
        else:
            front = {name: frozen(part) for name, part in self._static().items()}
            core = frozen(np.zeros(self._m))
            belief = assembled(InducedGP, **common, **front, core_mean=core, core_covariance=body)
            vars(belief).update(mean=mean, variance=std**2)  # computed where it was learned
        counts = parts["counts"][: fleet.network.n_edges]
        times = TimePosterior(self._times, **{name: parts[name] for name in self._shapes})
        return RoadPosterior(
            fleet=fleet, belief=belief, std=std, counts=counts, learned_times=times, **facts
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
        found = {
            "mean": floats[:n],
            "std": floats[n : 2 * n],
            "counts": floats[2 * n : 3 * n],
            "body": floats[3 * n : self._body].reshape(side, side),
        }
        place = self._body
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            found[name] = floats[place : place + size].reshape(shape)
            place += size
        return found


def _anonymous_file(size: int) -> int:
    """Return a handle of a file without a name, in memory where the system offers that."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("superarm")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return handle
