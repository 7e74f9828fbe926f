r"""How counts come about: a latent value f, a rate g(f), and a count of that rate.

======================  ============================  =========================================
`Binomial`              clicks of n visitors          :math:`g(f) = 1 / (1 + e^{-f})`
`Poisson`               events of an exposure n       :math:`g(f) = e^f`
======================  ============================  =========================================

A reward is a count over its trials (or its exposure): a rate, seen with noise.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from superarm.arrays import Matrix, Vector, as_count, as_per_arm, as_vector, require_positive

_REACH, _NODES = 9.0, 121
_Z = np.linspace(-_REACH, _REACH, _NODES)
_WEIGHTS = np.exp(-0.5 * _Z**2) / np.exp(-0.5 * _Z**2).sum()
"""A trapezoidal rule for a standard normal: its error falls exponentially with the nodes."""

_TERMS = 40
_WHOLE, _MOST_ODD = 1e-6, 0.01
_LARGEST = 700.0  # beyond, an exponential overflows
_MOST_RATE = 1e150  # beyond, its square does


class Family(ABC):
    """What rewards are counts of."""

    @property
    @abstractmethod
    def usual(self) -> float:
        """Trials of a reward that does not say."""

    @abstractmethod
    def rate(self, latent: Vector) -> Vector:
        """Return g(f), the expected reward of a latent value."""

    @abstractmethod
    def rates(self, latent: Matrix) -> Matrix:
        """Return g(f) of several values per arm."""

    @abstractmethod
    def latent(self, rate: ArrayLike) -> Vector:
        """Return the latent value of a rate."""

    @abstractmethod
    def likeliest(self, counts: Vector, trials: Vector) -> Vector:
        """Return the latent value that makes counts likeliest; infinite where there is none."""

    @abstractmethod
    def log_likelihood(self, latent: Matrix, counts: Vector, trials: Vector) -> Matrix:
        """Return log p(counts | f), up to a constant, at several f per arm, shape (D, q)."""

    @abstractmethod
    def slope(self, latent: Vector, counts: Vector, trials: Vector) -> Vector:
        """Return its derivative."""

    @abstractmethod
    def curvature(self, latent: Vector, trials: Vector) -> Vector:
        """Return minus its second derivative, which does not depend on the counts."""

    @abstractmethod
    def noise_variance(self, mean: Vector, variance: Vector) -> Vector:
        """Return E[Var(reward | f)] of a usual reward, given mean and variance of g."""

    @abstractmethod
    def require_possible(self, rewards: Vector, counts: Vector, trials: Vector) -> None:
        """Refuse counts that cannot be."""

    def moments(self, mean: Vector, std: Vector) -> tuple[Vector, Vector]:
        """Return mean and variance of g where f is normal, by quadrature."""
        rates = self.rates(mean[:, None] + std[:, None] * _Z)
        first = rates @ _WEIGHTS
        return first, (rates - first[:, None]) ** 2 @ _WEIGHTS

    def covariance(self, mean: Vector, std: Vector, latent: Matrix) -> Matrix:
        r"""Return the covariance of rates where f is jointly normal.

        By Mehler's expansion: with :math:`c_m = E[g(\mu + \sigma z) He_m(z)] / \sqrt{m!}`,

        .. math:: Cov(g(f_i), g(f_j)) = \sum_{m \ge 1} \rho_{ij}^m\, c_m(i)\, c_m(j).
        """
        if mean.size == 0:
            return np.zeros((0, 0))
        scaled = hermevander(_Z, _TERMS) / np.sqrt(
            np.array([math.factorial(m) for m in range(_TERMS + 1)], dtype=np.float64)
        )
        rates = self.rates(mean[:, None] + std[:, None] * _Z)
        terms = (rates * _WEIGHTS) @ scaled
        unit = np.where(std > 0, std, 1.0)
        rho = np.clip(latent / unit / unit[:, None], -1.0, 1.0)
        result, power = np.zeros_like(rho), np.ones_like(rho)
        for m in range(1, _TERMS + 1):
            power *= rho
            result += power * np.outer(terms[:, m], terms[:, m])
        np.fill_diagonal(result, self.moments(mean, std)[1])
        return result

    def counted(
        self, rewards: ArrayLike, trials: ArrayLike | None, n: int
    ) -> tuple[Vector, Vector]:
        """Return counts and trials of rewards, or say what is wrong with them."""
        checked = as_vector("rewards", rewards, n)
        given = as_per_arm("trials", self.usual if trials is None else trials, n)
        require_positive("trials", given)
        counts = np.asarray(checked * given)
        whole = np.round(counts)
        odd = np.abs(counts - whole) > np.minimum(_WHOLE * np.maximum(given, 1.0), _MOST_ODD)
        if odd.any():
            place = int(np.flatnonzero(odd)[0])
            msg = (
                f"reward {checked[place]:g} of {given[place]:g} trials is no whole count "
                f"({counts[place]:g}); rewards are counts over trials: pass trials=..., or use a "
                "Gaussian belief"
            )
            raise ValueError(msg)
        self.require_possible(checked, whole, given)
        return whole, given


@dataclass(frozen=True)
class Binomial(Family):
    """A reward is the share of trials that succeeded: clicks over visitors.

    Args:
        trials: of a reward that does not say; one for rewards that are 0 or 1.
    """

    trials: int = 1

    def __post_init__(self) -> None:
        """Refuse what is no number of trials."""
        require_positive("trials", as_count("trials", self.trials))

    @property
    def usual(self) -> float:
        """The trials of a reward that does not say."""
        return float(self.trials)

    def rate(self, latent: Vector) -> Vector:
        """Return the probability of success."""
        return np.asarray(expit(latent))

    def rates(self, latent: Matrix) -> Matrix:
        """Return the probabilities of success."""
        return np.asarray(expit(latent))

    def latent(self, rate: ArrayLike) -> Vector:
        """Return the log-odds of a probability."""
        found = np.asarray(rate, dtype=np.float64)
        if not ((found > 0) & (found < 1)).all():
            msg = f"rates of a binomial lie between 0 and 1, got {found.tolist()}"
            raise ValueError(msg)
        return np.asarray(logit(found))

    def likeliest(self, counts: Vector, trials: Vector) -> Vector:
        """Return the log-odds of the share."""
        return np.asarray(logit(counts / trials))

    def log_likelihood(self, latent: Matrix, counts: Vector, trials: Vector) -> Matrix:
        """Return s f - n log(1 + e^f)."""
        log: Matrix = counts[:, None] * latent - trials[:, None] * np.logaddexp(0.0, latent)
        return log

    def slope(self, latent: Vector, counts: Vector, trials: Vector) -> Vector:
        """Return s - n g."""
        return counts - trials * self.rate(latent)

    def curvature(self, latent: Vector, trials: Vector) -> Vector:
        """Return n g (1 - g)."""
        rate = self.rate(latent)
        return trials * rate * (1 - rate)

    def noise_variance(self, mean: Vector, variance: Vector) -> Vector:
        """Return E[g (1 - g)] / n."""
        return np.maximum(mean * (1 - mean) - variance, 0.0) / self.trials

    def require_possible(self, rewards: Vector, counts: Vector, trials: Vector) -> None:
        """Refuse more successes than trials, fewer than none, and parts of trials."""
        if (trials != np.round(trials)).any():
            msg = f"trials are whole numbers, got {float(trials[trials != np.round(trials)][0]):g}"
            raise ValueError(msg)
        bad = (counts < 0) | (counts > trials)
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            msg = (
                f"reward {rewards[place]:g} means {counts[place]:g} successes in "
                f"{trials[place]:g} trials; shares lie between 0 and 1"
            )
            raise ValueError(msg)


@dataclass(frozen=True)
class Poisson(Family):
    """A reward is a count over its exposure: orders per day, calls per hour.

    Args:
        exposure: of a reward that does not say; pass others as ``trials``.
    """

    exposure: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no exposure."""
        require_positive("exposure", self.exposure)

    @property
    def usual(self) -> float:
        """The exposure of a reward that does not say."""
        return float(self.exposure)

    def rate(self, latent: Vector) -> Vector:
        """Return e^f."""
        return np.asarray(np.exp(np.minimum(latent, _LARGEST)))

    def rates(self, latent: Matrix) -> Matrix:
        """Return e^f."""
        return np.asarray(np.exp(np.minimum(latent, _LARGEST)))

    def latent(self, rate: ArrayLike) -> Vector:
        """Return the logarithm of a rate."""
        require_positive("rate", rate)
        return np.asarray(np.log(np.asarray(rate, dtype=np.float64)))

    def likeliest(self, counts: Vector, trials: Vector) -> Vector:
        """Return the logarithm of the rate."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(counts / trials))

    def log_likelihood(self, latent: Matrix, counts: Vector, trials: Vector) -> Matrix:
        """Return s f - n e^f."""
        events = np.exp(np.minimum(latent, _LARGEST))
        log: Matrix = counts[:, None] * latent - trials[:, None] * events
        return log

    def slope(self, latent: Vector, counts: Vector, trials: Vector) -> Vector:
        """Return s - n e^f."""
        return counts - trials * self.rate(latent)

    def curvature(self, latent: Vector, trials: Vector) -> Vector:
        """Return n e^f."""
        return trials * self.rate(latent)

    def noise_variance(self, mean: Vector, variance: Vector) -> Vector:
        """Return E[g] / n."""
        del variance
        return mean / self.exposure

    def require_possible(self, rewards: Vector, counts: Vector, trials: Vector) -> None:
        """Refuse counts below zero."""
        del trials
        if (counts < 0).any():
            msg = f"counts cannot be negative, got a reward of {rewards.min():g}"
            raise ValueError(msg)

    def moments(self, mean: Vector, std: Vector) -> tuple[Vector, Vector]:
        """Return the moments of a log-normal."""
        first = np.minimum(self.rate(mean + std**2 / 2), _MOST_RATE)
        with np.errstate(over="ignore"):  # beyond all numbers is far enough
            return first, np.minimum(first**2 * np.expm1(std**2), _MOST_RATE**2)

    def covariance(self, mean: Vector, std: Vector, latent: Matrix) -> Matrix:
        """Return the covariance of log-normals."""
        first, _ = self.moments(mean, std)
        joint: Matrix = np.outer(first, first) * np.expm1(np.minimum(latent, _LARGEST))
        return joint
