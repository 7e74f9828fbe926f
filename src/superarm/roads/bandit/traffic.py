"""Roads that change: closures from round to round, congestion through the day."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.errors import InfeasibleError
from superarm.kernels import RBF, draw_function
from superarm.oracles import Paths
from superarm.roads.network.network import RoadNetwork

ATTEMPTS = 100
ROUNDS_PER_DAY = 48


@dataclass(frozen=True)
class Closures:
    """Every round a random share of turns, or of edges, is closed.

    Draws that cut the route off are drawn again.

    Args:
        share: which part is closed.
        what: ``"turns"``, or ``"edges"`` (all turns into and out of them; the ends stay open).
    """

    share: float
    what: Literal["turns", "edges"] = "turns"

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 <= self.share < 1:
            msg = f"share must lie in [0, 1), got {self.share}"
            raise ValueError(msg)
        if self.what not in ("turns", "edges"):
            msg = f"what must be 'turns' or 'edges', got {self.what!r}"
            raise ValueError(msg)

    def apply(self, routes: Paths, rng: np.random.Generator) -> Paths:
        """Return the routes that are left this round."""
        for _ in range(ATTEMPTS):
            closed = self._drawn(routes, rng)
            try:
                return routes.without_arcs(closed)
            except InfeasibleError:
                continue
        msg = f"{ATTEMPTS} random closures of {self.share:.0%} of all {self.what} cut the route off"
        raise InfeasibleError(msg)

    def _drawn(self, routes: Paths, rng: np.random.Generator) -> Rows:
        turns = routes.arcs[:-1]
        if self.what == "turns":
            return np.flatnonzero(rng.random(turns.shape[0]) < self.share)
        shut = rng.random(routes.n_arms) < self.share
        shut[[routes.arm_of_arc[-1], routes.target]] = False
        return np.flatnonzero(shut[turns[:, 0]] | shut[turns[:, 1]])


@dataclass(frozen=True, eq=False)
class Congestion:
    """A level per edge and round, smooth in time, with two rush hours a day, known in advance.

    A round lasts half an hour. Levels have mean zero and variance one over edges and a day.

    Attributes:
        exposure: how strongly each edge feels the rush hours, shape (n,).
        phase: how much later than the city's centre it does, in rounds, shape (n,).
    """

    exposure: Vector
    phase: Vector

    @classmethod
    def drawn(cls, network: RoadNetwork, rng: np.random.Generator) -> "Congestion":
        """Draw which roads are busy: neighbouring ones alike, fast ones more."""
        middle = (
            network.junction_xy_m[network.from_junction]
            + network.junction_xy_m[network.to_junction]
        ) / 2
        size = float(np.ptp(middle, axis=0).max())
        places = Arms(np.arange(network.n_edges), middle / size)
        busy = np.exp(0.5 * draw_function(RBF(0.2), 2, rng)(places))
        exposure = busy * (0.5 + network.speed_ms / network.speed_ms.mean())
        phase = 2.0 * draw_function(RBF(0.3), 2, rng)(places)
        raw = cls(exposure, phase)
        day = np.array([raw.levels(t) for t in range(1, ROUNDS_PER_DAY + 1)])
        return cls(exposure / day.std(), phase)

    def levels(self, t: int) -> Vector:
        """Return the level of every edge in round t."""
        return self.exposure * (_rush(t + self.phase) - _MEAN_RUSH)

    def contexts(self, t: int, features: Matrix) -> Matrix:
        """Return the static features with the level as one more column."""
        return np.column_stack([features, self.levels(t)])


def _rush(half_hour: Vector) -> Vector:
    """Return how busy the time of day is: peaks at eight and half past five, smooth at midnight."""
    angle = 2 * np.pi * half_hour / ROUNDS_PER_DAY
    peaks = [2 * np.pi * hour / 24 for hour in (8.0, 17.5)]
    return sum((np.exp(6 * (np.cos(angle - peak) - 1)) for peak in peaks), np.zeros_like(angle))


_MEAN_RUSH = float(_rush(np.arange(0, ROUNDS_PER_DAY, 0.01)).mean())
