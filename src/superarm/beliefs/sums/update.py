r"""The algebra that beliefs about sums share: one batch of evidence, and how exact that is.

A batch arrives as `Evidence` (A, w). With :math:`A = S S^T` (a pivoted Cholesky factor of its rank
r) and :math:`S z = w - A \mu`,

.. math::
    I + S^T \Sigma S = L L^T, \qquad G = L^{-1} S^T \Sigma, \qquad
    \mu \leftarrow \mu + G^T L^{-1} z, \qquad \Sigma \leftarrow \Sigma - G^T G .

The eigenvalues of what is factorised are at least one, and no mean is the difference of large
numbers. The covariance is one, though: it is good to machine precision times the *prior* variance,
and what is left of a variance after much has been learned of an arm is a share of about

.. math:: \frac{1}{1 + \rho}, \qquad \rho = \max_a \sqrt{v_a}\, \big(A_\mathrm{all} \sqrt v\big)_a

of it, with v the prior variances and :math:`A_\mathrm{all}` all evidence so far: :math:`\rho` is
"prior over noise", and bounds the largest eigenvalue of :math:`K^{1/2} A_\mathrm{all} K^{1/2}`.
So variances, and the weights of later rewards of the same arms, have relative errors of some
:math:`\epsilon \rho`. `require_precision` refuses evidence beyond `MOST_PRECISION`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import blas, cholesky, solve_triangular

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.factor import pivoted_root, solve_lower
from superarm.beliefs.sums.evidence import Evidence
from superarm.errors import NumericalError

MOST_PRECISION = 1e10
"""Prior over noise (see above) up to which evidence is accepted: six digits are left then."""

_BLOCK = 512


class AnyRoot(Protocol):
    """S with A = S N^-1 S^T, of full rank r, at the k rows of A that are not zero.

    So A is what S^T f says, observed with noise of covariance N: one, except in `direct`.
    """

    @property
    def touched(self) -> Rows:
        """Which rows these are, in the order that the methods expect."""
        ...

    def times(self, rows: Matrix) -> Matrix:
        """Return S^T times a matrix, whose touched rows are given, in their order.

        The memory of these rows may be used for the result.
        """
        ...

    def inner(self, half: Matrix) -> Matrix:
        """Return N + S^T C S from half = S^T C at the touched columns, in their order."""
        ...

    def solve(self, surprise: Vector) -> Vector:
        """Return z with S N^-1 z = surprise, given at the touched rows, in their order."""
        ...


@dataclass(frozen=True, eq=False)
class Root:
    """S with A = S S^T, of full rank r, at the rows of A that are not zero.

    Attributes:
        touched: which rows these are, in the order of `matrix`.
        matrix: S at these rows, shape (k, r), its first r rows lower triangular; or its diagonal,
            shape (k,), where A is diagonal.
    """

    touched: Rows
    matrix: Matrix | Vector

    @classmethod
    def of(cls, evidence: Evidence, spread: Vector) -> "Root":
        """Return the root of the evidence's precision, given the prior deviations."""
        precision = evidence.precision
        touched = np.flatnonzero(np.diff(precision.indptr))
        if precision.nnz == touched.size:  # arms one by one
            return cls(touched, np.sqrt(precision.data))
        return cls.dense(precision[touched][:, touched].toarray(), touched, spread[touched])

    @classmethod
    def dense(cls, matrix: Matrix, touched: Rows, spread: Vector) -> "Root":
        """Return a root of a positive semi-definite matrix, of its rank."""
        root, pivots = pivoted_root(matrix, spread)
        rest = np.setdiff1d(np.arange(touched.size), pivots)
        order = np.concatenate([pivots, rest]).astype(np.intp)
        return cls(touched[order], root[order])

    @property
    def rank(self) -> int:
        """R."""
        return int(self.matrix.shape[-1])

    def times(self, rows: Matrix) -> Matrix:
        """Return S^T times a matrix, whose touched rows are given, in their order."""
        if self.matrix.ndim == 1:
            return self.matrix[:, None] * rows
        rank = self.rank
        if not rank:
            return np.empty((0, rows.shape[1]))
        top = np.ascontiguousarray(rows[:rank])
        # half of the work of a full product: the upper half of the first rows is zero
        product: Matrix = blas.dtrmm(1.0, self.matrix[:rank], top.T, side=1, lower=1).T
        if rank < self.touched.size:
            product += self.matrix[rank:].T @ rows[rank:]
        return product

    def inner(self, half: Matrix) -> Matrix:
        """Return I + S^T C S from half = S^T C at the touched columns, in their order."""
        if self.matrix.ndim == 1:
            return with_ones(np.asarray(half * self.matrix))
        rank = self.rank
        if not rank:
            return np.empty((0, 0))
        product: Matrix = blas.dtrmm(
            1.0, self.matrix[:rank].T, half[:, :rank].T, lower=0, trans_a=0
        ).T
        if rank < self.touched.size:
            product += half[:, rank:] @ self.matrix[rank:]
        return with_ones(product)

    def solve(self, surprise: Vector) -> Vector:
        """Return z with S z = surprise, given at the touched rows, in their order."""
        if self.matrix.ndim == 1:
            quotient: Vector = surprise / self.matrix
            return quotient
        if not self.rank:
            return np.empty(0)
        corner = self.matrix[: self.rank]
        return solve_triangular(corner, surprise[: self.rank], lower=True, check_finite=False)


