r"""The root of evidence that is almost diagonal: arms one by one, few of them hubs, shared errors.

Trips that are reported edge by edge say something of every edge; a hub (the gain of who measured)
is in all of these rows, and a shared error links those of a trip. With the hubs last,

.. math::
    A = B - P^T P, \qquad
    B = \begin{pmatrix} D & E \\ E^T & C \end{pmatrix} = T T^T, \qquad
    T = \begin{pmatrix} D^{1/2} & \\ E^T D^{-1/2} & F \end{pmatrix}, \qquad
    F F^T = C - E^T D^{-1} E ,

D diagonal, so that with :math:`V = T^{-1} P^T` the symmetric root of :math:`I - V V^T` gives

.. math::
    S = T \big(I - V U M_- U^T V^T\big), \qquad V^T V = U \Lambda U^T, \qquad
    M_- = \Lambda^{-1} (1 - \sqrt{1 - \Lambda}) .

V has the entries of P and a row per hub: products with S and its inverse cost next to nothing,
where a root without structure costs as much as the rest of learning.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array, diags_array, vstack

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.factor import pivoted_root
from superarm.beliefs.sums.evidence import Evidence
from superarm.beliefs.sums.update import with_ones

_WORTH = 4
_COLUMNS = 256  # at a time: temporary arrays stay in the cache
_LEAST = np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class LinkedRoot:
    """S of the module, at the rows of A that are not zero: plain arms first, then hubs.

    Attributes:
        touched: which rows these are.
        diagonal: the root of D, shape (k,).
        links: E^T D^-1/2, shape (h, k), sparse.
        corner: F at the hubs, shape (h, q); in the first q of them it is lower triangular.
        shares: V, shape (k + q, g), sparse.
        shrinking: U M U^T of S, shape (g, g).
        growing: the same of its inverse: U (1 / sqrt(1 - Lambda) - 1) / Lambda U^T.
    """

    touched: Rows
    diagonal: Vector
    links: csr_array
    corner: Matrix
    shares: csr_array
    shrinking: Matrix
    growing: Matrix

    def times(self, rows: Matrix) -> Matrix:
        """Return S^T times a matrix, whose touched rows are given, in their order, in its place."""
        size, rank = self.diagonal.size, self.corner.shape[1]
        product = rows[: size + rank]
        for first in range(0, rows.shape[1], _COLUMNS):
            tile = slice(first, first + _COLUMNS)
            part, hubs = rows[:, tile], rows[size:, tile].copy()
            part[:size] *= self.diagonal[:, None]
            if hubs.size:
                part[:size] += self.links.T @ hubs
                part[size : size + rank] = self.corner.T @ hubs
            product[:, tile] -= self.shares @ (self.shrinking @ (self.shares.T @ product[:, tile]))
        return product

    def inner(self, half: Matrix) -> Matrix:
        """Return I + S^T C S from half = S^T C at the touched columns, in their order, likewise."""
        return with_ones(np.asarray(self.times(np.asarray(half.T)).T))

    def solve(self, surprise: Vector) -> Vector:
        """Return z with S z = surprise, given at the touched rows, in their order."""
        found = _solved(self.diagonal, self.links, self.corner, surprise[:, None])[:, 0]
        step: Vector = found + self.shares @ (self.growing @ (self.shares.T @ found))
        return step


def linked_root(evidence: Evidence, spread: Vector) -> LinkedRoot | None:
    """Return the root of evidence that has this structure, given prior deviations; else nothing."""
    shared, matrix = evidence.shared, evidence.own.tocoo()
    if shared is None:
        return None
    here = np.flatnonzero(evidence.own.diagonal() > 0)
    links = matrix.row != matrix.col
    row, column = matrix.row[links], matrix.col[links]
    degree = np.bincount(row, minlength=spread.size)
    hubs = _hubs(row, column, degree)
    if _WORTH * (hubs.size + shared.shape[0]) > here.size:
        return None
    plain = np.setdiff1d(here, hubs)
    touched = np.concatenate([plain, hubs])
    diagonal = np.sqrt(evidence.own.diagonal()[plain])
    across = csr_array(evidence.own[hubs][:, plain] @ diags_array(1 / diagonal))
    left = evidence.own[hubs][:, hubs].toarray() - (across @ across.T).toarray()
    corner, pivots = pivoted_root(left, spread[hubs])
    order = np.concatenate([pivots, np.setdiff1d(np.arange(hubs.size), pivots)]).astype(np.intp)
    touched[plain.size :] = hubs[order]
    across, corner = csr_array(across[order]), corner[order]
    shares = _shares(diagonal, across, corner, csr_array(shared[:, touched]))
    values, vectors = np.linalg.eigh((shares.T @ shares).toarray())
    values = np.clip(values, _LEAST, 1 - _LEAST)
    rest = np.sqrt(1 - values)
    return LinkedRoot(
        touched,
        diagonal,
        across,
        corner,
        shares,
        (vectors * ((1 - rest) / values)) @ vectors.T,
        (vectors * ((1 / rest - 1) / values)) @ vectors.T,
    )


def _hubs(row: Rows, column: Rows, degree: Rows) -> Rows:
    """Return arms that are an end of every link: of two, the one with more links."""
    first = (degree[row] > degree[column]) | ((degree[row] == degree[column]) & (row < column))
    return np.unique(np.where(first, row, column))


def _solved(diagonal: Vector, links: csr_array, corner: Matrix, right: Matrix) -> Matrix:
    """Return T^-1 times a matrix."""
    size, rank = diagonal.size, corner.shape[1]
    top = right[:size] / diagonal[:, None]
    if not rank:
        return np.asarray(top)
    rest = (right[size:] - links @ top)[:rank]
    bottom = solve_triangular(corner[:rank], rest, lower=True, check_finite=False)
    return np.concatenate([top, bottom])


def _shares(diagonal: Vector, links: csr_array, corner: Matrix, shared: csr_array) -> csr_array:
    """Return V = T^-1 P^T, with P's columns in the order of T's rows."""
    size, rank = diagonal.size, corner.shape[1]
    top = csr_array(diags_array(1 / diagonal) @ shared[:, :size].T)
    if not rank:
        return top
    rest = (shared[:, size:].T - links @ top).toarray()[:rank]
    bottom = solve_triangular(corner[:rank], rest, lower=True, check_finite=False)
    return csr_array(vstack([top, csr_array(bottom)]))
