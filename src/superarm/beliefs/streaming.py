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
reads the history again: :math:`O(N M)` kernel values and products per arm added. With all arms
inducing this is the exact posterior.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_vector, frozen
from superarm.beliefs.factor import solve_lower
from superarm.beliefs.inducing import most_uncertain
from superarm.beliefs.joint import DIRECT_DRAW_LIMIT, MeanFunction, direct_draw, require_few
from superarm.beliefs.prior import ContextPrior, require_same_features
from superarm.beliefs.rows import tiles
from superarm.gaussian import cholesky_with_jitter, clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

MAX_INDUCING = 500
GROW_ABOVE = 0.1


@dataclass(frozen=True, eq=False, init=False)
class StreamingGP:
    """A Gaussian process on contexts, summed up by inducing arms that are chosen as they come.

    Args:
        kernel: the prior covariance.
        noise_variance: of one reward; one number, or one per arm id (ids 0 to n-1).
        mean: the prior mean: a number, or a function of arms.
        inducing: arms to start with; none by default.
        max_inducing: how many inducing arms to hold at most.
        grow_above: an observed arm becomes inducing if the others leave more than this share of
            its prior variance unexplained.
    """

    prior: ContextPrior
    inducing: Arms | None
    max_inducing: int
    grow_above: float
    lower: Matrix
    information: Matrix
    pull: Vector
    seen: Arms | None
    residuals: Vector

    def __init__(  # noqa: PLR0913 - a belief has these parts
        self,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: float | MeanFunction = 0.0,
        *,
        inducing: Arms | None = None,
        max_inducing: int = MAX_INDUCING,
        grow_above: float = GROW_ABOVE,
    ) -> None:
        """Check the prior; nothing has been seen yet."""
        if max_inducing < 1 or (inducing is not None and len(inducing) > max_inducing):
            given = 0 if inducing is None else len(inducing)
            msg = (
                f"max_inducing = {max_inducing} must be at least 1 and hold all {given} given arms"
            )
            raise ValueError(msg)
        if not 0 < grow_above <= 1:
            msg = f"grow_above must be a share in (0, 1], got {grow_above}"
            raise ValueError(msg)
        size = 0 if inducing is None else len(inducing)
        lower = np.empty((0, 0))
        if inducing is not None:
            lower = cholesky_with_jitter(kernel.gram(inducing, inducing))
        object.__setattr__(self, "prior", ContextPrior(kernel, noise_variance, mean))
        object.__setattr__(self, "inducing", inducing)
        object.__setattr__(self, "max_inducing", max_inducing)
        object.__setattr__(self, "grow_above", float(grow_above))
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "information", np.zeros((size, size)))
        object.__setattr__(self, "pull", np.zeros(size))
        object.__setattr__(self, "seen", None)
        object.__setattr__(self, "residuals", np.empty(0))

    def posterior(self, arms: Arms) -> "StreamingPosterior":
        """Return the posterior of these arms."""
        prior = self.prior.variances(arms)
        mean, variance = self.prior.means(arms).copy(), prior.copy()
        for part in tiles(len(arms)):
            features = self.features(arms.take(np.arange(part.start, part.stop)))
            inner = solve_lower(self._evidence, features)
            mean[part] += self._weights @ features
            variance[part] += np.einsum("ij,ij->j", inner, inner)
            variance[part] -= np.einsum("ij,ij->j", features, features)
        std = np.sqrt(clipped_variance(variance, prior))
        return StreamingPosterior(self, arms, mean, std, np.sqrt(self.prior.noise_variances(arms)))

    def condition(self, arms: Arms, rewards: Vector) -> "StreamingGP":
        """Return the belief after one reward per arm."""
        checked = as_vector("rewards", rewards, len(arms))
        noise = self.prior.noise_variances(arms)
        require_same_features(self.seen or self.inducing, arms)
        if len(arms) == 0:
            return self
        gap = checked - self.prior.means(arms)
        grown = self.with_inducing(self._worth_inducing(arms))
        features = grown.features(arms)
        weighted = features / noise
        return changed(
            grown,
            information=frozen(grown.information + weighted @ features.T),
            pull=frozen(grown.pull + weighted @ gap),
            seen=arms if self.seen is None else self.seen.joined(arms),
            residuals=frozen(np.concatenate([self.residuals, gap])),
        )

    def with_inducing(self, more: Arms) -> "StreamingGP":
        """Return the belief with more inducing arms, which the history is read again for."""
        if len(more) == 0:
            return self
        kernel = self.prior.kernel
        border = self.features(more).T  # rows of the new factor left of its corner
        corner = cholesky_with_jitter(kernel.gram(more, more) - border @ border.T)
        own = np.zeros((len(more), len(more)))
        cross = np.zeros((self.pull.size, len(more)))
        pull = np.zeros(len(more))
        for part in tiles(self.residuals.size):
            assert self.seen is not None  # noqa: S101 - there are residuals
            past = self.seen.take(np.arange(part.start, part.stop))
            values = kernel.gram(more, past)
            weighted = values / self.prior.noise_variances(past)
            own += weighted @ values.T
            cross += self._values(past) @ weighted.T
            pull += weighted @ self.residuals[part]
        cross = solve_lower(self.lower, cross)
        side = solve_lower(corner, cross.T - border @ self.information)
        square = own - border @ cross - cross.T @ border.T + border @ self.information @ border.T
        square = solve_lower(corner, solve_lower(corner, square).T)
        size = self.pull.size
        lower = np.zeros((size + len(more), size + len(more)))
        lower[:size, :size], lower[size:, :size], lower[size:, size:] = self.lower, border, corner
        return changed(
            self,
            inducing=more if self.inducing is None else self.inducing.joined(more),
            lower=frozen(lower),
            information=frozen(
                np.block([[self.information, side.T], [side, (square + square.T) / 2]])
            ),
            pull=frozen(
                np.concatenate(
                    [self.pull, solve_lower(corner, (pull - border @ self.pull)[:, None])[:, 0]]
                )
            ),
        )

    def features(self, arms: Arms) -> Matrix:
        r"""Return :math:`\varphi` of these arms, shape (M, n)."""
        return solve_lower(self.lower, self._values(arms))

    def _values(self, arms: Arms) -> Matrix:
        if self.inducing is None:
            return np.empty((0, len(arms)))
        return self.prior.kernel.gram(self.inducing, arms)

    def _worth_inducing(self, arms: Arms) -> Arms:
        room = self.max_inducing - self.pull.size
        if room <= 0:
            return arms.take([])
        features = self.features(arms)
        left = self.prior.kernel.gram(arms, arms) - features.T @ features
        return arms.take(most_uncertain(left, self.grow_above * self.prior.variances(arms), room))

    @cached_property
    def _evidence(self) -> Matrix:
        """The Cholesky factor of I + S."""
        return cholesky_with_jitter(np.eye(self.pull.size) + self.information)

    @cached_property
    def _weights(self) -> Vector:
        half = solve_lower(self._evidence, self.pull[:, None])
        return solve_lower(self._evidence, half, transposed=True)[:, 0]