def with_ones(matrix: Matrix) -> Matrix:
    """Add the identity to a matrix, in its place, and return it."""
    matrix.flat[:: matrix.shape[0] + 1] += 1.0
    return matrix


def moves_of(root: AnyRoot, half: Matrix) -> tuple[Matrix, Matrix]:
    """Return L and G from half = S^T Sigma, shape (r, n), whose memory may be used."""
    inner = root.inner(half[:, root.touched])
    if inner.size == 0:  # nothing was said of what varies
        return inner, half
    lower = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    # G^T L^T = half^T: in rows of memory, nothing is copied
    moves: Matrix = blas.dtrsm(1.0, lower, half.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
    return lower, moves


def downdated(matrix: Matrix, moves: Matrix, result: Matrix) -> Matrix:
    """Write matrix - moves^T moves, symmetric in every bit, to result (C-ordered); return it."""
    np.copyto(result, matrix)
    if moves.size == 0:
        return result
    blas.dsyrk(-1.0, moves.T, beta=1.0, c=result.T, trans=0, lower=0, overwrite_c=1)
    return mirrored(result)


def gained(root: AnyRoot, lower: Matrix, moves: Matrix, surprise: Vector) -> Vector:
    """Return what the means move by: G^T L^-1 z."""
    step = solve_lower(lower, root.solve(surprise)[:, None])[:, 0]
    gain: Vector = step @ moves
    return gain


def require_precision(load: Vector, spread: Vector) -> None:
    """Refuse evidence that leaves so little variance that double precision cannot hold it.

    Args:
        load: all evidence so far times the prior deviations, shape (n,).
        spread: the prior deviations, shape (n,).
    """
    worst = float((load * spread).max(initial=0.0))
    if worst > MOST_PRECISION:
        instead = "use FiniteGP if rewards are of single arms, or a larger noise variance"
        msg = (
            f"prior over noise variance would be {worst:.3g} with these rewards; DenseGP keeps the "
            f"posterior covariance itself, which double precision holds up to {MOST_PRECISION:.0e}:"
            f" {instead}"
        )
        raise NumericalError(msg)


def mirrored(matrix: Matrix) -> Matrix:
    """Copy the lower triangle to the upper one, in blocks that fit the cache; return the matrix."""
    size = matrix.shape[0]
    for top in range(0, size, _BLOCK):
        bottom = min(top + _BLOCK, size)
        for left in range(0, top, _BLOCK):
            matrix[left : left + _BLOCK, top:bottom] = matrix[top:bottom, left : left + _BLOCK].T
        corner = matrix[top:bottom, top:bottom]
        lower = np.tril(corner, -1)
        corner[:] = lower + lower.T + np.diag(corner.diagonal())
    return matrix
