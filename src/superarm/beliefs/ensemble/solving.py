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
from superarm.errors import NumericalError

Operator = Callable[[Matrix], Matrix]

MOST_ITERATIONS = 2_000


class Solved(NamedTuple):
    """Solutions, what is left of the residuals, the largest norm of them, and the iterations."""

    solution: Matrix
    residual: Matrix
    largest: float
    iterations: int


def conjugate_gradients(times: Operator, right: Matrix, tolerance: Vector) -> Solved:
    """Solve for many right-hand sides, each by itself.

    Args:
        times: the matrix times columns.
        right: the right-hand sides, shape (p, s); solutions begin at zero.
        tolerance: the largest norm of each residual, shape (s,).
    """
    solution, left = np.zeros(right.shape), right.copy()
    norms = norms_of(left)
    busy = np.flatnonzero(norms > tolerance)
    step = left[:, busy]
    ahead, gain = step.copy(), norms[busy] ** 2
    iterations = 0
    while busy.size:
        if iterations >= MOST_ITERATIONS or not np.isfinite(gain).all():
            msg = (
                f"after {iterations} steps a residual of {norms.max():.2g} is left where "
                f"{tolerance.min():.2g} was asked for; raise tolerance, or noise variances that "
                "are tiny"
            )
            raise NumericalError(msg)
        pushed = times(ahead)
        rate = gain / _dots(ahead, pushed)
        solution[:, busy] += rate * ahead
        step -= rate * pushed
        left[:, busy], norms[busy] = step, norms_of(step)
        iterations += 1
        fresh, go_on = norms[busy] ** 2, norms[busy] > tolerance[busy]
        ahead = step + (fresh / gain) * ahead
        if not go_on.all():
            busy, step, ahead, fresh = busy[go_on], step[:, go_on], ahead[:, go_on], fresh[go_on]
        gain = fresh
    return Solved(solution, left, float(norms.max(initial=0.0)), iterations)


def _dots(left: Matrix, right: Matrix) -> Vector:
    found: Vector = np.einsum("ij,ij->j", left, right)
    return found


def norms_of(columns: Matrix) -> Vector:
    """Return the lengths of columns."""
    found: Vector = np.sqrt(_dots(columns, columns))
    return found
