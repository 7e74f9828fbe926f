"""What joint posteriors share: limits, direct draws, prior mean functions."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter

MeanFunction: TypeAlias = Callable[[Arms], Vector]
"""A prior mean as a function of arms."""

COVARIANCE_LIMIT = 20_000
"""The most arms whose joint covariance may be asked for (3 GiB)."""

DIRECT_DRAW_LIMIT = 1000
"""Up to this many arms a joint draw may factorise their posterior covariance."""


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
