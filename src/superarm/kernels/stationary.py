r"""Stationary kernels on contexts: RBF and Matérn 1/2, 3/2, 5/2, one lengthscale per feature.

All are functions of the scaled distance

.. math:: D(x, y) = \sqrt{\sum_j (x_j - y_j)^2 / \ell_j^2}.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, require_positive
from superarm.kernels.base import Kernel

_NEAR = 1e-6
_FAR = 1e6  # correlations vanish long before; beyond, squares would overflow


@dataclass(frozen=True, init=False)
class Stationary(Kernel):
    """A kernel that depends on the scaled distance of contexts alone.

    Args:
        lengthscale: one number for all features, or one per feature.
        variance: the prior variance k(a, a).
    """

    lengthscale: tuple[float, ...]
    variance: float

    def __init__(self, lengthscale: ArrayLike = 1.0, variance: float = 1.0) -> None:
        """Check and store the parameters."""
        require_positive("lengthscale", lengthscale)
        require_positive("variance", variance)
        scales = np.atleast_1d(np.asarray(lengthscale, dtype=np.float64))
        if scales.ndim != 1:
            msg = f"lengthscale must be a number or one per feature, got shape {scales.shape}"
            raise ValueError(msg)
        object.__setattr__(self, "lengthscale", tuple(scales.tolist()))
        object.__setattr__(self, "variance", float(variance))

    @abstractmethod
    def of_distance(self, distance: Matrix) -> Matrix:
        """Return the correlation at these scaled distances; the argument may be overwritten."""

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return the variance times the correlation at the scaled distances."""
        distance = cdist(self._scaled(left), self._scaled(right))
        correlation = self.of_distance(np.minimum(distance, _FAR, out=distance))
        correlation *= self.variance
        return correlation

    def diagonal(self, arms: Arms) -> Vector:
        """Return the variance for every arm."""
        self._scales(arms.n_features)  # says if the kernel does not fit
        return np.full(len(arms), self.variance)

    @abstractmethod
    def steepness(self, distance: Matrix) -> Matrix:
        r"""Return :math:`-\rho'(r) / r` at these scaled distances; they may be overwritten."""

    def parameters(self) -> dict[str, float]:
        """Return the variance and the lengthscales."""
        if len(self.lengthscale) == 1:
            return {"variance": self.variance, "lengthscale": self.lengthscale[0]}
        scales = {f"lengthscale[{place}]": value for place, value in enumerate(self.lengthscale)}
        return {"variance": self.variance, **scales}

    def replaced(self, values: Mapping[str, float]) -> "Stationary":
        """Return the kernel of another variance and other lengthscales."""
        scales = [value for name, value in values.items() if name != "variance"]
        return type(self)(scales, values["variance"])

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        r"""Return what variance and lengthscales do.

        With :math:`G_{ab} = -W_{ab}\, \sigma^2 \rho'(D) / D` and centred, scaled contexts x, a
        lengthscale's part :math:`\sum_{ab} G_{ab} (x_{aj} - x_{bj})^2` needs no matrix per feature.
        """
        x = self._scaled(arms)
        if len(arms) == 0:
            return np.zeros(1 + len(self.lengthscale))
        x = x - x.mean(axis=0)
        distance = np.minimum(cdist(x, x), _FAR)
        inner = self.steepness(distance.copy())
        inner *= weights
        squares = 2 * (inner.sum(axis=1) @ x**2 - np.einsum("ij,ij->j", x, inner @ x))
        correlation = self.of_distance(distance)
        total = float(np.einsum("ij,ij->", weights, correlation))
        scales = squares if len(self.lengthscale) > 1 else np.array([squares.sum()])
        return self.variance * np.concatenate([[total], scales])

    def scale_parameters(self) -> tuple[str, ...]:
        """The variance multiplies everything."""
        return ("variance",)

    @property
    @abstractmethod
    def steepest_slope(self) -> float:
        """The largest slope of the correlation as a function of scaled distance, without sign."""

    @property
    @abstractmethod
    def spectral_moments(self) -> tuple[float, float]:
        r"""E[s^2] and E[s^4] for frequencies :math:`\omega_j = s z_j / \ell_j`, z normal."""

    @property
    def spectral(self) -> bool:
        """Stationary kernels have a spectral density."""
        return True

    def _scaled(self, arms: Arms) -> Matrix:
        return arms.contexts / self._scales(arms.n_features)

    def _scales(self, n_features: int) -> Vector:
        if n_features == 0:
            msg = f"{type(self).__name__} compares contexts, but the arms carry none"
            raise ValueError(msg)
        if len(self.lengthscale) not in (1, n_features):
            msg = (
                f"{len(self.lengthscale)} lengthscales for {n_features} context features; "
                "give one number or one per feature"
            )
            raise ValueError(msg)
        return np.broadcast_to(np.array(self.lengthscale), (n_features,))


