"""Prior covariances over a finite universe: from a kernel, or from a matrix the user has."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.errors import NumericalError
from superarm.gaussian import ROUNDING, cholesky_with_jitter
from superarm.kernels import EXACT_DRAW_LIMIT, Kernel


class PriorCovariance(Protocol):
    """Covariances by positions in the universe, and prior draws."""

    def block(self, rows: Rows, columns: Rows | slice) -> Matrix:
        """Return covariances of some arms with others."""
        ...

    def diagonal(self) -> Vector:
        """Return the prior variances of all arms."""
        ...

    def draw(self, rng: np.random.Generator) -> Vector:
        """Return one sample of all arms with mean zero."""
        ...

    @property
    def exact_draws(self) -> bool:
        """Whether `draw` is exactly Gaussian (kernels beyond a stated size are not)."""
        ...


@dataclass(frozen=True, eq=False)
class KernelCovariance:
    """Evaluates a kernel when asked; holds nothing of size n x n unless draws are asked for."""

    arms: Arms
    kernel: Kernel

    def block(self, rows: Rows, columns: Rows | slice) -> Matrix:
        """Evaluate the kernel."""
        return self.kernel.gram(self.arms.take(rows), self._part(columns))

    def diagonal(self) -> Vector:
        """Evaluate the prior variances."""
        return self.kernel.diagonal(self.arms)

    def draw(self, rng: np.random.Generator) -> Vector:
        """Draw by a Cholesky factor made once, or by random features for many arms."""
        if self.exact_draws:
            return self._factor @ rng.standard_normal(len(self.arms))
        return self.kernel.draw_many(self.arms, rng)

    @property
    def exact_draws(self) -> bool:
        """Draws are exact up to `superarm.kernels.EXACT_DRAW_LIMIT` arms."""
        return len(self.arms) <= EXACT_DRAW_LIMIT

    @cached_property
    def _factor(self) -> Matrix:
        return cholesky_with_jitter(self.kernel.gram(self.arms, self.arms))

    def _part(self, columns: Rows | slice) -> Arms:
        if isinstance(columns, slice):
            columns = np.arange(*columns.indices(len(self.arms)))
        return self.arms.take(columns)


@dataclass(frozen=True, eq=False)
class DenseCovariance:
    """A matrix, checked to be symmetric and positive semi-definite."""

    matrix: Matrix

    def __post_init__(self) -> None:
        """Check the matrix."""
        rows, columns = self.matrix.shape
        if rows != columns:
            msg = f"covariance must be square, got shape {self.matrix.shape}"
            raise ValueError(msg)
        if not np.allclose(self.matrix, self.matrix.T, rtol=1e-8, atol=1e-12):
            msg = "covariance must be symmetric; pass (c + c.T) / 2 if it only differs by rounding"
            raise ValueError(msg)
        if (self.matrix.diagonal() < 0).any():
            msg = "covariance has a negative variance on its diagonal"
            raise ValueError(msg)
        self._require_semidefinite()

    def block(self, rows: Rows, columns: Rows | slice) -> Matrix:
        """Return the entries."""
        return self.matrix[rows][:, columns]

    def diagonal(self) -> Vector:
        """Return the diagonal."""
        return self.matrix.diagonal().copy()

    def draw(self, rng: np.random.Generator) -> Vector:
        """Draw by a Cholesky factor made once."""
        return self._factor @ rng.standard_normal(self.matrix.shape[0])

    @property
    def exact_draws(self) -> bool:
        """Draws are exact at any size."""
        return True

    @cached_property
    def _factor(self) -> Matrix:
        return cholesky_with_jitter(self.matrix)

    def _require_semidefinite(self) -> None:
        try:
            cholesky_with_jitter(self.matrix)
        except NumericalError as error:
            msg = (
                f"covariance is not positive semi-definite beyond rounding (a share {ROUNDING} of "
                f"its largest variance): {error}"
            )
            raise ValueError(msg) from error
