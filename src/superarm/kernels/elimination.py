"""The compiled loops behind `superarm.kernels.sparse_ldl`, on compressed columns.

Every number of a factorisation may be a polynomial cut off after some terms.
"""

from typing import TypeAlias

import numpy as np

from superarm.arrays import Mask, Matrix, Rows, Vector
from superarm.compiling import compiled

Terms: TypeAlias = tuple[int, ...]
"""As long as a polynomial has terms: a type of its own for each length, so that loops unroll."""


@compiled
def _subtract_product(  # noqa: PLR0913, PLR0917 - entries of three arrays
    total: Matrix, i: int, left: Matrix, j: int, right: Matrix, k: int, terms: Terms
) -> None:
    """Subtract from one cut-off polynomial the product of two others."""
    for a in range(len(terms)):
        for b in range(len(terms) - a):
            total[i, a + b] -= left[j, a] * right[k, b]


@compiled
def _divide(  # noqa: PLR0913, PLR0917 - entries of three arrays
    out: Matrix, i: int, left: Matrix, j: int, right: Matrix, k: int, terms: Terms
) -> None:
    """Write the quotient of two cut-off polynomials."""
    for a in range(len(terms)):
        value = left[j, a]
        for b in range(1, a + 1):
            value -= right[k, b] * out[i, a - b]
        out[i, a] = value / right[k, 0]


@compiled
def eliminate(starts: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """Return the elimination tree and where the columns of L begin.

    The matrix is given by the columns of its upper triangle.
    """
    n = starts.size - 1
    parent = np.full(n, -1, np.intp)
    seen = np.full(n, -1, np.intp)
    counts = np.zeros(n + 1, np.intp)
    for column in range(n):
        seen[column] = column
        for place in range(starts[column], starts[column + 1]):
            row = rows[place]
            while row < column and seen[row] != column:
                if parent[row] == -1:
                    parent[row] = column
                counts[row + 1] += 1
                seen[row] = column
                row = parent[row]
    return parent, np.cumsum(counts)


@compiled
def postorder(parent: Rows) -> Rows:
    """Return the nodes of a forest with every subtree in one piece, children first."""
    n = parent.size
    first = np.full(n, -1, np.intp)
    following = np.full(n, -1, np.intp)
    for node in range(n - 1, -1, -1):
        if parent[node] >= 0:
            following[node] = first[parent[node]]
            first[parent[node]] = node
    order = np.empty(n, np.intp)
    stack = np.empty(n, np.intp)
    count = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        stack[0], size = root, 1
        while size > 0:
            node = stack[size - 1]
            child = first[node]
            if child >= 0:
                first[node] = following[child]
                stack[size] = child
                size += 1
            else:
                order[count] = node
                count += 1
                size -= 1
    return order


@compiled
def factorise(  # noqa: PLR0913, PLR0917 - a sparse matrix and its plan
    starts: Rows, rows: Rows, values: Vector, parent: Rows, begins: Rows, terms: Terms
) -> tuple[Rows, Matrix, Matrix]:
    """Return row numbers and values of L by columns, and D; all values are polynomials."""
    n = starts.size - 1
    lower_rows = np.empty(begins[n], np.intp)
    lower = np.empty((begins[n], len(terms)))
    pivots = np.zeros((n, len(terms)))
    ends = begins[:n].copy()
    work = np.zeros((n, len(terms)))
    seen = np.full(n, -1, np.intp)
    path = np.empty(n, np.intp)
    stack = np.empty(n, np.intp)
    value = np.empty((1, len(terms)))
    for column in range(n):
        top = n
        seen[column] = column
        for place in range(starts[column], starts[column + 1]):
            row = rows[place]
            work[row, 0] += values[place]
            length = 0
            while seen[row] != column:
                path[length] = row
                length += 1
                seen[row] = column
                row = parent[row]
            while length > 0:  # ancestors behind descendants
                length -= 1
                top -= 1
                stack[top] = path[length]
        for a in range(len(terms)):
            pivots[column, a] = work[column, a]
            work[column, a] = 0.0
        if len(terms) > 1:
            pivots[column, 1] += 1.0  # the c of M + c I
        for position in range(top, n):
            row = stack[position]
            for a in range(len(terms)):
                value[0, a] = work[row, a]
                work[row, a] = 0.0
            for place in range(begins[row], ends[row]):
                _subtract_product(work, lower_rows[place], lower, place, value, 0, terms)
            new = ends[row]
            _divide(lower, new, value, 0, pivots, row, terms)
            _subtract_product(pivots, column, lower, new, value, 0, terms)
            lower_rows[new] = column
            ends[row] += 1
    return lower_rows, lower, pivots


@compiled
def inverse_diagonal(
    begins: Rows, lower_rows: Rows, lower: Matrix, pivots: Matrix, terms: Terms
) -> Matrix:
    """Run Takahashi's recursion and return the diagonal, as polynomials."""
    n = pivots.shape[0]
    inverse = np.zeros((begins[n], len(terms)))
    diagonal = np.zeros((n, len(terms)))
    place_of = np.full(n, -1, np.intp)
    one = np.zeros((1, len(terms)))
    one[0, 0] = 1.0
    for column in range(n - 1, -1, -1):
        begin, end = begins[column], begins[column + 1]
        for place in range(begin, end):
            place_of[lower_rows[place]] = place
        for place in range(begin, end):
            row = lower_rows[place]
            _subtract_product(inverse, place, diagonal, row, lower, place, terms)
            for other in range(begins[row], begins[row + 1]):
                partner = place_of[lower_rows[other]]
                if partner >= 0:
                    _subtract_product(inverse, partner, inverse, other, lower, place, terms)
                    _subtract_product(inverse, place, inverse, other, lower, partner, terms)
        _divide(diagonal, column, one, 0, pivots, column, terms)
        for place in range(begin, end):
            _subtract_product(diagonal, column, lower, place, inverse, place, terms)
            place_of[lower_rows[place]] = -1
    return diagonal


@compiled
def solve_block(  # noqa: PLR0913, PLR0917 - a factor and what to solve
    begins: Rows,
    lower_rows: Rows,
    lower: Vector,
    pivots: Vector,
    block: Matrix,
    active: Mask,
    lanes: Terms,
) -> None:
    """Overwrite the block (n, lanes) by the solution; only active rows are not zero at first."""
    n = pivots.size
    for column in range(n):
        if not active[column]:
            continue
        for place in range(begins[column], begins[column + 1]):
            row = lower_rows[place]
            active[row] = True
            for k in range(len(lanes)):
                block[row, k] -= lower[place] * block[column, k]
    for column in range(n - 1, -1, -1):
        for k in range(len(lanes)):
            block[column, k] /= pivots[column]
        for place in range(begins[column], begins[column + 1]):
            row = lower_rows[place]
            for k in range(len(lanes)):
                block[column, k] -= lower[place] * block[row, k]


@compiled
def solve_transposed(begins: Rows, lower_rows: Rows, lower: Vector, values: Vector) -> None:
    """Overwrite a vector by the solution of L^T x = values."""
    for column in range(values.size - 1, -1, -1):
        for place in range(begins[column], begins[column + 1]):
            values[column] -= lower[place] * values[lower_rows[place]]
