r"""Views of a belief at some arms: the one place where joint draws and covariances are made.

A belief says how its covariance is computed and how many arms are drawn at once
(`JointView.covariance_now`, `JointView.draw_many`); when which is used is decided here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.prior import FinitePrior
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter

COVARIANCE_LIMIT = 20_000
"""The most arms whose joint covariance may be asked for (3 GiB)."""

DIRECT_DRAW_LIMIT = 1000
"""Up to this many arms a joint draw factorises their posterior covariance."""


def require_few(n_arms: int) -> None:
    """Refuse to form the joint covariance of too many arms."""
    if n_arms > COVARIANCE_LIMIT:
        msg = (
            f"the joint covariance of {n_arms} arms was asked for; the limit is "
            f"{COVARIANCE_LIMIT}, ask for fewer arms"
        )
        raise CapacityError(msg)


class JointView(ABC):
    """A posterior of some arms; covariances and draws are made when asked for."""

    @property
    @abstractmethod
    def mean(self) -> Vector:
        """Posterior means, shape (n,)."""

    @property
    @abstractmethod
    def std(self) -> Vector:
        """Posterior standard deviations, shape (n,)."""

    @property
    @abstractmethod
    def noise_std(self) -> Vector:
        """Standard deviations of the noise of one reward, shape (n,)."""

    @property
    @abstractmethod
    def prior_variance(self) -> Vector:
        """Prior variances, shape (n,): what rounding is small beside."""

    @abstractmethod
    def covariance_now(self) -> Matrix:
        """Compute the posterior covariance."""

    def draw_many(self, rng: np.random.Generator) -> Vector:
        """Draw any number of arms; by a factor of their covariance unless there is a better way."""
        return self._drawn(rng)

    def covariance(self) -> Matrix:
        """Return the posterior covariance, shape (n, n): ask for few arms."""
        require_few(self.prior_variance.size)
        matrix = self.covariance_now()
        np.fill_diagonal(matrix, self.std**2)  # the same numbers, but never below zero
        return matrix

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw all arms together, shape (n,).

        Up to `DIRECT_DRAW_LIMIT` arms by a factor of their posterior covariance, which is exact at
        any size of the universe; beyond by the belief's own way.
        """
        few = self.prior_variance.size <= DIRECT_DRAW_LIMIT
        return self._drawn(rng) if few else self.draw_many(rng)

    def _drawn(self, rng: np.random.Generator) -> Vector:
        largest = float(self.prior_variance.max(initial=0.0))
        factor = cholesky_with_jitter(self.covariance(), largest)
        return self.mean + factor @ rng.standard_normal(factor.shape[0])


class Moments(Protocol):
    """A belief about a fixed list of arms that knows all their means and variances."""

    @property
    def prior(self) -> FinitePrior:
        """What was believed at first."""
        ...

    @property
    def mean(self) -> Vector:
        """Posterior means, shape (n,)."""
        ...

    @property
    def variance(self) -> Vector:
        """Posterior variances, shape (n,)."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class PlacedView(JointView):
    """A view of a belief at some positions of its universe."""

    belief: Moments
    places: Rows

    @property
    def mean(self) -> Vector:
        """Posterior means."""
        return self.belief.mean[self.places]

    @property
    def std(self) -> Vector:
        """Posterior standard deviations."""
        return np.sqrt(self.belief.variance[self.places])

    @property
    def noise_std(self) -> Vector:
        """Standard deviations of the noise."""
        return np.sqrt(self.belief.prior.noise_variance[self.places])

    @property
    def prior_variance(self) -> Vector:
        """Prior variances."""
        return self.belief.prior.variance[self.places]

    def __repr__(self) -> str:
        """Return one line."""
        return f"{type(self).__name__}({self.places.size:,} arms of {self.belief!r})"


@dataclass(frozen=True, eq=False, repr=False)
class ContextView(JointView):
    """A view of a belief on contexts at some arms."""

    arms: Arms
    _mean: Vector
    _std: Vector
    _noise_std: Vector
    _prior_variance: Vector

    @property
    def mean(self) -> Vector:
        """Posterior means."""
        return self._mean

    @property
    def std(self) -> Vector:
        """Posterior standard deviations."""
        return self._std

    @property
    def noise_std(self) -> Vector:
        """Standard deviations of the noise."""
        return self._noise_std

    @property
    def prior_variance(self) -> Vector:
        """Prior variances."""
        return self._prior_variance

    def __repr__(self) -> str:
        """Return one line."""
        return f"{type(self).__name__}({len(self.arms):,} arms)"
