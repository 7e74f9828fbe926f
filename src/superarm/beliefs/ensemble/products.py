r"""What sums of arms say, applied to many columns at once: :math:`A X = W^T (I - V^T V) W X`.

One pass over the observations: the arms of a group of rows that share an error are gathered, their
sums corrected for what is shared, and spread again while they are still in the cache.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from superarm.arrays import Matrix, Rows, Vector
from superarm.compiling import compiled_in_any_order

Columns: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.floating[Any]]]
"""Numbers of either precision, one column per system."""

Places: TypeAlias = NDArray[np.int32]


@compiled_in_any_order
def row_products(
    starts: Rows, places: Places, weights: Vector, columns: Columns, sums: Columns
) -> None:
    """Write sparse rows times columns of either precision, in that of the sums."""
    width = columns.shape[1]
    for row in range(starts.size - 1):
        for j in range(width):
            sums[row, j] = 0.0
        for entry in range(starts[row], starts[row + 1]):
            place, weight = places[entry], weights[entry]
            for j in range(width):
                sums[row, j] += weight * columns[place, j]


@compiled_in_any_order
def add_rows(rows: Columns, values: Matrix, first: int, last: int, total: Matrix) -> None:
    """Add the transposed rows from `first` up to `last` times their values, in double precision.

    Args:
        rows: of either precision, shape (n, R).
        values: shape (n, s).
        first: row.
        last: row.
        total: shape (s, R).
    """
    for row in range(first, last):
        for column in range(values.shape[1]):
            value = values[row, column]
            if value != 0.0:
                for j in range(rows.shape[1]):
                    total[column, j] += value * rows[row, j]


@compiled_in_any_order
def write_rows(rows: Columns, values: Matrix, first: int, last: int, found: Matrix) -> None:
    """Write the rows from `first` up to `last` times columns, in double precision.

    Args:
        rows: of either precision, shape (n, R).
        values: the columns one after the other, shape (s, R).
        first: row.
        last: row.
        found: shape (n, s).
    """
    for row in range(first, last):
        for column in range(values.shape[0]):
            total = 0.0
            for j in range(rows.shape[1]):
                total += rows[row, j] * values[column, j]
            found[row, column] = total


@compiled_in_any_order
def spread_products(  # noqa: C901, PLR0912, PLR0913, PLR0917 - rows, groups of them, and columns
    starts: Rows,
    places: Places,
    weights: Vector,
    groups: Rows,
    shares: Vector,
    first: int,
    last: int,
    columns: Columns,
    total: Columns,
) -> None:
    """Add what the groups from `first` up to `last` say of columns to a total."""
    width, largest = columns.shape[1], 1
    for group in range(first, last):
        largest = max(largest, groups[group + 1] - groups[group])
    sums = np.empty((largest, width), columns.dtype)
    common = np.empty(width, columns.dtype)
    for group in range(first, last):
        begin, end, shared = groups[group], groups[group + 1], False
        for row in range(begin, end):
            mine = row - begin
            for j in range(width):
                sums[mine, j] = 0.0
            for entry in range(starts[row], starts[row + 1]):
                place, weight = places[entry], columns.dtype.type(weights[entry])
                for j in range(width):
                    sums[mine, j] += weight * columns[place, j]
            shared = shared or shares[row] != 0.0
        if shared:
            for j in range(width):
                common[j] = 0.0
            for row in range(begin, end):
                mine, share = row - begin, columns.dtype.type(shares[row])
                for j in range(width):
                    common[j] += share * sums[mine, j]
            for row in range(begin, end):
                mine, share = row - begin, columns.dtype.type(shares[row])
                for j in range(width):
                    sums[mine, j] -= share * common[j]
        for row in range(begin, end):
            mine = row - begin
            for entry in range(starts[row], starts[row + 1]):
                place, weight = places[entry], columns.dtype.type(weights[entry])
                for j in range(width):
                    total[place, j] += weight * sums[mine, j]
