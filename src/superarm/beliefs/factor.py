r"""The Cholesky factor behind exact beliefs, cheap to extend when rewards arrive.

Wanted is :math:`(K + N)^{-1}` for the Gram matrix :math:`K` of the D distinct arms seen and
:math:`N = \mathrm{diag}(\varsigma^2 / \mathrm{count})`. Every round changes some counts, so that a
plain factor would have to be made anew, at a cost of :math:`D^3/3`. Instead the observations since
the last full factorisation stand as j extra rows beside it, merged among themselves:

.. math::
    \begin{pmatrix} K_{BB} + N_B & K_{BJ} \\ K_{JB} & K_{JJ} + N_J \end{pmatrix}
    = \begin{pmatrix} L & \\ A & C \end{pmatrix}
      \begin{pmatrix} L & \\ A & C \end{pmatrix}^T .

An arm may stand in both parts; since merged and unmerged observations give the same posterior,
the inverse of this matrix, summed over the rows of each arm, *is* :math:`(K + N)^{-1}`. When j
reaches a share of D everything is factorised again, so that a round costs
:math:`O(D^2 k)` on average.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack, solve_triangular

from superarm.arrays import Matrix, Rows, Vector
from superarm.errors import NumericalError

Gram: TypeAlias = Callable[[Rows, Rows], Matrix]
"""Prior covariances of distinct arms, by their slots."""

_FEWEST_EXTRA = 192
_EXTRA_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class Factor:
    """The factor as a value: learning returns a new one and shares what did not change.

    Attributes:
        core: L, shape (b, b), of the first b distinct arms as they had been seen when it was made.
        border: A, shape (j, b).
        schur: prior covariance of the extra rows given the core, shape (j, j).
        corner: C, a factor of `schur` plus the noise of the extra rows.
        extra: which distinct arms the extra rows speak of, each at most once.
        extra_precision: count / noise variance of each extra row.
    """

    core: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    border: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    schur: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    corner: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    extra: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    extra_precision: Vector = field(default_factory=lambda: np.empty(0))

    def grown(self, slots: Rows, gram: Gram) -> "Factor":
        """Return the factor with extra rows for all these arms, not yet observed.

        Its corner still is that of the rows observed before.
        """
        fresh = slots[~np.isin(slots, self.extra)]
        base = np.arange(self.core.shape[0])
        border = np.ascontiguousarray(solve_lower(self.core, gram(base, fresh)).T)
        side = gram(fresh, self.extra) - border @ self.border.T
        square = gram(fresh, fresh) - border @ border.T
        return Factor(
            core=self.core,
            border=np.concatenate([self.border, border]),
            schur=np.block([[self.schur, side.T], [side, square]]),
            corner=self.corner,
            extra=np.concatenate([self.extra, fresh]),
            extra_precision=np.concatenate([self.extra_precision, np.zeros(fresh.size)]),
        )

    def observed(self, slots: Rows, precision: Vector, total: Vector, gram: Gram) -> "Factor":
        """Return the factor after observations of arms that have extra rows.

        Args:
            slots: the distinct arms observed now.
            precision: count / noise variance of these observations.
            total: count / noise variance of all observations of all D arms, these included.
            gram: prior covariances between slots.
        """
        if self.extra.size > max(_FEWEST_EXTRA, _EXTRA_SHARE * total.size):
            everything = np.arange(total.size)
            core = checked_cholesky(gram(everything, everything), 1.0 / total)
            return Factor(core, border=np.empty((0, total.size)))
        added = self.extra_precision.copy()
        added[self.places(slots)] += precision
        return replace(
            self, corner=checked_cholesky(self.schur, 1.0 / added), extra_precision=added
        )

    def places(self, slots: Rows) -> Rows:
        """Return which extra rows speak of these arms, all of which must have one."""
        order = np.argsort(self.extra)
        return order[np.searchsorted(self.extra, slots, sorter=order)]

    def half_solve(self, right: Matrix) -> Matrix:
        r"""Return :math:`M` with :math:`M^T M = R^T (K + N)^{-1} R` for R of shape (D, m)."""
        above = solve_lower(self.core, right[: self.core.shape[0]])
        below = solve_lower(self.corner, right[self.extra] - self.border @ above)
        return np.concatenate([above, below])

    def solve(self, right: Matrix) -> Matrix:
        r"""Return :math:`(K + N)^{-1} R` for R of shape (D, m)."""
        size = self.core.shape[0]
        half = self.half_solve(right)
        below = solve_lower(self.corner, half[size:], transposed=True)
        above = solve_lower(self.core, half[:size] - self.border.T @ below, transposed=True)
        total = np.zeros_like(right)
        total[:size] = above
        total[self.extra] += below
        return total


MOST_PRECISION = 1e14
"""Prior over noise variance, repeats counted, beyond which no digit of a deviation is left."""


def require_precision(precision: Vector, variance: Vector) -> None:
    """Refuse rewards so precise beside the prior that double precision cannot hold what is left.

    Args:
        precision: summed inverse noise variances of some arms, shape (k,).
        variance: their prior variances, shape (k,).
    """
    worst = float((precision * variance).max(initial=0.0))
    if worst > MOST_PRECISION:
        msg = (
            f"prior over noise variance would be {worst:.3g} with these rewards; double precision "
            f"holds deviations up to {MOST_PRECISION:.0e}: choose a larger noise variance"
        )
        raise NumericalError(msg)


def checked_cholesky(gram: Matrix, noise: Vector) -> Matrix:
    """Return a lower factor of a Gram matrix plus noise, or say what makes it impossible."""
    lifted = gram.copy()
    lifted.flat[:: gram.shape[0] + 1] += noise
    try:
        return cholesky(lifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError as error:
        msg = (
            f"the covariance of {gram.shape[0]} observations is not positive definite: either "
            f"the prior covariance is not, or the noise variance (down to {noise.min():.3g} after "
            "merging repeats) is too small beside it for double precision; choose a larger one"
        )
        raise NumericalError(msg) from error


def solve_lower(lower: Matrix, right: Matrix, *, transposed: bool = False) -> Matrix:
    """Solve a lower triangular system, or its transpose; empty systems are fine."""
    if right.size == 0:
        return right
    return solve_triangular(
        lower, right, lower=True, trans="T" if transposed else "N", check_finite=False
    )


def pivoted_root(matrix: Matrix, scale: Vector) -> tuple[Matrix, Rows]:
    """Return S of the matrix's rank r with S S^T = matrix, and rows in which S is triangular.

    The matrix is positive semi-definite, up to rounding; S has shape (n, r), and S[rows], of shape
    (r, r), is lower triangular.

    Args:
        matrix: a precision, shape (n, n).
        scale: what a unit of each row is, shape (n,): the deviations that the precision is about.
            What is small in these units is rounding, whatever its own.
    """
    unit = np.where(scale > 0, scale, 1.0)
    scaled = matrix * np.outer(unit, unit)
    largest = float(scaled.diagonal().max(initial=0.0))
    if largest == 0:
        return np.zeros((matrix.shape[0], 0)), np.empty(0, dtype=np.intp)
    # not LAPACK's own tolerance, n times as large: small pivots do no harm, lost ones do
    lower, pivots, rank, _ = lapack.dpstrf(scaled, tol=np.finfo(float).eps * largest, lower=1)
    root = np.empty((matrix.shape[0], rank))
    root[pivots - 1] = np.tril(lower)[:, :rank]
    return root / unit[:, None], (pivots[:rank] - 1).astype(np.intp)
