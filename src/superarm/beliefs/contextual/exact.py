r"""The exact GP posterior at any context, also unseen ones (section 2.2).

.. math::
    \mu(a) = m(a) + k_D(a)^T (K_{DD} + N)^{-1} (\bar y - m_D), \qquad
    k(a, b) - k_D(a)^T (K_{DD} + N)^{-1} k_D(b)

over the D distinct pairs of id and context seen, with :math:`N = 1/\sum\varsigma^{-2}` of each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_vector, frozen
from superarm.beliefs.contextual.distinct import DistinctArms
from superarm.beliefs.describing import told
from superarm.beliefs.factor import Factor, require_precision
from superarm.beliefs.observed import Observed, Reconsidering
from superarm.beliefs.posterior import ContextView
from superarm.beliefs.prior import ContextPrior, Mean, require_same_features
from superarm.beliefs.rows import tiles
from superarm.beliefs.statistics import ArmStatistics
from superarm.errors import CapacityError
from superarm.gaussian import clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

MAX_DISTINCT = 10_000
"""Distinct observations an `ExactGP` accepts by default (2.5 GiB; a cubic cost to refactor)."""


@dataclass(frozen=True, eq=False)
class ExactGP(Reconsidering):
    """A Gaussian process on contexts; arms need not be known beforehand. See `from_kernel`.

    Attributes:
        prior: what it was made from.
        distinct: the D distinct pairs of id and context seen, in order of first sight.
        statistics: what their rewards said, one entry each.

    >>> from superarm.kernels import RBF
    >>> belief = ExactGP.from_kernel(RBF(), noise_variance=1.0)
    >>> belief = belief.condition(Arms([0], [[0.0]]), np.array([2.0]))
    >>> belief.posterior(Arms([5], [[0.0]])).mean.round(6).tolist()
    [1.0]
    """

    prior: ContextPrior
    max_distinct: int
    distinct: DistinctArms
    statistics: ArmStatistics
    factor: Factor
    weights: Vector

    @classmethod
    def from_kernel(
        cls,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        max_distinct: int = MAX_DISTINCT,
    ) -> "ExactGP":
        """Believe a kernel on contexts.

        Args:
            kernel: the prior covariance.
            noise_variance: of one reward; one number, or one per arm id (ids 0 to n-1).
            mean: the prior mean: none (zero), a number, one per arm id, or a function of arms.
            max_distinct: how many distinct observations to accept.
        """
        if max_distinct < 1:
            msg = f"max_distinct must be at least 1, got {max_distinct}"
            raise ValueError(msg)
        prior = ContextPrior.of_kernel(kernel, noise_variance, mean)
        nothing = ArmStatistics.nothing()
        return cls(prior, max_distinct, DistinctArms(), nothing, Factor(), np.empty(0))

    @property
    def counts(self) -> Vector:
        """How often each distinct arm was seen, shape (D,)."""
        return self.statistics.counts

    def posterior(self, arms: Arms) -> "ExactPosterior":
        """Return the posterior of these arms."""
        prior = self.prior.variances(arms)
        mean, variance = self.prior.means(arms).copy(), prior.copy()
        if self.distinct.arms is not None:
            require_same_features(self.distinct.arms, arms)
            for part in tiles(len(arms)):
                here = arms.take(np.arange(part.start, part.stop))
                cross = self.prior.kernel.gram(self.distinct.arms, here)
                half = self.factor.half_solve(cross)
                mean[part] += self.weights @ cross
                variance[part] -= np.einsum("ij,ij->j", half, half)
        std = np.sqrt(clipped_variance(variance, prior))
        noise = np.sqrt(self.prior.noise_of(arms))
        return ExactPosterior(arms, mean, std, noise, prior, self)

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "ExactGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, where it is known and another; one number or one each.
        """
        checked = as_vector("rewards", rewards, len(arms))
        noise = self.prior.noise_of(arms, noise_variance)
        if len(arms) == 0:
            return self
        distinct, where = self.distinct.located(arms)
        if len(distinct) > self.max_distinct:
            msg = (
                f"ExactGP holds at most {self.max_distinct} distinct observations and these "
                f"rewards would make {len(distinct)}; its cost is cubic in them. Use FiniteGP if "
                "the arms form a finite universe, StreamingGP, a sparse GP that sums the history "
                "up in inducing arms, or raise max_distinct"
            )
            raise CapacityError(msg)
        slots, batch = ArmStatistics.of_batch(where, checked, noise)
        return self._learned(distinct, slots, batch)

    def _learned(self, distinct: DistinctArms, slots: Rows, batch: ArmStatistics) -> "ExactGP":
        """Return the belief after what a batch said of some of the distinct arms."""
        everything = distinct.arms
        assert everything is not None  # noqa: S101 - arms have been seen
        statistics = self.statistics.merged(slots, batch, len(distinct))
        seen = everything.take(slots)
        require_precision(statistics.precision[slots], self.prior.variances(seen))

        def gram(left: Rows, right: Rows) -> Matrix:
            return self.prior.kernel.gram(everything.take(left), everything.take(right))

        grown = self.factor.grown(slots, gram)
        factor = grown.observed(slots, batch.precision, statistics.precision, gram)
        gap = statistics.averages - self.prior.means(everything)
        return changed(
            self,
            distinct=distinct,
            statistics=statistics,
            factor=factor,
            weights=frozen(factor.solve(gap[:, None])[:, 0]),
        )

    def observed(self) -> Observed:
        """Return all that was observed, as the density of rewards needs it."""
        arms = self.distinct.arms
        seen = Arms([]) if arms is None else arms
        return Observed.of_statistics(seen, self.prior.means(seen), self.statistics)

    def again(self, prior: ContextPrior, noise_factor: float) -> "ExactGP":
        """Return the belief that has seen the same under a prior, noise variances multiplied."""
        fresh = changed(
            self,
            prior=prior,
            statistics=ArmStatistics.nothing(),
            factor=Factor(),
            weights=np.empty(0),
        )
        if self.distinct.arms is None:
            return fresh
        everything = np.arange(len(self.distinct))
        statistics = self.statistics.with_noise(noise_factor)
        return fresh._learned(self.distinct, everything, statistics)  # noqa: SLF001 - its own class

    def __repr__(self) -> str:
        """Return one line."""
        return told(self, None, len(self.distinct))


