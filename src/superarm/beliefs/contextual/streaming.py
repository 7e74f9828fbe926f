r"""A sparse GP for contexts that are new every round: the optimal q(u) in closed form, kept up.

With M inducing arms Z, :math:`K_{ZZ} = L L^T` and the features
:math:`\varphi(a) = L^{-1} k_Z(a)`, the optimal variational posterior of Titsias (2009) depends on
the history by two sums alone,

.. math::
    S = \sum_i \varphi_i \varphi_i^T / \varsigma_i^2, \quad
    s = \sum_i \varphi_i (y_i - m_i) / \varsigma_i^2, \qquad
    \mu(a) = m(a) + \varphi^T (I + S)^{-1} s, \quad
    \sigma^2(a) = k(a, a) - \varphi^T \varphi + \varphi^T (I + S)^{-1} \varphi .

They are added to, :math:`O(M^2 k)` per round. New inducing arms extend both sums exactly, which
reads the distinct arms seen again: :math:`O(D M)` kernel values and products per arm added. With
all arms inducing this is the exact posterior.

The first two terms of the variance, :math:`r(a) = k(a, a) - \varphi^T \varphi`, are what inducing
arms leave unexplained; no data can lower them. So an observed arm becomes inducing when r(a)
exceeds a share of the variance that exact inference would leave it, while there is room. Where
there is, variances of observed arms are too large by about that share at most; where the room is
used up, they stay at r(a) or above however much is learned.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_count, as_vector, frozen
from superarm.beliefs.contextual.distinct import DistinctArms
from superarm.beliefs.contextual.inducing import most_uncertain
from superarm.beliefs.describing import told
from superarm.beliefs.factor import solve_lower
from superarm.beliefs.posterior import ContextView
from superarm.beliefs.prior import ContextPrior, Mean, require_same_features
from superarm.beliefs.rows import tiles
from superarm.beliefs.statistics import ArmStatistics
from superarm.defaults import STREAMING_INDUCING
from superarm.gaussian import cholesky_with_jitter, clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

GROW_ABOVE = 0.1
_CHOSEN_AT_ONCE = 16

REDUNDANT = 1e-10
"""The share of its prior variance that the other inducing arms must leave a new one: below, it
would say nothing new, and solves with K_ZZ would lose all digits."""


@dataclass(frozen=True, eq=False)
class StreamingGP:
    """A Gaussian process on contexts, summed up by inducing arms; make one with `from_kernel`.

    Attributes:
        prior: what it was made from.
        inducing: the arms that sum the history up, none before the first.
        distinct: the distinct pairs of id and context seen.
        statistics: what their rewards said, one entry each.
    """

    prior: ContextPrior
    n_inducing: int
    grow_above: float
    inducing: Arms | None
    lower: Matrix
    information: Matrix
    pull: Vector
    distinct: DistinctArms
    statistics: ArmStatistics

    @classmethod
    def from_kernel(  # noqa: PLR0913 - a belief has these parts
        cls,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        inducing: Arms | None = None,
        n_inducing: int = STREAMING_INDUCING,
        grow_above: float = GROW_ABOVE,
    ) -> "StreamingGP":
        """Believe a kernel on contexts.

        Args:
            kernel: the prior covariance.
            noise_variance: of one reward; one number, or one per arm id (ids 0 to n-1).
            mean: the prior mean: none (zero), a number, one per arm id, or a function of arms.
            inducing: arms to start with; none by default.
            n_inducing: how many inducing arms to hold at most.
            grow_above: an observed arm becomes inducing if the others leave more unexplained than
                this share of the variance that exact inference would leave it.
        """
        prior = ContextPrior.of_kernel(kernel, noise_variance, mean)
        n_inducing = as_count("n_inducing", n_inducing)
        size = 0 if inducing is None else len(inducing)
        if n_inducing < max(1, size):
            msg = f"n_inducing = {n_inducing} must be at least 1 and hold all {size} given arms"
            raise ValueError(msg)
        if not 0 < grow_above <= 1:
            msg = f"grow_above must be a share in (0, 1], got {grow_above}"
            raise ValueError(msg)
        lower = np.empty((0, 0))
        if inducing is not None:
            lower = cholesky_with_jitter(kernel.gram(inducing, inducing))
        return cls(
            prior=prior,
            n_inducing=n_inducing,
            grow_above=float(grow_above),
            inducing=inducing,
            lower=lower,
            information=np.zeros((size, size)),
            pull=np.zeros(size),
            distinct=DistinctArms(),
            statistics=ArmStatistics.nothing(),
        )

    def posterior(self, arms: Arms) -> "StreamingPosterior":
        """Return the posterior of these arms."""
        require_same_features(self.distinct.arms or self.inducing, arms)
        prior = self.prior.variances(arms)
        mean, variance = self.prior.means(arms).copy(), prior.copy()
        for part in tiles(len(arms)):
            features = self.features(arms.take(np.arange(part.start, part.stop)))
            inner = solve_lower(self._evidence, features)
            mean[part] += self._weights @ features
            variance[part] -= np.einsum("ij,ij->j", features, features)
            variance[part] = clipped_variance(variance[part], prior[part])
            variance[part] += np.einsum("ij,ij->j", inner, inner)
        noise = np.sqrt(self.prior.noise_of(arms))
        return StreamingPosterior(arms, mean, np.sqrt(variance), noise, prior, self)

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "StreamingGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, where it is known and another; one number or one each.
        """
        checked = as_vector("rewards", rewards, len(arms))
        noise = self.prior.noise_of(arms, noise_variance)
        require_same_features(self.distinct.arms or self.inducing, arms)
        belief, begin = self, 0
        while begin < len(arms):
            # few at a time while inducing arms are chosen: what many arms that come together tell
            # of each other is known only after the first of them
            few = _CHOSEN_AT_ONCE if belief.pull.size < self.n_inducing else len(arms)
            some = slice(begin, begin + few)
            part = arms.take(np.arange(len(arms))[some])
            belief = belief._after(part, checked[some], noise[some])
            begin += few
        return belief

    def _after(self, arms: Arms, rewards: Vector, noise: Vector) -> "StreamingGP":
        distinct, where = self.distinct.located(arms)
        assert distinct.arms is not None  # noqa: S101 - these arms are among them
        slots, batch = ArmStatistics.of_batch(where, rewards, noise)
        played = distinct.arms.take(slots)
        grown = self.with_inducing(self._worth_inducing(played, batch.precision))
        features = grown.features(played)
        weighted = features * batch.precision
        gap = batch.averages - self.prior.means(played)
        return changed(
            grown,
            information=frozen(grown.information + weighted @ features.T),
            pull=frozen(grown.pull + weighted @ gap),
            distinct=distinct,
            statistics=self.statistics.merged(slots, batch, len(distinct)),
        )

    def with_inducing(self, more: Arms) -> "StreamingGP":
        """Return the belief with more inducing arms, which the history is read again for.

        They must not be determined by those there are; `n_inducing` rises if they are too many.
        """
        if len(more) == 0:
            return self
        require_same_features(self.distinct.arms or self.inducing, more)
        kernel, size = self.prior.kernel, self.pull.size
        border = self.features(more).T  # rows of the new factor left of its corner
        corner = cholesky_with_jitter(kernel.gram(more, more) - border @ border.T)
        lower = np.zeros((size + len(more), size + len(more)))
        lower[:size, :size], lower[size:, :size], lower[size:, size:] = self.lower, border, corner
        own = np.zeros((len(more), len(more)))
        side = np.zeros((len(more), size))
        pull = np.zeros(len(more))
        for part in tiles(len(self.distinct)):
            assert self.distinct.arms is not None  # noqa: S101 - there are some
            past = self.distinct.arms.take(np.arange(part.start, part.stop))
            features = self.features(past)
            fresh = solve_lower(corner, kernel.gram(more, past) - border @ features)
            weighted = fresh * self.statistics.precision[part]
            own += weighted @ fresh.T
            side += weighted @ features.T
            pull += weighted @ (self.statistics.averages[part] - self.prior.means(past))
        return changed(
            self,
            n_inducing=max(self.n_inducing, size + len(more)),
            inducing=more if self.inducing is None else self.inducing.joined(more),
            lower=frozen(lower),
            information=frozen(np.block([[self.information, side.T], [side, own]])),
            pull=frozen(np.concatenate([self.pull, pull])),
        )

    def features(self, arms: Arms) -> Matrix:
        r"""Return :math:`\varphi` of these arms, shape (M, n)."""
        if self.inducing is None:
            return np.empty((0, len(arms)))
        return solve_lower(self.lower, self.prior.kernel.gram(self.inducing, arms))

    def _worth_inducing(self, arms: Arms, precision: Vector) -> Arms:
        """Return which of these arms are to become inducing when rewards of them arrive."""
        room = self.n_inducing - self.pull.size
        if room <= 0:
            return arms.take([])
        features = self.features(arms)
        prior = self.prior.variances(arms)
        left = self.prior.kernel.gram(arms, arms) - features.T @ features
        inner = solve_lower(self._evidence, features)
        before = np.maximum(left.diagonal(), 0.0) + np.einsum("ij,ij->j", inner, inner)
        after = before / (1 + before * precision)  # what the rewards of this arm alone would leave
        above = np.maximum(self.grow_above * after, REDUNDANT * prior)
        return arms.take(most_uncertain(left, above, room))

    @cached_property
    def _evidence(self) -> Matrix:
        """The Cholesky factor of I + S."""
        return cholesky_with_jitter(np.eye(self.pull.size) + self.information)

    @cached_property
    def _weights(self) -> Vector:
        half = solve_lower(self._evidence, self.pull[:, None])
        return solve_lower(self._evidence, half, transposed=True)[:, 0]

    def __repr__(self) -> str:
        """Return one line."""
        return told(self, None, len(self.distinct), inducing=self.pull.size)


