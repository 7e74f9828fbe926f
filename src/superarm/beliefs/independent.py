"""One conjugate Gaussian per arm, learning nothing from its neighbours: the paper's baseline BI."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_per_arm, as_vector, require_positive
from superarm.beliefs.describing import told
from superarm.beliefs.posterior import require_few
from superarm.beliefs.prior import Mean, checked_noise, means_of, require_kernel, require_noise
from superarm.beliefs.statistics import ArmStatistics
from superarm.beliefs.universe import Universe
from superarm.kernels import Kernel
from superarm.values import assembled, changed


@dataclass(frozen=True, eq=False)
class IndependentPosterior:
    """Independent Gaussians; joint draws are draws of each. An arm given twice is one arm."""

    mean: Vector
    std: Vector
    noise_std: Vector
    places: Rows

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw every arm."""
        _, first, which = np.unique(self.places, return_index=True, return_inverse=True)
        return self.mean + self.std * rng.standard_normal(self.mean.size)[first[which]]

    def covariance(self) -> Matrix:
        """Return the covariance, shape (n, n): diagonal, but for arms given twice."""
        require_few(self.places.size)
        same = self.places[:, None] == self.places
        matrix: Matrix = same * self.std**2
        return matrix


@dataclass(frozen=True, eq=False, init=False)
class IndependentGaussian:
    r"""Arms with independent Gaussian priors and known noise ("Bayesian inference").

    After rewards of an arm with average :math:`\bar y` and summed precision
    :math:`p = \sum_j s_j^{-2}`

    .. math:: \mu = m + \frac{v p\,(\bar y - m)}{1 + v p}, \qquad \sigma^2 = \frac{v}{1 + v p}

    with prior mean m and prior variance v.

    Args:
        mean: prior means of arms 0 to n-1, shape (n,).
        variance: prior variances, one number or shape (n,).
        noise_variance: one number or shape (n,).

    >>> belief = IndependentGaussian([0.0, 0.0], variance=1.0, noise_variance=1.0)
    >>> belief.condition(Arms([1]), np.array([2.0])).posterior(Arms([0, 1])).mean.tolist()
    [0.0, 1.0]
    """

    universe: Universe
    prior_mean: Vector
    prior_variance: Vector
    noise_variance: Vector
    statistics: ArmStatistics

    def __init__(
        self, mean: ArrayLike, variance: ArrayLike, noise_variance: ArrayLike = 0.01
    ) -> None:
        """Check the prior; nothing has been seen yet."""
        prior_mean = as_vector("mean", mean)
        arms = Arms(np.arange(prior_mean.size))
        for name, part in _parts(arms, prior_mean, variance, noise_variance).items():
            object.__setattr__(self, name, part)

    @classmethod
    def from_kernel(
        cls, arms: Arms, kernel: Kernel, noise_variance: ArrayLike = 0.01, mean: Mean = None
    ) -> "IndependentGaussian":
        """Believe the variances of a kernel on these arms, but not its covariances.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: its diagonal gives the prior variances.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
        """
        require_kernel(kernel)
        values = means_of(mean, arms)
        plain = Arms(arms.ids)  # an arm is an arm, whatever context it comes with later
        return assembled(cls, **_parts(plain, values, kernel.diagonal(arms), noise_variance))

    def posterior(self, arms: Arms) -> IndependentPosterior:
        """Return the posterior of these arms; their contexts are ignored."""
        where = self.universe.positions(arms)
        prior, noise = self.prior_variance[where], self.noise_variance[where]
        known, mean = prior * self.statistics.precision[where], self.prior_mean[where]
        mean = mean + known / (1 + known) * (self.statistics.averages[where] - mean)
        std = np.sqrt(prior / (1 + known))
        return IndependentPosterior(mean, std, np.sqrt(noise), where)

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "IndependentGaussian":
        """Return the belief after one reward per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, where it is known and another; one number or one each.
        """
        where = self.universe.positions(arms)
        seen = as_vector("rewards", rewards, len(arms))
        noise = self.noise_variance[where]
        if noise_variance is not None:
            noise = checked_noise(noise_variance, len(arms))
        if where.size == 0:
            return self
        slots, batch = ArmStatistics.of_batch(where, seen, noise)
        return changed(self, statistics=self.statistics.merged(slots, batch, len(self.universe)))

    @property
    def counts(self) -> Vector:
        """How often every arm was seen, shape (n,)."""
        return self.statistics.counts

    def __repr__(self) -> str:
        """Return one line."""
        return told(self, len(self.universe), int((self.counts > 0).sum()))


def _parts(
    arms: Arms, mean: ArrayLike, variance: ArrayLike, noise_variance: ArrayLike
) -> dict[str, object]:
    size = len(arms)
    prior_variance = as_per_arm("variance", variance, size)
    noise = as_per_arm("noise_variance", noise_variance, size)
    require_positive("variance", prior_variance)
    require_noise(noise)
    return {
        "universe": Universe(arms),
        "prior_mean": as_per_arm("mean", mean, size),
        "prior_variance": prior_variance,
        "noise_variance": noise,
        "statistics": ArmStatistics.nothing(size),
    }