@dataclass(frozen=True, eq=False, repr=False)
class ExactPosterior(ContextView):
    """Means and deviations of some arms; covariances and draws are made when asked for."""

    belief: ExactGP

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        belief = self.belief
        prior = belief.prior.kernel.gram(self.arms, self.arms)
        if belief.distinct.arms is None:
            return prior
        half = belief.factor.half_solve(belief.prior.kernel.gram(belief.distinct.arms, self.arms))
        return prior - half.T @ half

    def draw_many(self, rng: np.random.Generator) -> Vector:
        """Draw by Matheron's rule, from a prior draw of these and all arms seen."""
        belief, kernel = self.belief, self.belief.prior.kernel
        seen = belief.distinct.arms
        if seen is None:
            return self.mean + kernel.draw(self.arms, rng)
        joint = kernel.draw(self.arms.joined(seen), rng)
        draw, at_seen = joint[: len(self.arms)], joint[len(self.arms) :]
        noise = rng.standard_normal(len(seen)) / np.sqrt(belief.statistics.precision)
        gap = belief.statistics.averages - belief.prior.means(seen) - at_seen - noise
        weights = belief.factor.solve(gap[:, None])[:, 0]
        for part in tiles(len(self.arms)):
            here = self.arms.take(np.arange(part.start, part.stop))
            draw[part] += belief.prior.means(here) + weights @ kernel.gram(seen, here)
        return draw