@dataclass(frozen=True, eq=False)
class StreamingPosterior:
    """Means and deviations of some arms; covariances and draws are made when asked for."""

    belief: StreamingGP
    arms: Arms
    mean: Vector
    std: Vector
    noise_std: Vector

    def covariance(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        require_few(len(self.arms))
        belief = self.belief
        features = belief.features(self.arms)
        inner = solve_lower(belief._evidence, features)  # noqa: SLF001 - its own posterior
        prior = belief.prior.kernel.gram(self.arms, self.arms)
        return prior - features.T @ features + inner.T @ inner

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw all arms together.

        Up to `superarm.beliefs.joint.DIRECT_DRAW_LIMIT` arms exactly; beyond, what the inducing
        arms explain is drawn jointly and the rest of each arm's variance independently.
        """
        belief = self.belief
        if len(self.arms) <= DIRECT_DRAW_LIMIT:
            scale = belief.prior.variances(self.arms)
            return direct_draw(self.mean, self.covariance(), scale, rng)
        inner = rng.standard_normal((belief.pull.size, 1))
        shift = solve_lower(belief._evidence, inner, transposed=True)[:, 0]  # noqa: SLF001
        draw = self.mean.copy()
        variance = self.std**2
        for part in tiles(len(self.arms)):
            features = belief.features(self.arms.take(np.arange(part.start, part.stop)))
            half = solve_lower(belief._evidence, features)  # noqa: SLF001 - its own posterior
            left = np.maximum(variance[part] - np.einsum("ij,ij->j", half, half), 0.0)
            draw[part] += shift @ features + np.sqrt(left) * rng.standard_normal(left.size)
        return draw
