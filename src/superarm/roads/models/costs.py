"""Costs of roads as they are learned from drives, and how uncertain whole trips are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from superarm.arrays import Matrix, Rows, Vector, frozen
from superarm.beliefs import DenseGP
from superarm.beliefs.sums.evidence import EvidenceSoFar
from superarm.gaussian import cholesky_with_jitter
from superarm.roads.models.priors import Measured, RoadModel
from superarm.values import changed

LEAST_SHARE = 0.05
"""No edge costs less than this share of its physics, whatever was drawn: costs stay positive."""

_WORTH_AGAIN = np.log(1.3)
_FEWEST_TRIPS = 30
_FREEDOM = 6.0
_AS_NORMAL = 0.7662  # what a t of so many degrees finds of the variance of normal errors
_USUAL = 0.5  # how far the logarithm of the scale is from zero


@dataclass(frozen=True)
class Factors:
    """What variances are multiplied by.

    Attributes:
        scale: of all of them, prior and noise alike: no mean depends on it.
        noise: of noise, besides.
    """

    scale: float = 1.0
    noise: float = 1.0

    def variance(self, roads: float, noise: float) -> float:
        """Return the variance of a trip by what is not known of roads, and by noise."""
        return self.scale * (roads + self.noise * noise)

    @classmethod
    def fitted(cls, surprises: Sequence[tuple[float, float, float]] | Matrix) -> "Factors":
        """Return the factors that make prediction errors most likely, none if these are few.

        Args:
            surprises: error, variance by what was not known, and by noise, of every trip.
        """
        off, roads, noise = np.asarray(surprises, dtype=np.float64).reshape(-1, 3).T
        if off.size < _FEWEST_TRIPS:
            return cls()

        def unlikely(logs: Vector) -> float:
            variance = np.exp(logs[0]) * (roads + np.exp(logs[1]) * noise)
            # Student's t: one trip in a jam must not widen all others
            square = off**2 / (_AS_NORMAL * variance)
            loss = (_FREEDOM + 1) * np.log1p(square / _FREEDOM) + np.log(variance)
            # where noise is all there is, both factors do the same: then noise alone
            return float(loss.sum() + (logs[0] / _USUAL) ** 2)

        wide = [(np.log(0.05), np.log(20.0)), (np.log(0.05), np.log(100.0))]
        found = minimize(unlikely, np.zeros(2), method="L-BFGS-B", bounds=wide)
        return cls(*np.exp(found.x).tolist())


@dataclass(frozen=True, eq=False)
class RoadBelief:
    """What is believed of all edges after some drives; make one with `RoadBelief.before`.

    How uncertain trips are is fitted by two factors that made the totals of the trips so far most
    likely, each as it was predicted before it was learned: one of all variances, which moves no
    mean, and one more of noise. If that is far from the one that the roads were learned with, they
    are learned again from all trips.

    Attributes:
        model: what was believed at first.
        gp: minus the costs of all edges.
        seen: what all drives said.
        factors: what variances are multiplied by.
        learned_noise: the factor of noise with which `gp` was learned.
        surprises: of every trip so far, shape (m, 3); see `Factors.fitted`.
    """

    model: RoadModel
    gp: DenseGP
    seen: EvidenceSoFar
    factors: Factors
    learned_noise: float
    surprises: Matrix

    @classmethod
    def before(cls, model: RoadModel) -> "RoadBelief":
        """Return what is believed before the first drive."""
        return cls(model, model.belief, EvidenceSoFar(), Factors(), 1.0, frozen(np.empty((0, 3))))

    def after(self, drives: Sequence[Measured]) -> "RoadBelief":
        """Return the belief after more drives, all at once."""
        if not drives:
            return self
        costs = [(one.edges, self.model.measured_of(one)) for one in drives]
        fresh = [
            (
                float(cost.sum() + self.gp.mean[edges].sum()),
                *self.model.trip_variances(self.gp, edges),
            )
            for edges, cost in costs
        ]
        surprises = frozen(np.concatenate([self.surprises, np.array(fresh)]))
        evidence = self.model.evidence(costs)
        seen = self.seen.after(evidence)
        fitted, noise = Factors.fitted(surprises), self.learned_noise
        if abs(np.log(fitted.noise / noise)) > _WORTH_AGAIN:
            noise = fitted.noise
            total = seen.total(self.model.network.n_edges).with_noise(noise)
            gp = self.model.belief.condition_evidence(total)
        else:
            gp = self.gp.condition_evidence(evidence.with_noise(noise))
        return changed(
            self, gp=gp, seen=seen, factors=fitted, learned_noise=noise, surprises=surprises
        )

    @cached_property
    def mean(self) -> Vector:
        """Expected costs of all edges, positive, shape (n,)."""
        return np.maximum(-self.gp.mean, self._least)

    @cached_property
    def _root(self) -> Matrix:
        largest = float(self.gp.prior.variance.max())
        return cholesky_with_jitter(self.gp.matrix.copy(), largest)

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw the costs of all edges together, positive, shape (n,)."""
        return np.asarray(self.samples(rng, 1)[0])

    def samples(self, rng: np.random.Generator, count: int) -> Matrix:
        """Draw them several times, shape (count, n): the factor is read once for all."""
        drawn = rng.standard_normal((count, self.gp.mean.size)) @ self._root.T
        costs: Matrix = np.sqrt(self.factors.scale) * drawn - self.gp.mean
        return np.asarray(np.maximum(costs, self._least))

    @cached_property
    def _least(self) -> Vector:
        return LEAST_SHARE * self.model.physics

    def trip(self, edges: Rows) -> tuple[float, float]:
        """Return mean and variance of what a whole trip on these edges will be measured to cost."""
        roads, noise = self.model.trip_variances(self.gp, edges)
        return -float(self.gp.mean[edges].sum()), self.factors.variance(roads, noise)

    def __repr__(self) -> str:
        """Return one line."""
        return f"RoadBelief({self.surprises.shape[0]:,} trips on {self.model!r})"
