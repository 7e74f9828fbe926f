"""Functions drawn once from a prior and evaluable at any arm, also where contexts are new."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector
from superarm.errors import CapacityError
from superarm.kernels.base import (
    RANDOM_FEATURES,
    Kernel,
    Product,
    Sum,
    draw_function,
    mixed_features,
)

ArmFunction: TypeAlias = Callable[[Arms], Vector]


@dataclass(frozen=True, eq=False)
class SumFunction:
    """The sum of two functions."""

    left: ArmFunction
    right: ArmFunction

    def __call__(self, arms: Arms) -> Vector:
        """Return the values at the arms."""
        return self.left(arms) + self.right(arms)


@dataclass(frozen=True, eq=False)
class MixedFunction:
    """A draw from a product of a kernel on ids and a stationary one; see `mixed_features`."""

    frequencies: Matrix
    cosine_draws: Matrix
    sine_draws: Matrix

    def __call__(self, arms: Arms) -> Vector:
        """Return the values at the arms."""
        angles = self.frequencies @ arms.contexts.T
        parts = self.cosine_draws[:, arms.ids] * np.cos(angles)
        parts += self.sine_draws[:, arms.ids] * np.sin(angles)
        return np.ones(parts.shape[0]) @ parts


def draw_arm_function(
    kernel: Kernel, n_arms: int, n_features: int, rng: np.random.Generator
) -> ArmFunction:
    """Draw a function of ids 0 to n-1 and of contexts from the prior of a kernel.

    Sums of stationary kernels and of products of one with a kernel on ids are served; stationary
    parts by `superarm.kernels.RANDOM_FEATURES` random features, mixed ones by `MIXED_FEATURES`.
    """
    if kernel.spectral:
        return draw_function(kernel, n_features, rng, count=RANDOM_FEATURES)
    if isinstance(kernel, Sum):
        return SumFunction(
            draw_arm_function(kernel.left, n_arms, n_features, rng),
            draw_arm_function(kernel.right, n_arms, n_features, rng),
        )
    if isinstance(kernel, Product) and kernel.left.spectral != kernel.right.spectral:
        waves, other = kernel.left, kernel.right
        if other.spectral:
            waves, other = other, waves
        universe = Arms(np.arange(n_arms))
        frequencies, cosines, sines = zip(
            *mixed_features(waves, other, universe, n_features, rng), strict=True
        )
        return MixedFunction(np.array(frequencies), np.array(cosines), np.array(sines))
    msg = f"no function can be drawn from a {type(kernel).__name__} kernel of these parts"
    raise CapacityError(msg)
