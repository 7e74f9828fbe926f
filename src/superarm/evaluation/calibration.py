"""Whether predictions are as sure as they claim: rewards that a belief has not seen yet."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import binom

from superarm.arms import Arms
from superarm.arrays import Vector, as_vector, frozen
from superarm.beliefs.prior import checked_noise

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Of the intervals that a calibration is told by."""

_SURE = 0.99


@dataclass(frozen=True, eq=False)
class Calibration:
    """Rewards beside what was predicted of them, one by one.

    Attributes:
        mean: predicted, shape (n,).
        std: of a reward, noise included, shape (n,).
        rewards: what came, shape (n,).
    """

    mean: Vector
    std: Vector
    rewards: Vector

    @property
    def z(self) -> Vector:
        """Standardised residuals: standard normal if predictions are right."""
        return (self.rewards - self.mean) / self.std

    def coverage(self, level: float) -> float:
        """Return how many rewards lay within the central interval of this probability."""
        return float((np.abs(self.z) <= ndtri((1 + level) / 2)).mean())

    def expected(self, level: float) -> tuple[float, float]:
        """Return between which shares that would lie in 99 of 100 cases, were they independent."""
        low, high = binom.interval(_SURE, self.rewards.size, level)
        return float(low) / self.rewards.size, float(high) / self.rewards.size

    @property
    def is_right(self) -> bool:
        """Whether all of `LEVELS` are covered as they should."""
        return all(
            low <= self.coverage(q) <= high for q in LEVELS for low, high in [self.expected(q)]
        )

    @property
    def error(self) -> float:
        """The root of the mean squared residual, in the unit of rewards."""
        return float(np.sqrt(((self.rewards - self.mean) ** 2).mean()))

    def __repr__(self) -> str:
        """Return what was covered, in words."""
        said = ", ".join(f"{self.coverage(q):.0%} within {q:.0%}" for q in LEVELS)
        return f"Calibration({self.rewards.size:,} rewards: {said} intervals)"


def calibration_of(
    belief: Any,  # noqa: ANN401 - any belief
    arms: Arms,
    rewards: ArrayLike,
    *,
    noise_variance: ArrayLike | None = None,
) -> Calibration:
    """Compare rewards with what a belief predicts of them; it must not have seen them.

    Args:
        belief: what predicts.
        arms: what was played, shape (n,); they may repeat.
        rewards: shape (n,).
        noise_variance: of these rewards, where it is known and another; one number or one each.
    """
    seen = as_vector("rewards", rewards, len(arms))
    if seen.size == 0:
        msg = "there is nothing to compare: give one reward at least"
        raise ValueError(msg)
    posterior = belief.posterior(arms)
    noise = (
        posterior.noise_std**2
        if noise_variance is None
        else checked_noise(noise_variance, seen.size)
    )
    std = np.sqrt(posterior.std**2 + noise)
    return Calibration(frozen(np.array(posterior.mean)), frozen(std), seen)