@dataclass(frozen=True, init=False)
class RBF(Stationary):
    r"""The squared exponential kernel, infinitely smooth.

    .. math:: k(x, y) = \sigma^2 \exp(-D^2 / 2)
    """

    def of_distance(self, distance: Matrix) -> Matrix:
        """Return exp(-D^2 / 2)."""
        np.square(distance, out=distance)
        distance *= -0.5
        return np.exp(distance, out=distance)

    def steepness(self, distance: Matrix) -> Matrix:
        """Return exp(-D^2 / 2)."""
        return self.of_distance(distance)

    @property
    def steepest_slope(self) -> float:
        """At D = 1."""
        return math.exp(-0.5)

    @property
    def spectral_moments(self) -> tuple[float, float]:
        """Frequencies are normal."""
        return 1.0, 1.0

    def frequencies(
        self, count: int, n_features: int, rng: np.random.Generator
    ) -> tuple[Matrix, float]:
        """Return Gaussian frequencies."""
        normal = rng.standard_normal((count, n_features))
        return normal / self._scales(n_features), self.variance


@dataclass(frozen=True, init=False)
class Matern(Stationary):
    """What the three Matérn kernels share: Student-t frequencies with 2 nu degrees of freedom."""

    nu: ClassVar[float]

    @property
    def spectral_moments(self) -> tuple[float, float]:
        """The squared factor is 2 nu over a chi-square with 2 nu degrees of freedom."""
        free = 2 * self.nu
        second = free / (free - 2) if free > 2 else math.inf  # noqa: PLR2004 - its moments
        fourth = free**2 / ((free - 2) * (free - 4)) if free > 4 else math.inf  # noqa: PLR2004
        return second, fourth

    def frequencies(
        self, count: int, n_features: int, rng: np.random.Generator
    ) -> tuple[Matrix, float]:
        """Return multivariate Student-t frequencies."""
        normal = rng.standard_normal((count, n_features))
        radius = np.sqrt(2 * self.nu / rng.chisquare(2 * self.nu, size=(count, 1)))
        return normal * radius / self._scales(n_features), self.variance


@dataclass(frozen=True, init=False)
class Matern12(Matern):
    r"""The exponential kernel, continuous but rough.

    .. math:: k(x, y) = \sigma^2 \exp(-D)
    """

    nu = 0.5

    def of_distance(self, distance: Matrix) -> Matrix:
        """Return exp(-D)."""
        np.negative(distance, out=distance)
        return np.exp(distance, out=distance)

    def steepness(self, distance: Matrix) -> Matrix:
        """Return exp(-D) / D; less below `_NEAR`, where what it multiplies is next to none."""
        decay = np.exp(-distance)
        decay /= np.maximum(distance, _NEAR, out=distance)
        return decay

    @property
    def steepest_slope(self) -> float:
        """At zero."""
        return 1.0


@dataclass(frozen=True, init=False)
class Matern32(Matern):
    r"""The once differentiable Matérn kernel.

    .. math:: k(x, y) = \sigma^2 (1 + \sqrt{3} D) \exp(-\sqrt{3} D)
    """

    nu = 1.5

    def of_distance(self, distance: Matrix) -> Matrix:
        """Return (1 + r) exp(-r) with r = sqrt(3) D."""
        distance *= math.sqrt(3)
        decay = np.exp(-distance)
        distance += 1.0
        distance *= decay
        return distance

    def steepness(self, distance: Matrix) -> Matrix:
        """Return 3 exp(-r) with r = sqrt(3) D."""
        distance *= -math.sqrt(3)
        np.exp(distance, out=distance)
        distance *= 3.0
        return distance

    @property
    def steepest_slope(self) -> float:
        """Where r = 1."""
        return math.sqrt(3) / math.e


@dataclass(frozen=True, init=False)
class Matern52(Matern):
    r"""The twice differentiable Matérn kernel, the feature kernel of the paper (appendix B.1).

    .. math:: k(x, y) = \sigma^2 (1 + \sqrt{5} D + \tfrac53 D^2) \exp(-\sqrt{5} D)
    """

    nu = 2.5

    def of_distance(self, distance: Matrix) -> Matrix:
        """Return (1 + r + r^2 / 3) exp(-r) with r = sqrt(5) D."""
        distance *= math.sqrt(5)
        decay = np.exp(-distance)
        polynomial = distance / 3.0
        polynomial += 1.0
        polynomial *= distance
        polynomial += 1.0
        polynomial *= decay
        return polynomial

    def steepness(self, distance: Matrix) -> Matrix:
        """Return 5/3 (1 + r) exp(-r) with r = sqrt(5) D."""
        distance *= math.sqrt(5)
        decay = np.exp(-distance)
        distance += 1.0
        distance *= decay
        distance *= 5 / 3
        return distance

    @property
    def steepest_slope(self) -> float:
        """Where r is the golden ratio."""
        golden = (1 + math.sqrt(5)) / 2
        return math.sqrt(5) * (golden + golden**2) / 3 * math.exp(-golden)
