"""Adam steps on the contexts of inducing arms, with gradients by PyTorch (the ``torch`` extra)."""

import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector
from superarm.kernels import (
    RBF,
    Constant,
    GraphMatern,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    PerArm,
    Product,
    Stationary,
    Sum,
)

_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8
_NEARBY = 1e-30  # added under the root: equal contexts have distance zero and no direction


@dataclass(frozen=True, eq=False)
class Adam:
    """The running moments of Adam (Kingma and Ba, 2015), as a value."""

    rate: float
    first: Matrix | None = None
    second: Matrix | None = None
    steps: int = 0

    def ascended(self, gradient: Matrix) -> tuple[Matrix, "Adam"]:
        """Return how far to move up this gradient, and the moments after it."""
        zero = np.zeros_like(gradient)
        first = _DECAY * (zero if self.first is None else self.first) + (1 - _DECAY) * gradient
        second = _SQUARE_DECAY * (zero if self.second is None else self.second)
        second = second + (1 - _SQUARE_DECAY) * gradient**2
        steps = self.steps + 1
        mean, square = first / (1 - _DECAY**steps), second / (1 - _SQUARE_DECAY**steps)
        return self.rate * mean / (np.sqrt(square) + _EPSILON), Adam(
            self.rate, first, second, steps
        )


@dataclass(frozen=True, eq=False)
class Objective:
    r"""The part of a batch's ELBO that depends on where the inducing arms are.

    With :math:`\varphi = L^{-1} k_Z(x)` and :math:`q(L^{-1} u) = N(m, S)` held fixed it is

    .. math:: -\tfrac12 \sum_i \lambda_i \big( (y_i - \varphi_i^T m)^2
              - \varphi_i^T \varphi_i + \varphi_i^T S \varphi_i \big) .

    Attributes:
        kernel: the prior covariance; stationary and linear parts follow the contexts.
        batch: distinct arms observed.
        precision: :math:`\lambda`, how much is said of each.
        targets: mean reward of each, minus its prior mean.
        mean: m.
        covariance: S.
        jitter: what is added to the diagonal of the inducing arms' covariance.
    """

    kernel: Kernel
    batch: Arms
    precision: Vector
    targets: Vector
    mean: Vector
    covariance: Matrix
    jitter: float

    def gradient(self, inducing: Arms) -> Matrix:
        """Return the gradient with respect to the contexts of the inducing arms, shape (m, d)."""
        torch = import_torch()
        contexts = torch.tensor(inducing.contexts, requires_grad=True)
        there = torch.tensor(self.batch.contexts)
        own = _gram(torch, self.kernel, (inducing, contexts), (inducing, contexts))
        cross = _gram(torch, self.kernel, (inducing, contexts), (self.batch, there))
        lower = torch.linalg.cholesky(
            own + self.jitter * torch.eye(len(inducing), dtype=torch.float64)
        )
        features = torch.linalg.solve_triangular(lower, cross, upper=False)
        gap = torch.tensor(self.targets) - torch.tensor(self.mean) @ features
        spread = (features * (torch.tensor(self.covariance) @ features)).sum(0)
        loss = gap**2 - (features**2).sum(0) + spread
        value = -0.5 * (torch.tensor(self.precision) * loss).sum()
        value.backward()
        gradient: Matrix = contexts.grad.numpy()
        return gradient


def import_torch() -> Any:  # noqa: ANN401 - an untyped module
    """Return PyTorch, or say what to install."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        msg = "moving inducing arms needs PyTorch; pip install 'superarm[torch]'"
        raise ImportError(msg) from error


def _gram(torch: Any, kernel: Kernel, left: Any, right: Any) -> Any:  # noqa: ANN401 - tensors
    """Evaluate a kernel so that contexts can be differentiated."""
    match kernel:
        case Sum():
            return _gram(torch, kernel.left, left, right) + _gram(torch, kernel.right, left, right)
        case Product():
            return _gram(torch, kernel.left, left, right) * _gram(torch, kernel.right, left, right)
        case Stationary():
            scale = torch.tensor(kernel.lengthscale, dtype=torch.float64)
            gap = (left[1] / scale)[:, None, :] - (right[1] / scale)[None, :, :]
            return kernel.variance * _correlation(torch, kernel, (gap**2).sum(-1))
        case Linear():
            return kernel.variance * left[1] @ right[1].T
        case Constant() | PerArm() | GraphMatern():  # they read ids, if anything
            return torch.tensor(kernel.gram(left[0], right[0]))
        case _:
            msg = f"{type(kernel).__name__} has no gradient here; use adam_rate = 0 with it"
            raise ValueError(msg)


def _correlation(torch: Any, kernel: Stationary, squared: Any) -> Any:  # noqa: ANN401 - tensors
    distance = torch.sqrt(squared + _NEARBY)
    match kernel:
        case RBF():
            return torch.exp(-0.5 * squared)
        case Matern12():
            return torch.exp(-distance)
        case Matern32():
            scaled = math.sqrt(3) * distance
            return (1 + scaled) * torch.exp(-scaled)
        case Matern52():
            scaled = math.sqrt(5) * distance
            return (1 + scaled + scaled**2 / 3) * torch.exp(-scaled)
        case _:
            msg = f"{type(kernel).__name__} has no gradient here; use adam_rate = 0 with it"
            raise ValueError(msg)
