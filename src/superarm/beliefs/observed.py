r"""All that was observed, as one vector of white noise: what the density of rewards needs.

Whatever a belief has seen, rewards of arms or of sums of them, says of k arms
:math:`A = S S^T` (their precision, of rank r), :math:`w = S z_0` and a few numbers
(`superarm.beliefs.statistics`, `superarm.beliefs.sums.evidence`). With prior means
:math:`\mu`, prior covariance K and all noise variances multiplied by c,

.. math::
    z = z_0 - S^T \mu, \qquad G = S^T K S, \qquad
    -2 \log p(y) = \log|cI + G| + z^T (cI + G)^{-1} z + \frac{q}{c} + (m - r) \log c
                   + m \log 2\pi + \ell

for m rewards with :math:`\ell = \sum \log s^2`, and q what no means of the arms can explain (the
squares of repeated rewards around their average). For single arms S is diagonal, with the square
roots of their summed precisions; no matrix over rewards, or over arms not seen, is formed.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector
from superarm.beliefs.statistics import ArmStatistics
from superarm.errors import NumericalError
from superarm.kernels import Kernel

_LOG_2PI = math.log(2 * math.pi)


class Reconsidering(ABC):
    """A belief that knows what it has seen, and can see it under another prior."""

    prior: Any

    @abstractmethod
    def observed(self) -> "Observed":
        """Return all that was observed, as the density of rewards needs it."""

    @abstractmethod
    def again(self, prior: Any, noise_factor: float) -> Self:  # noqa: ANN401 - of its kind
        """Return the belief that has seen the same under a prior, noise variances multiplied."""

    def reconsidered(
        self,
        kernel: Kernel | None = None,
        *,
        noise_factor: float = 1.0,
        mean: float | None = None,
    ) -> Self:
        """Return the belief that has seen the same rewards under another prior.

        Args:
            kernel: the prior covariance; by default it stays.
            noise_factor: multiplies all noise variances, also those that came with rewards.
            mean: the prior mean of all arms; by default it stays.
        """
        return self.again(self.prior.reconsidered(kernel, noise_factor, mean), noise_factor)

    def aged(self, factor: float) -> Self:
        """Return the belief with all rewards counting for less: noise variances over a factor."""
        return self.again(self.prior, 1 / factor)


@dataclass(frozen=True, eq=False)
class Observed:
    """What was observed of k arms.

    Attributes:
        arms: the k arms.
        mean: their prior means, shape (k,).
        root: S, shape (k, r), or its diagonal, shape (k,).
        target: z_0, shape (r,).
        rest: q.
        log_noise: the sum of the logarithms of noise variances.
        count: m, how many rewards.
    """

    arms: Arms
    mean: Vector
    root: Matrix | Vector
    target: Vector
    rest: float
    log_noise: float
    count: int

    @classmethod
    def of_statistics(cls, arms: Arms, mean: Vector, statistics: ArmStatistics) -> "Observed":
        """Return what rewards of single arms say."""
        root = np.sqrt(statistics.precision)
        return cls(
            arms=arms,
            mean=mean,
            root=root,
            target=root * statistics.averages,
            rest=float(statistics.squares.sum()),
            log_noise=float(statistics.log_noise.sum()),
            count=int(statistics.counts.sum()),
        )

    def white(self, mean: Vector) -> Vector:
        """Return z for these prior means of the k arms."""
        if self.root.ndim == 1:
            return self.target - self.root * mean
        white: Vector = self.target - self.root.T @ mean
        return white

    def inner(self, matrix: Matrix) -> Matrix:
        """Return S^T C S."""
        if self.root.ndim == 1:
            return self.root[:, None] * matrix * self.root
        product: Matrix = self.root.T @ matrix @ self.root
        return product

    def outer(self, matrix: Matrix) -> Matrix:
        """Return S C S^T."""
        if self.root.ndim == 1:
            return self.root[:, None] * matrix * self.root
        product: Matrix = self.root @ matrix @ self.root.T
        return product

    def density(self, gram: Matrix, mean: Vector, noise_factor: float = 1.0) -> "Density":
        """Return the density of all rewards under some prior.

        Args:
            gram: prior covariance of the k arms, shape (k, k).
            mean: their prior means.
            noise_factor: multiplies all noise variances.
        """
        z, inner = self.white(mean), self.inner(gram)
        if z.size == 0:  # nothing was observed
            return Density(self, 0.0, 0.0, noise_factor, inner, z)
        inner.flat[:: z.size + 1] += noise_factor
        try:
            lower = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            msg = (
                "the covariance of what was observed is not positive definite: the noise variance "
                "is too small beside the prior's for double precision"
            )
            raise NumericalError(msg) from error
        half = solve_triangular(lower, z, lower=True, check_finite=False)
        size = z.size
        log_determinant = 2 * float(np.log(lower.diagonal()).sum())
        log_determinant += (self.count - size) * math.log(noise_factor)
        square = float(half @ half) + self.rest / noise_factor
        total = log_determinant + square + self.count * _LOG_2PI + self.log_noise
        return Density(self, -total / 2, square, noise_factor, lower, half)


@dataclass(frozen=True, eq=False)
class Density:
    """The logarithm of a density of rewards, and how it changes.

    Attributes:
        observed: what was.
        log: the logarithm.
        square: the part of -2 log p that is quadratic in what was observed beyond the means.
    """

    observed: Observed
    log: float
    square: float
    noise_factor: float
    lower: Matrix
    half: Vector

    def slopes(self) -> tuple[Matrix, float, float]:
        r"""Return W, and the derivatives by the logarithm of the noise factor and by a common mean.

        W is symmetric, of shape (k, k): a change dK of the prior covariance changes the logarithm
        by :math:`\sum_{ij} W_{ij}\, dK_{ij}`.
        """
        observed, factor = self.observed, self.noise_factor
        if self.half.size == 0:
            return np.zeros((len(observed.arms),) * 2), 0.0, 0.0
        weights = solve_triangular(self.lower, self.half, lower=True, trans="T", check_finite=False)
        inverse, failed = lapack.dpotri(self.lower, lower=1, overwrite_c=0)
        if failed:
            msg = "a factor of the covariance of what was observed has a zero on its diagonal"
            raise NumericalError(msg)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        trace = float(inverse.trace())
        noise = factor * (float(weights @ weights) - trace) + observed.rest / factor
        noise -= observed.count - self.half.size
        inverse *= -0.5
        inverse += 0.5 * np.outer(weights, weights)
        ones = observed.root if observed.root.ndim == 1 else observed.root.sum(axis=0)
        return observed.outer(inverse), noise / 2, float(ones @ weights)
