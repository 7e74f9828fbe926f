r"""A sparse GP over a large finite universe, for rewards of arms and of *sums* of arms.

Where the covariance of all arms does not fit (`DenseGP`), M arms sum the process up. A partial
Cholesky factor of the prior covariance, pivoted on the arm of greatest variance left, gives every
arm M features :math:`\varphi` with

.. math:: f(a) = m(a) + \varphi(a)^T z + r(a), \qquad z \sim N(0, I), \qquad
          \mathrm{var}\,r(a) = k(a, a) - \varphi(a)^T \varphi(a) ,

where r, what the pivots leave unexplained, is taken to be independent between arms and is not
learned about: the posterior of Titsias (2009), as in `StreamingGP`, but nothing of the history is
kept. A batch of observations arrives as `Evidence` (A, w) and conditions z alone, on precision
:math:`\Phi A \Phi^T`, so that memory depends on n and M only. With M = n it is exact.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_per_arm, as_vector, frozen, require_positive
from superarm.beliefs.dense import conditioned_covariance, pivoted_root
from superarm.beliefs.evidence import Evidence
from superarm.beliefs.joint import DIRECT_DRAW_LIMIT, PlacedPosterior, direct_draw, require_few
from superarm.beliefs.rows import tiles
from superarm.beliefs.universe import Universe
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter
from superarm.kernels import Kernel
from superarm.values import changed

FEATURES = 1_000
"""How many arms sum the process up, by default."""

MOST_ENTRIES = 100_000_000
"""The most features of all arms together (0.8 GiB)."""

_ENOUGH = 1e-10  # share of the prior variance below which nothing is left to explain


@dataclass(frozen=True, eq=False)
class InducedGP:
    """A Gaussian process on finitely many arms, summed up by M of them; see `from_kernel`.

    Attributes:
        features: of all arms, shape (M, n).
        residual: variances that they leave unexplained, shape (n,).
        core_mean: of z, shape (M,).
        core_covariance: of z, shape (M, M).
    """

    universe: Universe
    prior_mean: Vector
    noise_variance: Vector
    features: Matrix
    residual: Vector
    core_mean: Vector
    core_covariance: Matrix

    @classmethod
    def from_kernel(
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: ArrayLike = 0.0,
        *,
        n_features: int = FEATURES,
    ) -> "InducedGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means; one number or one per arm.
            n_features: M; fewer, if fewer explain everything.
        """
        if n_features < 1:
            msg = f"n_features must be at least 1, got {n_features}"
            raise ValueError(msg)
        most = min(n_features, len(arms))
        if most * len(arms) > MOST_ENTRIES:
            msg = (
                f"{most:,} features of {len(arms):,} arms are more than {MOST_ENTRIES:,} numbers; "
                "ask for fewer features"
            )
            raise CapacityError(msg)
        universe = Universe(arms)
        noise = as_per_arm("noise_variance", noise_variance, len(arms))
        require_positive("noise_variance", noise)
        features, residual = _partial_cholesky(arms, kernel, most)
        size = features.shape[0]
        return cls(
            universe=universe,
            prior_mean=as_per_arm("mean", mean, len(arms)),
            noise_variance=noise,
            features=frozen(features),
            residual=frozen(residual),
            core_mean=frozen(np.zeros(size)),
            core_covariance=frozen(np.eye(size)),
        )

    @cached_property
    def mean(self) -> Vector:
        """Posterior means of the whole universe, shape (n,)."""
        return self.prior_mean + self.core_mean @ self.features

    @cached_property
    def variance(self) -> Vector:
        """Posterior variances of the whole universe, shape (n,)."""
        root = cholesky_with_jitter(self.core_covariance, 1.0)
        variance = self.residual.copy()
        for part in tiles(variance.size):
            half = root.T @ self.features[:, part]
            variance[part] += np.einsum("ij,ij->j", half, half)
        return variance

    def posterior(self, arms: Arms) -> "InducedPosterior":
        """Return the posterior of these arms."""
        return InducedPosterior(self, self.universe.positions(arms))

    def condition(self, arms: Arms, rewards: Vector) -> "InducedGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly."""
        checked = as_vector("rewards", rewards, len(arms))
        places = self.universe.positions(arms)
        return self.condition_evidence(Evidence.of_rewards(places, checked, self.noise_variance))

    def condition_sums(self, arms: Arms, starts: ArrayLike, totals: ArrayLike) -> "InducedGP":
        """Return the belief after totals of arms; the arguments are those of `DenseGP`."""
        places = self.universe.positions(arms)
        return self.condition_evidence(
            Evidence.of_sums(places, starts, totals, self.noise_variance)
        )

    def condition_evidence(self, evidence: Evidence) -> "InducedGP":
        """Return the belief after all observations that were summed up in this evidence."""
        evidence.require_size(self.prior_mean.size)
        if evidence.precision.nnz == 0:
            return self
        touched = np.flatnonzero(np.diff(evidence.precision.indptr))
        features = self.features[:, touched]
        inner = features @ (evidence.precision[touched][:, touched] @ features.T)
        root = pivoted_root((inner + inner.T) / 2)
        covariance = conditioned_covariance(
            self.core_covariance, root.T @ self.core_covariance, root
        )
        surprise = evidence.weighted - evidence.precision @ self.mean
        mean = self.core_mean + covariance @ (self.features @ surprise)
        return changed(self, core_mean=frozen(mean), core_covariance=frozen(covariance))


@dataclass(frozen=True, eq=False)
class InducedPosterior(PlacedPosterior):
    """A view of an `InducedGP` at some arms."""

    belief: InducedGP

    def covariance(self) -> Matrix:
        """Return the posterior covariance, shape (n, n); an arm given twice is one arm."""
        require_few(self.places.size)
        features = self.belief.features[:, self.places]
        explained = features.T @ self.belief.core_covariance @ features
        same = self.places[:, None] == self.places
        total: Matrix = explained + same * self.belief.residual[self.places]
        return total

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw all arms together."""
        belief = self.belief
        if self.places.size <= DIRECT_DRAW_LIMIT:
            scale = np.array([float(self.std.max(initial=1e-300) ** 2)])
            return direct_draw(self.mean, self.covariance(), scale, rng)
        root = cholesky_with_jitter(belief.core_covariance, 1.0)
        core = belief.core_mean + root @ rng.standard_normal(belief.core_mean.size)
        rest = np.sqrt(belief.residual) * rng.standard_normal(belief.residual.size)
        return (belief.prior_mean + core @ belief.features + rest)[self.places]


def _partial_cholesky(arms: Arms, kernel: Kernel, most: int) -> tuple[Matrix, Vector]:
    """Return features (M, n) and what they leave of the variances, pivoting on the largest."""
    prior = kernel.diagonal(arms)
    left = prior.copy()
    features = np.empty((most, len(arms)))
    for number in range(most):
        pivot = int(np.argmax(left))
        if left[pivot] <= _ENOUGH * prior.max():
            return features[:number].copy(), np.maximum(left, 0.0)
        row = kernel.gram(arms.take([pivot]), arms)[0]
        row = row - features[:number, pivot] @ features[:number]
        features[number] = row / np.sqrt(left[pivot])
        left = np.maximum(left - features[number] ** 2, 0.0)
        left[pivot] = 0.0
    return features, left
