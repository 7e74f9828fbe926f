r"""Turns as arms: waiting and stopping belong to where one goes from a road, not to the road.

The cost of leaving edge i by a turn to j is

.. math:: c_{ij} = r_i + \kappa_{k(i,j)} + u_{ij} ,

the road's cost r (`superarm.navigation.RoadModel`), that of the *kind* of turn (arriving, left,
right or straight on, each with and without a traffic light), and a deviation of its own. There are
many more turns than a dense covariance can hold (16,187 and 5,736 arrivals in Luxembourg), but
their deviations are independent of each other and of all else. So they are integrated out: of
:math:`n_{ij}` passes with mean :math:`\bar y_{ij}` and noise of variance :math:`\sigma_i^2` each,

.. math:: \bar y_{ij} = r_i + \kappa_{k(i,j)} + N\big(0,\ s_i^2 + \sigma_i^2 / n_{ij}\big)

teaches roads and kinds, a `superarm.beliefs.DenseGP` of n + 8 arms, and given these

.. math::
    c_{ij} = (1 - g)\,(r_i + \kappa) + g\,\bar y_{ij} + N(0, g\,\sigma_i^2 / n_{ij}), \qquad
    g = \frac{s_i^2}{s_i^2 + \sigma_i^2 / n_{ij}} .

That is exact as long as the noise of edges is independent; what a trip or a boundary has in common
cannot be held by counts and means, and is left out here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from superarm.arrays import Matrix, Rows, Vector, frozen, require_positive
from superarm.beliefs import DenseGP, Evidence
from superarm.gaussian import cholesky_with_jitter
from superarm.navigation.network import RoadNetwork
from superarm.navigation.roads import RoadModel
from superarm.values import changed

KINDS = ("arrival", "left", "right", "straight")
"""What a turn can be; with a light each is another kind."""

SHARP_RAD = 0.6
"""From which change of heading on a turn is one to the left or right."""

BACK_RAD = 2.8
"""From which change of heading on it leads back, and counts as one to the left."""


def turn_kinds(network: RoadNetwork) -> Rows:
    """Return the kind of every turn, and of arriving on every edge, shape (t + n,)."""
    first, last = network.shape_start[:-1], network.shape_start[1:] - 1
    points = network.shape_xy_m
    begin = points[np.minimum(first + 1, last)] - points[first]
    end = points[last] - points[np.maximum(last - 1, first)]
    entering, leaving = (np.arctan2(gap[:, 1], gap[:, 0]) for gap in (begin, end))
    change = entering[network.turns[:, 1]] - leaving[network.turns[:, 0]]
    change = (change + np.pi) % (2 * np.pi) - np.pi
    back = np.abs(change) > BACK_RAD  # whichever way: across the oncoming lane
    kinds = np.where((change > SHARP_RAD) | back, 1, np.where(change < -SHARP_RAD, 2, 3))
    light = network.junction_light[network.to_junction[network.turns[:, 0]]]
    turns = kinds + len(KINDS) * light
    return np.concatenate([turns, np.zeros(network.n_edges, dtype=np.intp)]).astype(np.intp)


@dataclass(frozen=True, eq=False)
class TurnModel:
    """Prior of the cost of every turn.

    Args:
        roads: what is believed of roads; what its trips have in common is left out.
        kind: standard deviation of the cost of a kind, in its unit.
        own: standard deviation of a turn, as a share of that of its road.
    """

    roads: RoadModel
    kind: float = 2.0
    own: float = 0.5

    def __post_init__(self) -> None:
        """Check the options."""
        require_positive("kind", self.kind)
        require_positive("own", self.own)

    @property
    def network(self) -> RoadNetwork:
        """The roads."""
        return self.roads.network

    @cached_property
    def kinds(self) -> Rows:
        """The kind of every turn, and of arriving on every edge, shape (t + n,)."""
        return frozen(turn_kinds(self.network))

    @cached_property
    def edges(self) -> Rows:
        """The edge that every turn leaves, or arrives on, shape (t + n,)."""
        everywhere = np.arange(self.network.n_edges)
        return frozen(np.concatenate([self.network.turns[:, 0], everywhere]).astype(np.intp))

    @cached_property
    def own_variance(self) -> Vector:
        """Of the deviation of every turn, shape (t + n,)."""
        return frozen((self.own * self.roads.deviation[self.edges]) ** 2)

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], int]:
        return {(int(a), int(b)): i for i, (a, b) in enumerate(self.network.turns)}

    def turns_of(self, route: Rows) -> Rows:
        """Return the turns of a route, its arrival last, shape (k,)."""
        steps = zip(route[:-1].tolist(), route[1:].tolist(), strict=True)
        arrival = self.network.n_turns + int(route[-1])
        return np.array([*(self._numbers[step] for step in steps), arrival], dtype=np.intp)

    def belief(self) -> "TurnBelief":
        """Return what is believed before the first trip."""
        size = self.kinds.size
        return TurnBelief(self, frozen(np.zeros(size)), frozen(np.zeros(size)))


@dataclass(frozen=True, eq=False)
class TurnBelief:
    """What is believed of all turns, given counts and mean costs of those seen.

    Attributes:
        model: the prior.
        counts: passes of every turn, shape (t + n,).
        means: of their measured costs.
        noise_factor: multiplies the noise variances of the model.
    """

    model: TurnModel
    counts: Vector
    means: Vector
    noise_factor: float = field(default=1.0)

    def condition(self, routes: Iterable[tuple[Rows, Vector]]) -> "TurnBelief":
        """Return the belief after drives: routes and the measured costs of their edges."""
        counts, sums = self.counts.copy(), self.counts * self.means
        for route, costs in routes:
            turns = self.model.turns_of(route)
            np.add.at(counts, turns, 1.0)
            np.add.at(sums, turns, costs)
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        return changed(self, counts=frozen(counts), means=frozen(means))

    @cached_property
    def _noise(self) -> Vector:
        """Noise variance of one pass of every turn."""
        return self.noise_factor * self.model.roads.noise_variance[self.model.edges]

    @cached_property
    def core(self) -> DenseGP:
        """Roads and kinds: minus their costs."""
        model, n = self.model, self.model.network.n_edges
        size = n + 2 * len(KINDS)
        prior = np.diag(np.full(size, model.kind**2))
        prior[:n, :n] = model.roads.belief.matrix
        mean = np.concatenate([-model.roads.physics, np.zeros(size - n)])
        belief = DenseGP.from_covariance(mean, prior, 1.0, keep_evidence=False)
        seen = np.flatnonzero(self.counts)
        if seen.size == 0:
            return belief
        columns = np.column_stack([model.edges[seen], n + model.kinds[seen]]).ravel()
        starts = np.arange(0, columns.size + 1, 2)
        rows = csr_array((np.ones(columns.size), columns, starts), shape=(seen.size, size))
        noise = model.own_variance[seen] + self._noise[seen] / self.counts[seen]
        return belief.condition_evidence(Evidence.of_functionals(rows, -self.means[seen], noise))

    @cached_property
    def trust(self) -> Vector:
        """G: how much the mean of a turn's own passes counts, shape (t + n,)."""
        own = self.model.own_variance
        return np.asarray(self.counts * own / (self.counts * own + self._noise))

    def mean(self, core: Vector | None = None) -> Vector:
        """Return the mean cost of every turn, given costs of roads and kinds, shape (t + n,)."""
        n = self.model.network.n_edges
        values = -self.core.mean if core is None else core
        expected = values[self.model.edges] + values[n + self.model.kinds]
        mean: Vector = (1 - self.trust) * expected + self.trust * self.means
        return mean

    @cached_property
    def own_left(self) -> Vector:
        """Variance of every turn's cost, given roads and kinds."""
        return np.asarray((1 - self.trust) * self.model.own_variance)

    @cached_property
    def _root(self) -> Matrix:
        return cholesky_with_jitter(self.core.matrix.copy(), float(self.core.prior.variance.max()))

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw the costs of all turns together."""
        drawn = -self.core.mean + self._root @ rng.standard_normal(self.core.mean.size)
        own = np.sqrt(self.own_left) * rng.standard_normal(self.counts.size)
        return self.mean(drawn) + own

    def trip(self, route: Rows) -> tuple[float, float, float]:
        """Return mean, variance by what is not known and variance by noise of a trip's cost.

        The noise is that of the model, not multiplied by its factor.
        """
        turns, n = self.model.turns_of(route), self.model.network.n_edges
        weights = np.zeros(self.core.mean.size)
        np.add.at(weights, self.model.edges[turns], 1 - self.trust[turns])
        np.add.at(weights, n + self.model.kinds[turns], 1 - self.trust[turns])
        some = np.flatnonzero(weights)
        unknown = weights[some] @ self.core.matrix[np.ix_(some, some)] @ weights[some]
        noise = float(self.model.roads.noise_variance[route].sum())
        mean = float(self.mean()[turns].sum())
        each, times = np.unique(turns, return_counts=True)
        own = float((times**2 * self.own_left[each]).sum())  # a turn taken twice is the same one
        return mean, float(unknown) + own, noise