@dataclass(frozen=True, eq=False, repr=False)
class StreamingPosterior(ContextView):
    """Means and deviations of some arms; covariances and draws are made when asked for."""

    belief: StreamingGP

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        belief = self.belief
        features = belief.features(self.arms)
        inner = solve_lower(belief._evidence, features)  # noqa: SLF001 - its own posterior
        prior = belief.prior.kernel.gram(self.arms, self.arms)
        return prior - features.T @ features + inner.T @ inner

    def draw_many(self, rng: np.random.Generator) -> Vector:
        r"""Draw by Matheron's rule on the inducing arms.

        A prior draw f becomes :math:`f + \varphi^T (v' - v)`, with :math:`v = L^{-1} f_Z` what it
        is at the inducing arms and v' a draw of their posterior.
        """
        belief, kernel = self.belief, self.belief.prior.kernel
        if belief.inducing is None:
            return self.mean + kernel.draw(self.arms, rng)
        joint = kernel.draw(self.arms.joined(belief.inducing), rng)
        draw, at_inducing = joint[: len(self.arms)], joint[len(self.arms) :]
        before = solve_lower(belief.lower, at_inducing[:, None])[:, 0]
        noise = rng.standard_normal((belief.pull.size, 1))
        after = belief._weights + solve_lower(belief._evidence, noise, transposed=True)[:, 0]  # noqa: SLF001
        for part in tiles(len(self.arms)):
            here = self.arms.take(np.arange(part.start, part.stop))
            draw[part] += belief.prior.means(here) + (after - before) @ belief.features(here)
        return draw
