"""What is believed before the first reward: of a fixed list of arms, or of any contexts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Rows, Vector, as_matrix, as_per_arm, as_vector, require_positive
from superarm.beliefs.covariance import DenseCovariance, KernelCovariance, PriorCovariance
from superarm.beliefs.universe import Universe
from superarm.kernels import Kernel

MeanFunction: TypeAlias = Callable[[Arms], Vector]
"""A prior mean as a function of arms."""

Mean: TypeAlias = ArrayLike | MeanFunction | None
"""Prior means: none (zero), a number, one per arm, or a function of arms."""


LEAST_NOISE = 1e-150
"""Noise variances below this, or above its inverse, cannot be added up in double precision."""


@dataclass(frozen=True, eq=False)
class FinitePrior:
    """A Gaussian prior of a fixed list of arms, and the noise of their rewards.

    Attributes:
        universe: the arms.
        covariance: their prior covariances, evaluated when asked for.
        mean: shape (n,).
        variance: shape (n,).
        noise_variance: of one reward, shape (n,).
    """

    universe: Universe
    covariance: PriorCovariance
    mean: Vector
    variance: Vector
    noise_variance: Vector

    @classmethod
    def of_kernel(
        cls, arms: Arms, kernel: Kernel, noise_variance: ArrayLike, mean: Mean
    ) -> "FinitePrior":
        """Believe a kernel on these arms, which have distinct ids."""
        require_kernel(kernel)
        covariance = KernelCovariance(arms, kernel)
        return cls._checked(Universe(arms), covariance, noise_variance, mean)

    @classmethod
    def of_covariance(
        cls, mean: ArrayLike, covariance: ArrayLike, noise_variance: ArrayLike
    ) -> "FinitePrior":
        """Believe a multivariate Gaussian on arms 0 to n-1."""
        matrix = as_matrix("covariance", covariance)
        prior = DenseCovariance(matrix)
        return cls._checked(Universe(Arms(np.arange(matrix.shape[0]))), prior, noise_variance, mean)

    @classmethod
    def _checked(
        cls, universe: Universe, covariance: PriorCovariance, noise: ArrayLike, mean: Mean
    ) -> "FinitePrior":
        size = len(universe)
        noise_variance = as_per_arm("noise_variance", noise, size)
        require_noise(noise_variance)
        first = np.zeros(1, dtype=np.intp)
        covariance.block(first, first)  # does the kernel fit the arms?
        return cls(
            universe=universe,
            covariance=covariance,
            mean=means_of(mean, universe.arms),
            variance=as_vector("prior variance", covariance.diagonal(), size),
            noise_variance=noise_variance,
        )

    @property
    def kernel(self) -> Kernel | None:
        """The kernel it was made from; none if it was made from a matrix."""
        return self.covariance.kernel if isinstance(self.covariance, KernelCovariance) else None

    @cached_property
    def largest_variance(self) -> float:
        """The largest prior variance of an arm."""
        return float(self.variance.max(initial=0.0))

    @property
    def common_mean(self) -> float | None:
        """The prior mean of all arms, if it is the same for all."""
        return float(self.mean[0]) if np.ptp(self.mean) == 0 else None

    @property
    def common_noise(self) -> float | None:
        """The noise variance of all arms, if it is the same for all."""
        return float(self.noise_variance[0]) if np.ptp(self.noise_variance) == 0 else None

    def reconsidered(
        self, kernel: Kernel | None, noise_factor: float, mean: float | None
    ) -> "FinitePrior":
        """Return another prior of the same arms; what is not given stays."""
        level = self.mean if mean is None else mean
        noise = self.noise_variance * noise_factor
        if kernel is None:
            return FinitePrior._checked(self.universe, self.covariance, noise, level)
        return FinitePrior.of_kernel(self.universe.arms, kernel, noise, level)

    def noise_of(self, places: Rows, noise_variance: ArrayLike | None) -> Vector:
        """Return the noise variance of rewards of arms at some places: as given, or the prior's."""
        if noise_variance is None:
            return self.noise_variance[places]
        return checked_noise(noise_variance, places.size)

    def draw(self, rng: np.random.Generator) -> Vector:
        """Return one prior sample of all arms, means included, shape (n,)."""
        return self.mean + self.covariance.draw(rng)


