r"""Many symmetric systems side by side, by conjugate gradients.

For :math:`\Lambda = I + L^T A L` a residual r bounds every error: with :math:`\delta` the error of
a solution, any sum h of arms is off by

.. math:: |h^T L \delta| = |h^T L \Lambda^{-1} r| \le \mathrm{std}(h^T f)\, \|r\| ,

since :math:`\Lambda \ge I` and :math:`h^T L \Lambda^{-1} L^T h` is the posterior variance of that
sum. So a residual of 0.01 is an error of at most one per cent of a posterior deviation, whatever is
asked.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from superarm.arrays import Matrix, Vector
from superarm.beliefs.rows import tiles
from superarm.errors import NumericalError

Operator = Callable[[Matrix], Matrix]
Products = Callable[[Matrix, Matrix], Vector]

MOST_ITERATIONS = 2_000


class Solved(NamedTuple):
    """Solutions, and what became of them.

    Attributes:
        solution: of every system, shape (p, s).
        residual: what is left, likewise.
        largest: the largest norm of a residual.
        iterations: how many it took.
        values: by how much the values of arms, L times solutions, have changed, shape (n, s).
    """

    solution: Matrix
    residual: Matrix
    largest: float
    iterations: int
    values: Matrix


def dots_of(left: Matrix, right: Matrix) -> Vector:
    """Return inner products of columns; single precision adds up a tile at most."""
    total = np.zeros(left.shape[1])
    for part in tiles(left.shape[0]):
        total += np.einsum("ij,ij->j", left[part], right[part])
    return total


def norms_of(columns: Matrix, dots: Products = dots_of) -> Vector:
    """Return the lengths of columns."""
    found: Vector = np.sqrt(np.maximum(dots(columns, columns), 0.0))
    return found


def conjugate_gradients(
    times: Operator, right: Matrix, tolerance: Vector, dots: Products = dots_of
) -> tuple[Matrix, int]:
    """Solve for many right-hand sides, each by itself; return solutions and iterations.

    Args:
        times: the matrix times columns.
        right: the right-hand sides, shape (p, s), of either precision; solutions begin at zero.
        tolerance: the largest norm of each residual, shape (s,).
        dots: the inner products of columns in which the matrix is symmetric.
    """
    solution = np.zeros_like(right)
    norms = norms_of(right, dots)
    busy = np.flatnonzero(~(norms <= tolerance))
    left = right[:, busy]
    ahead, gain = left.copy(), norms[busy] ** 2
    iterations = 0
    while busy.size:
        if iterations >= MOST_ITERATIONS or not np.isfinite(gain).all():
            msg = (
                f"after {iterations} steps a residual of {norms.max():.2g} is left where "
                f"{tolerance.min():.2g} was asked for; raise tolerance, most_features, or noise "
                "variances that are tiny"
            )
            raise NumericalError(msg)
        pushed = times(ahead)
        rate = (gain / dots(ahead, pushed)).astype(right.dtype)
        pushed *= rate
        left -= pushed
        np.multiply(ahead, rate, out=pushed)
        if busy.size == right.shape[1]:
            solution += pushed
        else:
            solution[:, busy] += pushed
        norms[busy] = norms_of(left, dots)
        iterations += 1
        fresh, go_on = norms[busy] ** 2, ~(norms[busy] <= tolerance[busy])  # nan goes on, and fails
        ahead *= (fresh / gain).astype(right.dtype)
        ahead += left
        if not go_on.all():
            busy, left, ahead, fresh = busy[go_on], left[:, go_on], ahead[:, go_on], fresh[go_on]
        gain = fresh
    return solution, iterations


def stalled(largest: float, tolerance: float) -> NumericalError:
    """Return the error that says that a residual gets no smaller."""
    return NumericalError(
        f"a residual of {largest:.2g} is left where {tolerance:.2g} was asked for: "
        "rounding allows no better; raise tolerance, or noise variances that are tiny"
    )
