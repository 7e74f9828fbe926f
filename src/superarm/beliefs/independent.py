"""One conjugate Gaussian per arm, learning nothing from its neighbours: the paper's baseline BI."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_per_arm, as_vector, frozen, require_positive
from superarm.beliefs.universe import Universe
from superarm.values import changed


@dataclass(frozen=True, eq=False)
class IndependentPosterior:
    """Independent Gaussians; joint draws are draws of each."""

    mean: Vector
    std: Vector
    noise_std: Vector

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw every arm."""
        return self.mean + self.std * rng.standard_normal(self.mean.size)

    def covariance(self) -> Matrix:
        """Return the diagonal covariance, shape (n, n)."""
        return np.diag(self.std**2)


@dataclass(frozen=True, eq=False, init=False)
class IndependentGaussian:
    r"""Arms 0 to n-1 with independent Gaussian priors and known noise ("Bayesian inference").

    After c rewards of an arm with residual sum :math:`s = \sum_i (y_i - m)`

    .. math:: \mu = m + \frac{v s}{\varsigma^2 + c v}, \qquad
              \sigma^2 = \frac{v \varsigma^2}{\varsigma^2 + c v}

    with prior mean m, prior variance v and noise variance :math:`\varsigma^2`.

    Args:
        mean: prior means, shape (n,).
        variance: prior variances, one number or shape (n,).
        noise_variance: one number or shape (n,).

    >>> belief = IndependentGaussian([0.0, 0.0], 1.0, noise_variance=1.0)
    >>> belief.condition(Arms([1]), np.array([3.0])).posterior(Arms([0, 1])).mean.tolist()
    [0.0, 1.5]
    """

    universe: Universe
    prior_mean: Vector
    prior_variance: Vector
    noise_variance: Vector
    counts: Vector
    residuals: Vector

    def __init__(
        self, mean: ArrayLike, variance: ArrayLike, noise_variance: ArrayLike = 0.01
    ) -> None:
        """Check the prior; nothing has been seen yet."""
        prior_mean = as_vector("mean", mean)
        size = prior_mean.size
        prior_variance = as_per_arm("variance", variance, size)
        noise = as_per_arm("noise_variance", noise_variance, size)
        require_positive("variance", prior_variance)
        require_positive("noise_variance", noise)
        object.__setattr__(self, "universe", Universe(Arms(np.arange(size))))
        object.__setattr__(self, "prior_mean", prior_mean)
        object.__setattr__(self, "prior_variance", prior_variance)
        object.__setattr__(self, "noise_variance", noise)
        object.__setattr__(self, "counts", frozen(np.zeros(size)))
        object.__setattr__(self, "residuals", frozen(np.zeros(size)))

    def posterior(self, arms: Arms) -> IndependentPosterior:
        """Return the posterior of these arms; their contexts are ignored."""
        where = self.universe.positions(arms)
        noise, prior = self.noise_variance[where], self.prior_variance[where]
        total = noise + self.counts[where] * prior
        mean = self.prior_mean[where] + prior * self.residuals[where] / total
        return IndependentPosterior(mean, np.sqrt(prior * noise / total), np.sqrt(noise))

    def condition(self, arms: Arms, rewards: Vector) -> "IndependentGaussian":
        """Return the belief after one reward per arm; repeated arms count repeatedly."""
        where = self.universe.positions(arms)
        seen = as_vector("rewards", rewards, len(arms))
        counts, residuals = self.counts.copy(), self.residuals.copy()
        np.add.at(counts, where, 1.0)
        np.add.at(residuals, where, seen - self.prior_mean[where])
        return changed(self, counts=frozen(counts), residuals=frozen(residuals))
