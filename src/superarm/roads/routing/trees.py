r"""Paths from one place to many: sums along all of them, and how sure these are.

The variance of what roads cost along a path needs the covariance of all its edges. Of a tree of
paths to every edge that is too much, so that it is taken to be

.. math:: r \Big(\sum_e \sigma_e\Big)^2 + (1 - r) \sum_e \sigma_e^2 ,

between edges that go all together (r = 1) and edges that have nothing in common (r = 0), with the
share r that fits the exact variances of some paths of the tree.
"""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.beliefs import DenseGP
from superarm.oracles.reach import Tree
from superarm.pausing import computed_once
from superarm.roads.routing.search import Search

_SAMPLED = 32
_WORTH_EXACT = 400_000
"""Edges of paths times edges of a path up to which variances are exact where they are cheap."""


@dataclass(frozen=True, eq=False)
class Sums:
    """What is expected along paths.

    Attributes:
        energy_wh: expected energy, shape (m,).
        cost_wh: expected dissipation.
        seconds: expected time.
        fastest_s: the least time.
        stds_wh: standard deviations of roads, added up.
        variance: their variances, added up.
        noise: variance of measurements, added up.
    """

    energy_wh: Vector
    cost_wh: Vector
    seconds: Vector
    fastest_s: Vector
    stds_wh: Vector
    variance: Vector
    noise: Vector

    def __add__(self, other: "Sums") -> "Sums":
        """Return the sums of paths that are driven one after the other."""
        mine, theirs = vars(self), vars(other)
        return Sums(**{name: mine[name] + theirs[name] for name in Sums.__dataclass_fields__})

    def __sub__(self, other: "Sums") -> "Sums":
        """Return the sums without a part of the paths."""
        mine, theirs = vars(self), vars(other)
        return Sums(**{name: mine[name] - theirs[name] for name in Sums.__dataclass_fields__})

    def variance_wh(self, share: float, spread: float) -> Vector:
        """Return the variance of the measured energy.

        Args:
            share: r.
            spread: what all of a trip has in common, as a share of its energy.
        """
        roads = share * self.stds_wh**2 + (1 - share) * self.variance
        common = spread * np.maximum(np.abs(self.energy_wh), np.abs(self.cost_wh))
        total: Vector = roads + self.noise + common**2
        return total


@dataclass(frozen=True, eq=False)
class Branches:
    """All paths between one edge and the others, by expected dissipation or by expected time.

    Args:
        search: for whom, and what is believed; its ends do not matter.
        tree: the paths.
    """

    search: Search
    tree: Tree

    @computed_once
    def values(self) -> Sums:
        """Of every edge by itself."""
        posterior, drivetrain = self.search.posterior, self.search.drivetrain
        std = posterior.cost_std_wh(drivetrain)
        return Sums(
            posterior.energy_wh(drivetrain),
            posterior.cost_wh(drivetrain),
            self.search.seconds,
            self.search.fastest_s,
            std,
            std**2,
            drivetrain.noise_variance,
        )

    @computed_once
    def sums(self) -> Sums:
        """Along the path of every edge, shape (n,) each; not a number where nothing leads."""
        each = vars(self.values)
        return Sums(**{name: self.tree.summed(value) for name, value in each.items()})

    def sums_of(self, places: Rows, starts: Rows) -> Sums:
        """Return the sums of some paths, none of them empty."""
        each = vars(self.values)
        begin = starts[:-1]
        return Sums(**{name: np.add.reduceat(value[places], begin) for name, value in each.items()})

    @computed_once
    def share(self) -> float:
        """The r that fits the exact variances of some paths best."""
        reached = np.flatnonzero(np.isfinite(self.tree.costs))
        some = reached[np.linspace(0, reached.size - 1, min(_SAMPLED, reached.size)).astype(int)]
        places, starts = self.tree.paths(some)
        exact, sums = self._roads(places, starts), self.sums_of(places, starts)
        over = sums.stds_wh**2 - sums.variance
        # the larger a variance is, the more it matters: no weights
        fitted = float(over @ (exact - sums.variance) / max(float(over @ over), 1e-300))
        return min(max(fitted, 0.0), 1.0)

    def _roads(self, places: Rows, starts: Rows) -> Vector:
        weights = self.search.drivetrain.weights_wh[places]
        return self.search.posterior.variances_of(places, weights, starts)

    def stds_of(self, places: Rows, starts: Rows) -> tuple[Vector, Vector]:
        """Return the deviations of measured energy and time of some paths, none of them empty."""
        search, sums = self.search, self.sums_of(places, starts)
        spread = search.posterior.spread
        exact = isinstance(search.posterior.belief, DenseGP)
        if exact and float(np.diff(starts).max()) * places.size <= _WORTH_EXACT:
            wide = sums.variance_wh(0.0, spread) - sums.variance + self._roads(places, starts)
        else:
            wide = sums.variance_wh(self.share, spread)
        times = search.posterior.times.stds_of(places, starts, search.part, heavy=search.heavy)
        return np.sqrt(np.maximum(wide, 0.0)), times
