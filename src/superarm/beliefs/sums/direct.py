r"""Evidence that has an inverse, or almost: arms seen directly, with errors that go together.

Trips that are reported edge by edge without speeds have errors that link all edges of a trip, but
they say something of every edge. Then a root of A is more work than needed. With the few arms that
make A singular last (the gain of who measured: roads that take more and a key that reports more are
the same to one trip),

.. math::
    A = \begin{pmatrix} P & E \\ E^T & C \end{pmatrix}, \qquad F F^T = C - E^T P^{-1} E ,

it is what two observations say,

.. math::
    f_1 + P^{-1} E f_2 + N(0, P^{-1}) \quad\text{and}\quad F^T f_2 + N(0, I) ,

so that nothing of the size of the covariance is multiplied with a root.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, lapack, solve_triangular

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.factor import pivoted_root, solve_lower
from superarm.beliefs.sums.evidence import Evidence
from superarm.beliefs.sums.update import mirrored

_BLOCK = 256
_DEPENDENT = 1e-6
"""The share of its precision below which an arm says nothing that those before it do not."""
_WORTH = 8
_MOST_PRECISION = 1e6
"""Prior over noise beyond which the sum of both loses too many digits of the smaller one."""


@dataclass(frozen=True, eq=False)
class DirectRoot:
    """The observations of the module, at the rows of A that are not zero: plain arms, then others.

    Attributes:
        touched: which rows these are.
        noise: P^-1, shape (k, k).
        links: P^-1 E, shape (k, h).
        corner: F at the others, shape (h, q); in the first q of them it is lower triangular.
    """

    touched: Rows
    noise: Matrix
    links: Matrix
    corner: Matrix

    def times(self, rows: Matrix) -> Matrix:
        """Return the observations of a matrix whose touched rows are given, in its place."""
        size, rank = self.noise.shape[0], self.corner.shape[1]
        if rows.shape[0] > size:
            others = rows[size:].copy()
            rows[:size] += self.links @ others
            rows[size : size + rank] = self.corner.T @ others
        return rows[: size + rank]

    def inner(self, half: Matrix) -> Matrix:
        """Return the covariance of what is observed from half = S^T C at the touched columns."""
        size = self.noise.shape[0]
        product = np.array(self.times(np.array(half.T)).T, order="F")
        product[:size, :size] += self.noise
        others = np.arange(size, product.shape[0])
        product[others, others] += 1.0
        return product

    def solve(self, surprise: Vector) -> Vector:
        """Return what is observed beyond what was expected: z with S N^-1 z = surprise."""
        size, rank = self.noise.shape[0], self.corner.shape[1]
        plain = self.noise @ surprise[:size]
        if not rank:
            return plain
        # E^T P^-1 of the first part is in the second: F z = w_2 - E^T P^-1 w_1
        rest = (surprise[size:] - self.links.T @ surprise[:size])[:rank]
        return np.concatenate(
            [plain, solve_triangular(self.corner[:rank], rest, lower=True, check_finite=False)]
        )


def direct_root(evidence: Evidence, spread: Vector) -> DirectRoot | None:
    """Return evidence as observations of its arms, given prior deviations; else nothing."""
    precision = evidence.precision
    here = np.flatnonzero(np.diff(precision.indptr))
    if evidence.count < here.size - here.size // _WORTH or precision.nnz == here.size:
        return None  # less was said than there are arms, or each arm was seen by itself
    if (precision.diagonal() * spread**2).max() > _MOST_PRECISION:
        return None
    matrix = precision[here][:, here].toarray()
    unit = 1 / np.sqrt(np.maximum(matrix.diagonal(), np.finfo(float).tiny))
    scaled = matrix * np.outer(unit, unit)
    found = _independent(scaled, here.size // _WORTH)
    if found is None:
        return None
    lower, plain, others = found
    noise, _ = lapack.dpotri(lower, lower=1, overwrite_c=1)
    mirrored(noise)
    across = scaled[np.ix_(plain, others)]
    links = noise @ across
    left = (scaled[np.ix_(others, others)] - across.T @ links) / np.outer(
        unit[others], unit[others]
    )
    corner, pivots = pivoted_root((left + left.T) / 2, spread[here[others]])
    rest = np.setdiff1d(np.arange(others.size), pivots)
    order = np.concatenate([pivots, rest]).astype(np.intp)
    noise *= np.outer(unit[plain], unit[plain])
    links *= np.outer(unit[plain], 1 / unit[others])
    return DirectRoot(
        np.concatenate([here[plain], here[others[order]]]), noise, links[:, order], corner[order]
    )


def _independent(matrix: Matrix, most: int) -> tuple[Matrix, Rows, Rows] | None:
    """Return a factor of some rows and columns, which, and those that depend on rows before them.

    Args:
        matrix: positive semi-definite, with ones on its diagonal, shape (n, n).
        most: how many may depend on others; nothing is returned if there are more.
    """
    size = matrix.shape[0]
    left, info = lapack.dpotrf(matrix.T, lower=1, clean=1)
    known = info - 1 if info else size  # so many rows are factorised, whatever comes after
    known = int(np.append(np.flatnonzero(left.diagonal()[:known] ** 2 <= _DEPENDENT), known)[0])
    dependent = np.zeros(size, dtype=bool)
    if known < size:
        left[known:, :known] = solve_lower(left[:known, :known], matrix[:known, known:]).T
        left[known:, known:] = matrix[known:, known:]
    for first in range(known, size, _BLOCK):
        last = min(first + _BLOCK, size)
        # what the blocks before have not explained
        before = left[first:, :first]
        left[first:, first:last] -= before @ before[: last - first].T
        corner, skipped = _corner(left[first:last, first:last])
        left[first:last, first:last] = corner
        dependent[first:last] = skipped
        if dependent.sum() > most:
            return None
        left[last:, first:last] = solve_lower(corner, left[last:, first:last].T).T
        left[last:, first:last][:, skipped] = 0.0
    plain, others = np.flatnonzero(~dependent), np.flatnonzero(dependent)
    return np.asfortranarray(left[np.ix_(plain, plain)]), plain, others


def _corner(block: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return a lower factor of a block, with ones for rows that depend on those before them."""
    size = block.shape[0]
    skipped = np.zeros(size, dtype=bool)
    try:
        lower = cholesky(block, lower=True, check_finite=False)
        if (lower.diagonal() ** 2 > _DEPENDENT).all():
            return lower, skipped
    except LinAlgError:
        pass
    left, lower = np.tril(block) + np.tril(block, -1).T, np.zeros_like(block)
    for place in range(size):
        pivot = left[place, place]
        if not pivot > _DEPENDENT:
            skipped[place], lower[place, place] = True, 1.0
            continue
        column = left[place:, place] / np.sqrt(pivot)
        lower[place:, place] = column
        left[place:, place:] -= np.outer(column, column)
    return lower, skipped
