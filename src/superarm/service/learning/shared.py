"""Memory that the learner writes and routers read: two slots, one in use, one being filled."""

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from superarm.arrays import Vector, frozen
from superarm.beliefs import DenseGP, EnsembleGP
from superarm.roads.models.draws import Draws, deviations_of
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.models.times import PARTS, TimeModel, TimePosterior
from superarm.values import assembled

SLOTS = 2
_FLOAT = 8


class SharedPosteriors:
    """Room for two posteriors of n arms in memory without a name: it goes with its processes.

    Args:
        n_arms: n, roads and gains.
        n_draws: how many draws sum a posterior up, or zero if the covariance of all arms is held.
        times: whose prior the travel times have.
        handle: of memory to attach to; made, if not given.
    """

    def __init__(
        self, n_arms: int, n_draws: int, times: TimeModel, handle: int | None = None
    ) -> None:
        """Make the memory, or attach to it."""
        self._n, self._draws, self._times = n_arms, n_draws, times
        parts, n_edges = len(PARTS), times.network.n_edges
        self._shapes = {
            "deviation_s": (parts, n_edges),
            "pull": (n_edges, parts),
            "own_variance": (n_edges,),
            "covariance": (parts * times.features.shape[1],) * 2,
        }
        of_times = sum(int(np.prod(shape)) for shape in self._shapes.values())
        # draws in single precision: two to a double
        self._body = 3 * n_arms + ((n_arms * n_draws + 1) // 2 if n_draws else n_arms**2)
        self._size = _FLOAT * (self._body + of_times)
        size = SLOTS * self._size
        self.handle = _anonymous_file(size) if handle is None else handle
        # pages are claimed at once: the first routes shall not wait for thousands of page faults
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._memory = mmap.mmap(self.handle, size, flags)

    def write(
        self,
        slot: int,
        belief: DenseGP | EnsembleGP,
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
        parts["body"][...] = deviations_of(belief, std)

    def read(self, slot: int, fleet: Fleet, **facts: Any) -> RoadPosterior:  # noqa: ANN401 - of a posterior
        """Return the posterior of a slot; valid until the slot is freed."""
        parts = {name: frozen(part) for name, part in self._parts(slot).items()}
        mean, std, body = parts["mean"], parts["std"], parts["body"]
        prior, known = fleet.marginal_prior, frozen(np.zeros(0))
        belief: DenseGP | Draws
        if self._draws:
            belief = Draws(prior, mean, std, body)
        else:
            belief = assembled(
                DenseGP, prior=prior, evidence=None, load=known, mean=mean, matrix=body
            )
        counts = parts["counts"][: fleet.network.n_edges]
        times = TimePosterior(self._times, **{name: parts[name] for name in self._shapes})
        return RoadPosterior(
            fleet=fleet, belief=belief, std=std, counts=counts, learned_times=times, **facts
        )

    def _parts(self, slot: int) -> dict[str, Any]:
        n = self._n
        floats = np.frombuffer(
            self._memory,
            dtype=np.float64,
            count=self._size // _FLOAT,
            offset=slot * self._size,
        )
        found = {
            "mean": floats[:n],
            "std": floats[n : 2 * n],
            "counts": floats[2 * n : 3 * n],
            "body": self._shaped(floats[3 * n : self._body]),
        }
        place = self._body
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            found[name] = floats[place : place + size].reshape(shape)
            place += size
        return found

    def _shaped(self, body: Vector) -> Any:  # noqa: ANN401 - of either precision
        if not self._draws:
            return body.reshape(self._n, self._n)
        return body.view(np.float32)[: self._n * self._draws].reshape(self._n, self._draws)


def _anonymous_file(size: int) -> int:
    """Return a handle of a file without a name, in memory where the system offers that."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("superarm")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return handle
