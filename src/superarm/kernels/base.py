r"""Kernels as prior covariances of arms: sums, products, constants and prior draws.

A kernel reads what it needs of the arms (their contexts, their ids). Prior draws are exact up to
`EXACT_DRAW_LIMIT` arms (a Cholesky factor of the Gram matrix); beyond it they are sums of
`RANDOM_FEATURES` random Fourier features, whose covariance is the kernel's own, with a joint law
that approaches the Gaussian one at the rate 1/sqrt(RANDOM_FEATURES).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, require_positive
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter

EXACT_DRAW_LIMIT = 6000
"""Up to this many arms a prior draw factorises the Gram matrix (288 MB, about two seconds)."""

RANDOM_FEATURES = 1024
"""Pairs of random Fourier features (cosine and sine) in a draw beyond `EXACT_DRAW_LIMIT`."""

MIXED_FEATURES = 128
"""Pairs of features in a draw of a product where each carries a draw of the other kernel."""

_TILE = 4096


class Kernel(ABC):
    """Base of all kernels: subclasses write `gram` and `diagonal`, the rest is given.

    >>> from superarm.kernels import RBF, Constant
    >>> kernel = 0.5 * RBF(lengthscale=2.0) + Constant(0.1)
    >>> kernel.diagonal(Arms([0], [[1.0]])).tolist()
    [0.6]
    """

    @abstractmethod
    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return the covariances of every left with every right arm."""

    @abstractmethod
    def diagonal(self, arms: Arms) -> Vector:
        """Return the prior variances."""

    def parameters(self) -> dict[str, float]:
        """Return what can be fitted, by name; all are positive. None, unless a class says so.

        Names are paths: ``left.lengthscale[0]`` is the first lengthscale of the left part.
        """
        return {}

    def with_parameters(self, values: Mapping[str, float]) -> "Kernel":
        """Return the kernel with some parameters replaced, by the names of `parameters`.

        Args:
            values: new parameters by name; those that are not named stay.

        >>> from superarm.kernels import RBF, PerArm
        >>> kernel = RBF([1.0, 2.0]) + PerArm(0.1)
        >>> kernel.with_parameters({"left.lengthscale[1]": 3.0}).left.lengthscale
        (1.0, 3.0)
        """
        known = self.parameters()
        for name, value in values.items():
            if name not in known:
                msg = f"there is no parameter {name!r}; there are {', '.join(known) or 'none'}"
                raise ValueError(msg)
            require_positive(name, value)
        return self.replaced(known | {name: float(value) for name, value in values.items()})

    def replaced(self, values: Mapping[str, float]) -> "Kernel":
        """Return the kernel with all parameters replaced; classes that have some write this.

        Args:
            values: all parameters by name, as `parameters` lists them.
        """
        del values
        return self

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        r"""Return what a weighted sum of the Gram matrix does as parameters grow.

        .. math:: \sum_{ij} W_{ij} \frac{\partial k(a_i, a_j)}{\partial \log \theta}

        for every parameter, in the order of `parameters`; no derivative of a matrix is kept.

        Args:
            arms: n of them.
            weights: W, shape (n, n), symmetric.
        """
        del arms, weights
        return np.empty(0)

    def scale_parameters(self) -> tuple[str, ...]:
        """Return the parameters that do nothing but multiply the whole kernel."""
        return ()

    def __add__(self, other: "Kernel | float") -> "Kernel":
        """Return the kernel of a sum of independent processes; a number adds a common level."""
        return Sum(self, _as_kernel(other))

    def __mul__(self, other: "Kernel | float") -> "Kernel":
        """Return the product kernel; a number scales the variance."""
        return Product(self, _as_kernel(other))

    def __rmul__(self, other: float) -> "Kernel":
        """Scale the variance by a positive number."""
        return Product(_as_kernel(other), self)

    def draw(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Return one prior sample of the arms' values, with mean zero, shape (n,)."""
        if len(arms) <= EXACT_DRAW_LIMIT:
            factor = cholesky_with_jitter(self.gram(arms, arms))
            return factor @ rng.standard_normal(len(arms))
        return self.draw_many(arms, rng)

    def draw_many(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Return one prior sample of any number of arms without an n x n matrix."""
        return draw_function(self, arms.n_features, rng)(arms)

    @property
    def spectral(self) -> bool:
        """Whether `frequencies` can be drawn, as for stationary kernels and what they make up."""
        return False

    def frequencies(
        self, count: int, n_features: int, rng: np.random.Generator
    ) -> tuple[Matrix, float]:
        """Return draws from the spectral density, shape (count, d), and the variance."""
        del count, n_features, rng
        msg = (
            f"{type(self).__name__} has no spectral density to draw random features from, which "
            f"functions and draws of more than {EXACT_DRAW_LIMIT} arms need; "
            "override draw_many in its class"
        )
        raise CapacityError(msg)


def _as_kernel(value: object) -> Kernel:
    if isinstance(value, Kernel):
        return value
    if isinstance(value, (int, float, np.number)):
        return Constant(float(value))
    msg = f"a kernel combines with kernels and numbers, not with {type(value).__name__}"
    raise TypeError(msg)


@dataclass(frozen=True)
class Sum(Kernel):
    """The covariance of a sum of independent processes, k(a, b) = k1(a, b) + k2(a, b)."""

    left: Kernel
    right: Kernel

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return the sum of both Gram matrices."""
        return self.left.gram(left, right) + self.right.gram(left, right)

    def diagonal(self, arms: Arms) -> Vector:
        """Return the sum of both variances."""
        return self.left.diagonal(arms) + self.right.diagonal(arms)

    def parameters(self) -> dict[str, float]:
        """Return those of both parts."""
        return _of_both(self.left, self.right)

    def replaced(self, values: Mapping[str, float]) -> "Kernel":
        """Return both parts replaced."""
        return Sum(*_both_replaced(self.left, self.right, values))

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        """Return those of both parts."""
        return np.concatenate([self.left.slopes(arms, weights), self.right.slopes(arms, weights)])

    def draw_many(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Return the sum of two independent draws."""
        return self.left.draw_many(arms, rng) + self.right.draw_many(arms, rng)

    @property
    def spectral(self) -> bool:
        """A sum is spectral if both parts are."""
        return self.left.spectral and self.right.spectral

    def frequencies(
        self, count: int, n_features: int, rng: np.random.Generator
    ) -> tuple[Matrix, float]:
        """Mix the frequencies of both parts by their variances."""
        first, first_variance = self.left.frequencies(count, n_features, rng)
        second, second_variance = self.right.frequencies(count, n_features, rng)
        total = first_variance + second_variance
        chosen = rng.random(count) * total < first_variance
        return np.where(chosen[:, None], first, second), total


@dataclass(frozen=True)
class Product(Kernel):
    """The product covariance, k(a, b) = k1(a, b) k2(a, b)."""

    left: Kernel
    right: Kernel

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return the elementwise product of both Gram matrices."""
        return self.left.gram(left, right) * self.right.gram(left, right)

    def diagonal(self, arms: Arms) -> Vector:
        """Return the product of both variances."""
        return self.left.diagonal(arms) * self.right.diagonal(arms)

    def parameters(self) -> dict[str, float]:
        """Return those of both parts."""
        return _of_both(self.left, self.right)

    def replaced(self, values: Mapping[str, float]) -> "Kernel":
        """Return both parts replaced."""
        return Product(*_both_replaced(self.left, self.right, values))

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        """Return those of each part, weighted by the other."""
        return np.concatenate(
            [
                _slopes_beside(self.left, self.right, arms, weights),
                _slopes_beside(self.right, self.left, arms, weights),
            ]
        )

    def scale_parameters(self) -> tuple[str, ...]:
        """Return those of both parts."""
        left, right = self.left.scale_parameters(), self.right.scale_parameters()
        return (*(f"left.{name}" for name in left), *(f"right.{name}" for name in right))

    def draw_many(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Draw by features; where only one part has them, each carries a draw of the other."""
        if self.spectral or not (self.left.spectral or self.right.spectral):
            return super().draw_many(arms, rng)
        waves, other = (self.left, self.right) if self.left.spectral else (self.right, self.left)
        if isinstance(other, Sum):  # features of features would be slow
            parts = (Product(waves, other.left), Product(waves, other.right))
            return parts[0].draw_many(arms, rng) + parts[1].draw_many(arms, rng)
        total = np.zeros(len(arms))
        for frequency, cosine, sine in mixed_features(waves, other, arms, arms.n_features, rng):
            angle = arms.contexts @ frequency
            total += np.cos(angle) * cosine + np.sin(angle) * sine
        return total

    @property
    def spectral(self) -> bool:
        """A product is spectral if both parts are."""
        return self.left.spectral and self.right.spectral

    def frequencies(
        self, count: int, n_features: int, rng: np.random.Generator
    ) -> tuple[Matrix, float]:
        """Add frequencies: the spectral density of a product is a convolution."""
        first, first_variance = self.left.frequencies(count, n_features, rng)
        second, second_variance = self.right.frequencies(count, n_features, rng)
        return first + second, first_variance * second_variance


def _of_both(left: Kernel, right: Kernel) -> dict[str, float]:
    named = {f"left.{name}": value for name, value in left.parameters().items()}
    return named | {f"right.{name}": value for name, value in right.parameters().items()}


def _both_replaced(
    left: Kernel, right: Kernel, values: Mapping[str, float]
) -> tuple[Kernel, Kernel]:
    def mine(part: str) -> dict[str, float]:
        return {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{part}.")}

    return left.replaced(mine("left")), right.replaced(mine("right"))


def _slopes_beside(kernel: Kernel, other: Kernel, arms: Arms, weights: Matrix) -> Vector:
    if not kernel.parameters():
        return np.empty(0)
    if isinstance(other, Constant):
        return kernel.slopes(arms, other.variance * weights)
    return kernel.slopes(arms, weights * other.gram(arms, arms))


def mixed_features(
    waves: Kernel, other: Kernel, arms: Arms, n_features: int, rng: np.random.Generator
) -> Iterator[tuple[Vector, Vector, Vector]]:
    r"""Yield the features of a draw from the product of a spectral kernel and another.

    .. math::
        f(e, x) = \sqrt{v/S} \sum_{s=1}^{S} g_s(e) \cos(\omega_s^T x) + h_s(e) \sin(\omega_s^T x)

    with :math:`g_s, h_s` independent draws of the other kernel: given the frequencies it is
    Gaussian, with the right variance everywhere and the right covariance at equal contexts. Each of
    the S = `MIXED_FEATURES` items is a frequency and both draws at the arms, scaled.
    """
    frequencies, variance = waves.frequencies(MIXED_FEATURES, n_features, rng)
    scale = math.sqrt(variance / MIXED_FEATURES)
    for frequency in frequencies:
        yield frequency, scale * other.draw(arms, rng), scale * other.draw(arms, rng)


@dataclass(frozen=True)
class Constant(Kernel):
    """One unknown level shared by all arms: k(a, b) = variance."""

    variance: float = 1.0

    def __post_init__(self) -> None:
        """Check the variance."""
        require_positive("variance", self.variance)

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return a matrix filled with the variance."""
        return np.full((len(left), len(right)), self.variance)

    def diagonal(self, arms: Arms) -> Vector:
        """Return a vector filled with the variance."""
        return np.full(len(arms), self.variance)

    def parameters(self) -> dict[str, float]:
        """Return the variance."""
        return {"variance": self.variance}

    def replaced(self, values: Mapping[str, float]) -> "Constant":
        """Return the kernel of another variance."""
        return Constant(values["variance"])

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        """Return what the variance does: it multiplies everything."""
        del arms
        return np.array([self.variance * weights.sum()])

    def scale_parameters(self) -> tuple[str, ...]:
        """The variance multiplies everything."""
        return ("variance",)

    @property
    def spectral(self) -> bool:
        """A constant has the single frequency zero."""
        return True

    def frequencies(
        self, count: int, n_features: int, rng: np.random.Generator
    ) -> tuple[Matrix, float]:
        """Return zeros."""
        del rng
        return np.zeros((count, n_features)), self.variance


@dataclass(frozen=True)
class PerArm(Kernel):
    """An effect of its own for every arm id: k(a, b) = variance if a and b share their id.

    Added to a kernel on contexts it lets arms with equal contexts differ.
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        """Check the variance."""
        require_positive("variance", self.variance)

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return the variance where ids agree and zero elsewhere."""
        return np.where(left.ids[:, None] == right.ids[None, :], self.variance, 0.0)

    def diagonal(self, arms: Arms) -> Vector:
        """Return a vector filled with the variance."""
        return np.full(len(arms), self.variance)

    def parameters(self) -> dict[str, float]:
        """Return the variance."""
        return {"variance": self.variance}

    def replaced(self, values: Mapping[str, float]) -> "PerArm":
        """Return the kernel of another variance."""
        return PerArm(values["variance"])

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        """Return what the variance does: it multiplies everything."""
        same = arms.ids[:, None] == arms.ids
        return np.array([self.variance * (weights.sum(where=same))])

    def scale_parameters(self) -> tuple[str, ...]:
        """The variance multiplies everything."""
        return ("variance",)

    def draw_many(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Draw one effect per distinct id; exact at any size."""
        distinct, which = np.unique(arms.ids, return_inverse=True)
        return math.sqrt(self.variance) * rng.standard_normal(distinct.size)[which]


@dataclass(frozen=True, eq=False)
class RandomFunction:
    r"""A function drawn once from a prior and evaluable at any context, by random features.

    .. math:: f(x) = \sqrt{v/S} \sum_{s=1}^{S} a_s \cos(\omega_s^T x) + b_s \sin(\omega_s^T x)

    with :math:`\omega_s` from the spectral density and :math:`a_s, b_s` standard normal: given the
    frequencies it is Gaussian with variance exactly :math:`v`, and its covariances differ from
    the kernel's by a standard deviation of at most :math:`v/\sqrt{2S}` (a mean of S cosines).
    """

    frequencies: Matrix
    cosine_weights: Vector
    sine_weights: Vector

    def __call__(self, arms: Arms) -> Vector:
        """Return the values at the arms' contexts, shape (n,)."""
        values = np.empty(len(arms))
        for begin in range(0, len(arms), _TILE):
            angles = arms.contexts[begin : begin + _TILE] @ self.frequencies.T
            values[begin : begin + _TILE] = (
                np.cos(angles) @ self.cosine_weights + np.sin(angles) @ self.sine_weights
            )
        return values


def draw_function(
    kernel: Kernel, n_features: int, rng: np.random.Generator, *, count: int = RANDOM_FEATURES
) -> RandomFunction:
    """Draw a function from the prior of a spectral kernel, to be evaluated at any context."""
    frequencies, variance = kernel.frequencies(count, n_features, rng)
    scale = math.sqrt(variance / count)
    return RandomFunction(
        frequencies, scale * rng.standard_normal(count), scale * rng.standard_normal(count)
    )
