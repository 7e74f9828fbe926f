"""What joint posteriors share: limits, direct draws, prior mean functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter

MeanFunction: TypeAlias = Callable[[Arms], Vector]
"""A prior mean as a function of arms."""

COVARIANCE_LIMIT = 20_000
"""The most arms whose joint covariance may be asked for (3 GiB)."""

DIRECT_DRAW_LIMIT = 1000
"""Up to this many arms a joint draw may factorise their posterior covariance."""


class Moments(Protocol):
    """A belief that knows the means and variances of its whole universe."""

    @property
    def mean(self) -> Vector:
        """Posterior means, shape (n,)."""
        ...

    @property
    def variance(self) -> Vector:
        """Posterior variances, shape (n,)."""
        ...

    @property
    def noise_variance(self) -> Vector:
        """Of one reward of every arm, shape (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class PlacedPosterior:
    """A view of a belief at some positions of its universe; joint posteriors add covariances."""

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
        return np.sqrt(self.belief.noise_variance[self.places])


def require_few(n_arms: int) -> None:
    """Refuse to form the joint covariance of too many arms."""
    if n_arms > COVARIANCE_LIMIT:
        msg = (
            f"the joint covariance of {n_arms} arms was asked for; the limit is "
            f"{COVARIANCE_LIMIT}, ask for fewer arms"
        )
        raise CapacityError(msg)


def direct_draw(
    mean: Vector, covariance: Matrix, prior: Vector, rng: np.random.Generator
) -> Vector:
    """Draw by a factor of the posterior covariance; jitter is relative to the prior variances."""
    factor = cholesky_with_jitter(covariance, float(prior.max(initial=0.0)))
    return mean + factor @ rng.standard_normal(mean.size)
