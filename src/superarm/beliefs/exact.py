r"""The exact GP posterior at any context, also unseen ones (section 2.2).

.. math::
    \mu(a) = m(a) + k_D(a)^T (K_{DD} + N)^{-1} (\bar y - m_D), \qquad
    k(a, b) - k_D(a)^T (K_{DD} + N)^{-1} k_D(b)

over the D distinct pairs of id and context seen, with :math:`N = \varsigma^2/\mathrm{count}`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_vector, frozen
from superarm.beliefs.factor import Factor
from superarm.beliefs.joint import DIRECT_DRAW_LIMIT, MeanFunction, direct_draw, require_few
from superarm.beliefs.prior import ContextPrior, require_same_features
from superarm.beliefs.rows import tiles
from superarm.beliefs.universe import merge_batch, merge_repeats
from superarm.errors import CapacityError
from superarm.gaussian import clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

MAX_DISTINCT = 10_000
"""Distinct observations an `ExactGP` accepts by default (2.5 GiB; a cubic cost to refactor)."""


@dataclass(frozen=True, eq=False, init=False)
class ExactGP:
    """A Gaussian process on contexts; arms need not be known beforehand.

    Args:
        kernel: the prior covariance.
        noise_variance: of one reward; one number, or one per arm id (ids 0 to n-1).
        mean: the prior mean: a number, or a function of arms.
        max_distinct: how many distinct observations to accept.

    >>> from superarm.kernels import RBF
    >>> belief = ExactGP(RBF(), noise_variance=1.0).condition(Arms([0], [[0.0]]), np.array([2.0]))
    >>> belief.posterior(Arms([5], [[0.0]])).mean.round(6).tolist()
    [1.0]
    """

    prior: ContextPrior
    max_distinct: int
    distinct: Arms | None
    counts: Vector
    averages: Vector
    factor: Factor
    weights: Vector

    def __init__(
        self,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: float | MeanFunction = 0.0,
        *,
        max_distinct: int = MAX_DISTINCT,
    ) -> None:
        """Check the prior; nothing has been seen yet."""
        if max_distinct < 1:
            msg = f"max_distinct must be at least 1, got {max_distinct}"
            raise ValueError(msg)
        object.__setattr__(self, "prior", ContextPrior(kernel, noise_variance, mean))
        object.__setattr__(self, "max_distinct", max_distinct)
        object.__setattr__(self, "distinct", None)
        for name in ("counts", "averages", "weights"):
            object.__setattr__(self, name, np.empty(0))
        object.__setattr__(self, "factor", Factor())

    def posterior(self, arms: Arms) -> "ExactPosterior":
        """Return the posterior of these arms."""
        prior = self.prior.variances(arms)
        mean, variance = self.prior.means(arms).copy(), prior.copy()
        if self.distinct is not None:
            require_same_features(self.distinct, arms)
            for part in tiles(len(arms)):
                here = arms.take(np.arange(part.start, part.stop))
                cross = self.prior.kernel.gram(self.distinct, here)
                half = self.factor.half_solve(cross)
                mean[part] += self.weights @ cross
                variance[part] -= np.einsum("ij,ij->j", half, half)
        std = np.sqrt(clipped_variance(variance, prior))
        return ExactPosterior(self, arms, mean, std, np.sqrt(self.prior.noise_variances(arms)))

    def condition(self, arms: Arms, rewards: Vector) -> "ExactGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly."""
        checked = as_vector("rewards", rewards, len(arms))
        self.prior.noise_variances(arms)
        if len(arms) == 0:
            return self
        distinct, where = self._located(arms)
        if len(distinct) > self.max_distinct:
            msg = (
                f"ExactGP holds at most {self.max_distinct} distinct observations and these "
                f"rewards would make {len(distinct)}; its cost is cubic in them. Use FiniteGP if "
                "the arms form a finite universe, StreamingGP, a sparse GP that sums the history "
                "up in inducing arms, or raise max_distinct"
            )
            raise CapacityError(msg)
        slots, counts, averages = merge_repeats(where, checked)
        total, merged = merge_batch(
            self.counts, self.averages, len(distinct), slots, counts, averages
        )
        noise = self.prior.noise_variances(distinct)

        def gram(left: Rows, right: Rows) -> Matrix:
            return self.prior.kernel.gram(distinct.take(left), distinct.take(right))

        grown = self.factor.grown(slots, gram)
        factor = grown.observed(slots, counts / noise[slots], total / noise, gram)
        gap = merged - self.prior.means(distinct)
        return changed(
            self,
            distinct=distinct,
            counts=frozen(total),
            averages=frozen(merged),
            factor=factor,
            weights=frozen(factor.solve(gap[:, None])[:, 0]),
        )

    def _located(self, arms: Arms) -> tuple[Arms, Rows]:
        """Return all distinct observations, new ones last, and the slot of every arm."""
        require_same_features(self.distinct, arms)
        known = 0 if self.distinct is None else len(self.distinct)
        everything = arms if self.distinct is None else self.distinct.joined(arms)
        # zero and minus zero are one context
        numbers = np.unique(everything.ids, return_inverse=True)[1]
        keyed = np.column_stack([numbers, everything.contexts + 0.0])
        _, first, which = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
        rank = np.empty(first.size, dtype=np.intp)
        rank[np.argsort(first)] = np.arange(first.size)
        return everything.take(np.sort(first)), rank[which.reshape(-1)][known:]


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Means and deviations of some arms; covariances and draws are made when asked for."""

    belief: ExactGP
    arms: Arms
    mean: Vector
    std: Vector
    noise_std: Vector

    def covariance(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        require_few(len(self.arms))
        prior = self.belief.prior.kernel.gram(self.arms, self.arms)
        if self.belief.distinct is None:
            return prior
        half = self.belief.factor.half_solve(
            self.belief.prior.kernel.gram(self.belief.distinct, self.arms)
        )
        return prior - half.T @ half

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw all arms together.

        Up to `superarm.beliefs.joint.DIRECT_DRAW_LIMIT` arms by a factor of their posterior
        covariance; beyond by Matheron's rule from a prior draw of these and all arms seen.
        """
        belief = self.belief
        if len(self.arms) <= DIRECT_DRAW_LIMIT:
            scale = belief.prior.variances(self.arms)
            return direct_draw(self.mean, self.covariance(), scale, rng)
        if belief.distinct is None:
            return self.mean + belief.prior.kernel.draw(self.arms, rng)
        joint = belief.prior.kernel.draw(self.arms.joined(belief.distinct), rng)
        draw, at_seen = joint[: len(self.arms)], joint[len(self.arms) :]
        noise = np.sqrt(belief.prior.noise_variances(belief.distinct) / belief.counts)
        gap = belief.averages - belief.prior.means(belief.distinct) - at_seen
        gap -= noise * rng.standard_normal(noise.size)
        weights = belief.factor.solve(gap[:, None])[:, 0]
        for part in tiles(len(self.arms)):
            here = self.arms.take(np.arange(part.start, part.stop))
            draw[part] += belief.prior.means(here) + weights @ belief.prior.kernel.gram(
                belief.distinct, here
            )
        return draw
