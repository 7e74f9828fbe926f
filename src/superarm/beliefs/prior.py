"""The prior of a belief on contexts: kernel, noise and mean, for arms not known beforehand."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Vector, as_vector, require_positive
from superarm.beliefs.joint import MeanFunction
from superarm.kernels import Kernel


@dataclass(frozen=True, eq=False, init=False)
class ContextPrior:
    """A kernel, a noise variance (one, or one per arm id) and a mean (a number or a function)."""

    kernel: Kernel
    noise_variance: Vector
    mean: float | MeanFunction

    def __init__(
        self, kernel: Kernel, noise_variance: ArrayLike, mean: float | MeanFunction
    ) -> None:
        """Check the parts."""
        noise = as_vector("noise_variance", np.atleast_1d(noise_variance))
        require_positive("noise_variance", noise)
        if not callable(mean) and (np.ndim(mean) != 0 or not np.isfinite(mean)):
            msg = f"mean must be a finite number or a function of arms, got {mean}"
            raise ValueError(msg)
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "noise_variance", noise)
        object.__setattr__(self, "mean", mean if callable(mean) else float(mean))

    def means(self, arms: Arms) -> Vector:
        """Return the prior means of these arms."""
        if callable(self.mean):
            return as_vector("the prior mean function's values", self.mean(arms), len(arms))
        return np.full(len(arms), self.mean)

    def variances(self, arms: Arms) -> Vector:
        """Return the prior variances of these arms."""
        return as_vector("the kernel's diagonal", self.kernel.diagonal(arms), len(arms))

    def noise_variances(self, arms: Arms) -> Vector:
        """Return the noise variances of these arms."""
        known = self.noise_variance.size
        if known == 1:
            return np.full(len(arms), self.noise_variance[0])
        outside = (arms.ids < 0) | (arms.ids >= known)
        if outside.any():
            msg = (
                f"arm id {int(arms.ids[outside][0])} has no noise variance; "
                f"{known} were given, for ids 0 to {known - 1}"
            )
            raise ValueError(msg)
        return self.noise_variance[arms.ids]


def require_same_features(before: Arms | None, arms: Arms) -> None:
    """Raise if these arms have another number of context features than those seen before."""
    if before is not None and arms.n_features != before.n_features:
        msg = (
            f"these arms have {arms.n_features} context features, "
            f"those seen before had {before.n_features}"
        )
        raise ValueError(msg)
