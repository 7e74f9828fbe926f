r"""The linear kernel: rewards are linear in the contexts, with Gaussian weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, require_positive
from superarm.kernels.base import Kernel


@dataclass(frozen=True)
class Linear(Kernel):
    r"""Weights :math:`w \sim N(0, \sigma^2 I)`, rewards :math:`w^T x`.

    .. math:: k(x, y) = \sigma^2 x^T y

    Add a `Constant` for an unknown level. With it a GP belief is Bayesian linear regression:
    posterior mean and deviation are those of ridge regression.
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        """Check the variance."""
        require_positive("variance", self.variance)

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return inner products of contexts."""
        self._require_contexts(left)
        products: Matrix = self.variance * (left.contexts @ right.contexts.T)
        return products

    def diagonal(self, arms: Arms) -> Vector:
        """Return squared lengths of contexts."""
        self._require_contexts(arms)
        squares: Vector = self.variance * np.einsum("ij,ij->i", arms.contexts, arms.contexts)
        return squares

    def parameters(self) -> dict[str, float]:
        """Return the variance."""
        return {"variance": self.variance}

    def replaced(self, values: Mapping[str, float]) -> "Linear":
        """Return the kernel of another variance."""
        return Linear(values["variance"])

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        """Return what the variance does: it multiplies everything."""
        self._require_contexts(arms)
        inner = (weights @ arms.contexts) * arms.contexts
        return np.array([self.variance * inner.sum()])

    def scale_parameters(self) -> tuple[str, ...]:
        """The variance multiplies everything."""
        return ("variance",)

    def draw(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Draw the weights; exact at any size."""
        return self.draw_many(arms, rng)

    def draw_many(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Draw the weights; exact at any size."""
        weights = math.sqrt(self.variance) * rng.standard_normal(arms.n_features)
        values: Vector = arms.contexts @ weights
        return values

    def _require_contexts(self, arms: Arms) -> None:
        if arms.n_features == 0:
            msg = "Linear compares contexts, but the arms carry none"
            raise ValueError(msg)
