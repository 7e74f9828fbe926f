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

_ENTRIES_AT_ONCE = 4_000_000  # kernel values evaluated together, 32 MB and some temporaries


class PriorCovariance(Protocol):
    """Covariances by positions in the universe, and prior draws."""

    def block(self, rows: Rows, columns: Rows) -> Matrix:
        """Return covariances of some arms with others."""
        ...

    def fill(self, rows: Rows, out: Matrix) -> None:
        """Write the covariances of some arms with all to `out`."""
        ...

    def diagonal(self) -> Vector:
        """Return the prior variances of all arms."""
        ...

    def draw(self, rng: np.random.Generator) -> Vector:
        """Return one sample of all arms with mean zero."""
        ...


@dataclass(frozen=True, eq=False)
class KernelCovariance:
    """Evaluates a kernel when asked; holds nothing of size n x n unless draws are asked for."""

    arms: Arms
    kernel: Kernel

    def block(self, rows: Rows, columns: Rows) -> Matrix:
        """Evaluate the kernel."""
        return self.kernel.gram(self.arms.take(rows), self.arms.take(columns))

    def fill(self, rows: Rows, out: Matrix) -> None:
        """Evaluate the kernel, some rows at a time."""
        step = max(1, _ENTRIES_AT_ONCE // len(self.arms))
        for begin in range(0, rows.size, step):
            some = self.arms.take(rows[begin : begin + step])
            out[begin : begin + step] = self.kernel.gram(some, self.arms)

    def diagonal(self) -> Vector:
        """Evaluate the prior variances."""
        return self.kernel.diagonal(self.arms)

    def draw(self, rng: np.random.Generator) -> Vector:
        """Draw by a Cholesky factor made once, or by random features for many arms."""
        if len(self.arms) <= EXACT_DRAW_LIMIT:
            return self._factor @ rng.standard_normal(len(self.arms))
        return self.kernel.draw_many(self.arms, rng)

    @cached_property
    def _factor(self) -> Matrix:
        return cholesky_with_jitter(self.kernel.gram(self.arms, self.arms))


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
        if not np.allclose(
            self.matrix, self.matrix.T, rtol=1e-8, atol=1e-12 * np.abs(self.matrix).max(initial=0.0)
        ):
            msg = "covariance must be symmetric; pass (c + c.T) / 2 if it only differs by rounding"
            raise ValueError(msg)
        if (self.matrix.diagonal() < 0).any():
            msg = "covariance has a negative variance on its diagonal"
            raise ValueError(msg)
        self._require_semidefinite()

    def block(self, rows: Rows, columns: Rows) -> Matrix:
        """Return the entries."""
        return self.matrix[np.ix_(rows, columns)]

    def fill(self, rows: Rows, out: Matrix) -> None:
        """Copy the rows."""
        out[:] = self.matrix[rows]

    def diagonal(self) -> Vector:
        """Return the diagonal."""
        return self.matrix.diagonal().copy()

    def draw(self, rng: np.random.Generator) -> Vector:
        """Draw by a Cholesky factor made once."""
        return self._factor @ rng.standard_normal(self.matrix.shape[0])

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