@dataclass(frozen=True, eq=False)
class ContextPrior:
    """A prior of arms not known beforehand, by their contexts.

    Attributes:
        kernel: the prior covariance.
        noise_variance: of one reward: one number, or one per arm id (ids 0 to n-1).
        mean: a number, one per arm id, or a function of arms.
    """

    kernel: Kernel
    noise_variance: Vector
    mean: float | Vector | MeanFunction

    @classmethod
    def of_kernel(cls, kernel: Kernel, noise_variance: ArrayLike, mean: Mean) -> "ContextPrior":
        """Check the parts."""
        require_kernel(kernel)
        noise = as_vector("noise_variance", np.atleast_1d(np.asarray(noise_variance, dtype=float)))
        require_noise(noise)
        if callable(mean):
            return cls(kernel, noise, mean)
        given = np.asarray(0.0 if mean is None else mean, dtype=np.float64)
        if given.ndim == 0 and np.isfinite(given):
            return cls(kernel, noise, float(given))
        return cls(kernel, noise, as_vector("mean", given))

    @property
    def common_mean(self) -> float | None:
        """The prior mean of all arms, if it is the same for all."""
        return self.mean if isinstance(self.mean, float) else None

    @property
    def common_noise(self) -> float | None:
        """The noise variance of all arms, if it is the same for all."""
        return float(self.noise_variance[0]) if np.ptp(self.noise_variance) == 0 else None

    def reconsidered(
        self, kernel: Kernel | None, noise_factor: float, mean: float | None
    ) -> "ContextPrior":
        """Return another prior; what is not given stays."""
        level = self.mean if mean is None else mean
        return ContextPrior.of_kernel(
            kernel or self.kernel, self.noise_variance * noise_factor, level
        )

    def means(self, arms: Arms) -> Vector:
        """Return the prior means of these arms."""
        if callable(self.mean):
            return as_per_arm("the prior mean function's values", self.mean(arms), len(arms))
        if isinstance(self.mean, float):
            return np.full(len(arms), self.mean)
        return _by_id("prior mean", self.mean, arms)

    def variances(self, arms: Arms) -> Vector:
        """Return the prior variances of these arms."""
        return as_vector("the kernel's diagonal", self.kernel.diagonal(arms), len(arms))

    def noise_of(self, arms: Arms, noise_variance: ArrayLike | None = None) -> Vector:
        """Return the noise variance of rewards of these arms: as given, or the prior's."""
        if noise_variance is not None:
            return checked_noise(noise_variance, len(arms))
        if self.noise_variance.size == 1:
            return np.full(len(arms), self.noise_variance[0])
        return _by_id("noise variance", self.noise_variance, arms)


def means_of(mean: Mean, arms: Arms) -> Vector:
    """Return the prior means of a fixed list of arms, whichever way they were given."""
    values = mean(arms) if callable(mean) else (0.0 if mean is None else mean)
    return as_per_arm("mean", values, len(arms))


def require_kernel(kernel: object) -> None:
    """Raise unless this is a kernel."""
    if not isinstance(kernel, Kernel):
        msg = (
            f"kernel must be a superarm.kernels.Kernel, got {type(kernel).__name__}; inherit from "
            "Kernel and write gram and diagonal for a kernel of your own"
        )
        raise TypeError(msg)


def require_noise(noise_variance: Vector) -> None:
    """Raise unless all noise variances are positive and can be inverted."""
    require_positive("noise_variance", noise_variance)
    outside = (noise_variance < LEAST_NOISE) | (noise_variance > 1 / LEAST_NOISE)
    if outside.any():
        msg = (
            f"noise_variance must be between {LEAST_NOISE:g} and {1 / LEAST_NOISE:g}, got "
            f"{float(noise_variance[outside][0]):.3g}; give rewards in another unit"
        )
        raise ValueError(msg)


def checked_noise(noise_variance: ArrayLike, size: int) -> Vector:
    """Return one noise variance per reward."""
    noise = as_per_arm("noise_variance", noise_variance, size)
    require_noise(noise)
    return noise


def _by_id(what: str, values: Vector, arms: Arms) -> Vector:
    outside = (arms.ids < 0) | (arms.ids >= values.size)
    if outside.any():
        msg = (
            f"arm id {int(arms.ids[outside][0])} has no {what}; "
            f"{values.size} were given, for ids 0 to {values.size - 1}"
        )
        raise ValueError(msg)
    return values[arms.ids]


def require_same_features(before: Arms | None, arms: Arms) -> None:
    """Raise if these arms have another number of context features than those seen before."""
    if before is not None and arms.n_features != before.n_features:
        msg = (
            f"these arms have {arms.n_features} context features, "
            f"those seen before had {before.n_features}"
        )
        raise ValueError(msg)


def require_own_noise(belief: object, noise_variance: ArrayLike | None) -> None:
    """Refuse noise variances of single rewards, for beliefs that cannot learn from them."""
    if noise_variance is not None:
        msg = (
            f"a {type(belief).__name__} takes no noise_variance of single rewards; "
            "superarm.beliefs.FiniteGP does, and beliefs about counts take trials"
        )
        raise ValueError(msg)
