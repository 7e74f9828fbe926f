r"""Large sparse symmetric matrices: solves, and diagonals of powers of their inverse, compiled.

`SparseLDL` factorises :math:`M = L D L^T` once. Solves handle many right-hand sides side by side.

For the diagonal, wanted is :math:`\mathrm{diag}(M^{-p})` for a symmetric positive definite M whose
inverse is dense and does not fit in memory. The entries of :math:`M^{-1}` on the pattern of its
factor :math:`L D L^T` follow from the last column to the first (Takahashi's recursion),

.. math:: Z_{Sj} = -Z_{SS} L_{Sj}, \qquad Z_{jj} = D_j^{-1} - L_{Sj}^T Z_{Sj},

with S the pattern of column j of L. Powers come by differentiation: in

.. math:: (M + c I)^{-1} = \sum_k (-c)^k M^{-(k+1)}

the coefficient of :math:`c^{p-1}` is wanted, so that every number below is a polynomial in c cut
off after p terms. This is as stable as a factorisation of M, and fills in as little; one of
:math:`M^p` would do neither.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array

from superarm.arrays import Mask, Matrix, Rows, Vector
from superarm.kernels.elimination import (
    eliminate,
    factorise,
    inverse_diagonal,
    postorder,
    solve_block,
    solve_transposed,
)
from superarm.threads import in_blocks

BLOCKS = ((16, 13), (4, 2), (1, 1))
"""How many right-hand sides are solved side by side, and from how many on that is worth while."""


@dataclass(frozen=True, eq=False)
class SparseLDL:
    """The factor of a sparse symmetric positive definite matrix.

    Attributes:
        upper: the upper triangle of the permuted matrix, by columns.
        order: `order[i]` is the i-th column to be eliminated.
    """

    upper: tuple[Rows, Rows, Vector]
    order: Rows
    parent: Rows
    begins: Rows
    lower_rows: Rows
    lower: Vector
    pivots: Vector

    @classmethod
    def of(cls, starts: Rows, rows: Rows, values: Vector, order: Rows) -> "SparseLDL":
        """Factorise a matrix.

        Args:
            starts: where its columns begin, shape (n + 1,).
            rows: row numbers by column; both triangles.
            values: the entries.
            order: a fill-reducing order.
        """
        upper = _permuted_upper_triangle(starts, rows, values, order)
        # neighbours in the elimination tree side by side: same fill, half the cache misses
        order = order[postorder(eliminate(upper[0], upper[1])[0])]
        upper = _permuted_upper_triangle(starts, rows, values, order)
        parent, begins = eliminate(upper[0], upper[1])
        lower_rows, lower, pivots = factorise(*upper, parent, begins, (0,))
        return cls(upper, order, parent, begins, lower_rows, lower[:, 0], pivots[:, 0])

    def inverse_columns(self, nodes: Rows, power: int) -> Matrix:
        """Return columns of the inverse's power as rows, shape (len(nodes), n)."""
        size = self.order.size
        place = np.empty(size, dtype=np.intp)
        place[self.order] = np.arange(size)
        found = np.empty((nodes.size, size))
        begin = 0
        while begin < nodes.size:
            left = nodes.size - begin
            width = next(width for width, fewest in BLOCKS if left >= fewest)
            some = nodes[begin : begin + width]
            block = np.zeros((size, width))
            block[place[some], np.arange(some.size)] = 1.0
            active = np.zeros(size, dtype=np.bool_)
            active[place[some]] = True
            for _ in range(power):
                self._solve(block, active)
                active = np.ones(size, dtype=np.bool_)
            found[begin : begin + width, self.order] = block.T[: some.size]
            begin += width
        return found

    def root_times(self, noise: Vector, power: int) -> Vector:
        """Return a matrix root of the inverse's power times a vector."""
        values = noise.copy()
        if power % 2:  # L^-T D^-1/2 is a root of the inverse itself
            values /= np.sqrt(self.pivots)
            solve_transposed(self.begins, self.lower_rows, self.lower, values)
        for _ in range(power // 2):
            self._solve(values[:, None], np.ones(values.size, dtype=np.bool_))
        result = np.empty_like(values)
        result[self.order] = values
        return result

    def root_times_many(self, noise: Matrix, power: int) -> Matrix:
        """Return a matrix root of the inverse's power times columns, shape (n, s).

        Columns may be of single precision; they are solved for in double precision.
        """
        if power % 2:  # L^-T D^-1/2 is a root of the inverse itself
            noise = self._half_solved(noise)
        return self._solved(noise, power // 2)

    def root_transposed_many(self, columns: Matrix, power: int) -> Matrix:
        """Return the transposed root times columns, shape (n, s)."""
        found = self._solved(columns, power // 2 + power % 2)
        if power % 2:  # D^-1/2 L^-1 = D^1/2 L^T M^-1
            values = found[self.order]
            values += self._strictly_lower.T @ values
            values *= np.sqrt(self.pivots)[:, None]
            found = np.empty_like(values)
            found[self.order] = values
        return found

    def _half_solved(self, columns: Matrix) -> Matrix:
        """Return L^-T D^-1/2 times columns."""
        values = columns[self.order] / np.sqrt(self.pivots)[:, None]
        for column in range(values.shape[1]):
            some = np.array(values[:, column], dtype=np.float64)
            solve_transposed(self.begins, self.lower_rows, self.lower, some)
            values[:, column] = some
        result = np.empty_like(values)
        result[self.order] = values
        return result

    @cached_property
    def _strictly_lower(self) -> csc_array:
        size = self.order.size
        return csc_array((self.lower, self.lower_rows, self.begins), shape=(size, size))

    def _solved(self, columns: Matrix, times: int) -> Matrix:
        """Return the inverse's power times columns."""
        if not times:
            return columns
        found = np.empty_like(columns)

        def work(begin: int, width: int) -> None:
            some = slice(begin, begin + width)
            block = np.ascontiguousarray(columns[:, some].take(self.order, axis=0), np.float64)
            for _ in range(times):
                self._solve(block, np.ones(self.order.size, dtype=np.bool_))
            found[self.order, some] = block

        in_blocks(columns.shape[1], work, tuple(width for width, _ in BLOCKS))
        return found

    def inverse_diagonal(self, power: int) -> Vector:
        r"""Return :math:`\mathrm{diag}(M^{-p})` for a positive integer p."""
        terms = (0,) * power
        lower_rows, lower, pivots = factorise(*self.upper, self.parent, self.begins, terms)
        polynomials = inverse_diagonal(self.begins, lower_rows, lower, pivots, terms)
        diagonal = np.empty(self.order.size)
        diagonal[self.order] = (-1.0) ** (power - 1) * polynomials[:, power - 1]
        return diagonal

    def _solve(self, block: Matrix, active: Mask) -> None:
        lanes = (0,) * block.shape[1]
        solve_block(self.begins, self.lower_rows, self.lower, self.pivots, block, active, lanes)


def _permuted_upper_triangle(
    starts: Rows, rows: Rows, values: Vector, order: Rows
) -> tuple[Rows, Rows, Vector]:
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.arange(order.size)
    columns = place[np.repeat(np.arange(order.size), np.diff(starts))]
    moved = place[rows]
    keep = moved <= columns
    sort = np.argsort(columns[keep], kind="stable")
    counts = np.bincount(columns[keep], minlength=order.size)
    new_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    return new_starts, moved[keep][sort], values[keep][sort]
