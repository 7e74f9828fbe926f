r"""Many symmetric systems side by side, by conjugate gradients.

For :math:`\Lambda = I + L^T A L` and a solution that is off by :math:`\delta`, with the residual
:math:`r = \Lambda \delta`, any sum h of arms is off by

.. math:: |h^T L \delta| = |h^T L \Lambda^{-1} r| \le \mathrm{std}(h^T f)\, e ,
          \qquad e^2 = r^T \Lambda^{-1} r = \delta^T \Lambda \delta ,

since :math:`h^T L \Lambda^{-1} L^T h` is the posterior variance of that sum. So an e of 0.01 is an
error of at most one per cent of a posterior deviation, whatever is asked. It is at most
:math:`\|r\|`, as :math:`\Lambda \ge I`, and far less where observations say much: the quadrature
of Gauss and Radau, with a node below all eigenvalues, bounds it from what conjugate gradients
compute anyway (Meurant and Tichy, 2013): with their step lengths :math:`\gamma_k` and
:math:`\delta_k = \|r_k\|^2 / \|r_{k-1}\|^2`,

.. math:: e_k^2 \le g_k \|r_k\|^2, \qquad g_0 = 1 / \mu, \qquad
          g_{k+1} = \frac{g_k - \gamma_k}{\mu (g_k - \gamma_k) + \delta_{k+1}} .
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

NODE = 0.9
"""Mu: below all eigenvalues, which are at least one; by so much that rounding does no harm."""


class Solved(NamedTuple):
    """Solutions, and what became of them.

    Attributes:
        solution: of every system, shape (p, s).
        residual: what is left, likewise.
        largest: the largest bound of an error, in posterior deviations.
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


class Approached(NamedTuple):
    """What conjugate gradients come to.

    Attributes:
        solution: of every system, shape (p, s).
        norms: of what is left, shape (s,).
        bounds: of errors, in the norm of the matrix, shape (s,).
        iterations: how many it took.
    """

    solution: Matrix
    norms: Vector
    bounds: Vector
    iterations: int


def conjugate_gradients(
    times: Operator, right: Matrix, tolerance: float, least: Vector, dots: Products = dots_of
) -> Approached:
    """Solve for many right-hand sides, each by itself.

    Args:
        times: the matrix times columns; no eigenvalue is below one.
        right: the right-hand sides, shape (p, s), of either precision; solutions begin at zero.
        tolerance: the largest error, in the norm of the matrix.
        least: norms of residuals below which nothing is asked for, shape (s,).
        dots: the inner products of columns in which the matrix is symmetric.
    """
    solution = np.zeros_like(right)
    norms = norms_of(right, dots)
    bounds = norms.copy()
    busy = np.flatnonzero(~(norms <= np.maximum(least, tolerance)))
    left = right[:, busy]
    ahead, gain = left.copy(), norms[busy] ** 2
    radau, iterations = np.full(busy.size, 1 / NODE), 0
    while busy.size:
        if iterations >= MOST_ITERATIONS or not np.isfinite(gain).all():
            asked = max(tolerance, float(least.min()))
            msg = (
                f"after {iterations} steps a residual of {norms.max():.2g} is left where "
                f"{asked:.2g} was asked for; raise tolerance, most_features, or noise "
                "variances that are tiny"
            )
            raise NumericalError(msg)
        pushed = times(ahead)
        step = gain / dots(ahead, pushed)
        rate = step.astype(right.dtype)
        pushed *= rate
        left -= pushed
        np.multiply(ahead, rate, out=pushed)
        if busy.size == right.shape[1]:
            solution += pushed
        else:
            solution[:, busy] += pushed
        iterations += 1
        now = norms_of(left, dots)
        fresh = now**2
        ratio = fresh / gain
        radau = _radau(radau - step, ratio)
        bound = np.minimum(np.sqrt(radau * fresh), now)
        norms[busy], bounds[busy] = now, bound
        go_on = ~((now <= least[busy]) | (bound <= tolerance))  # nan goes on, and fails
        ahead *= ratio.astype(right.dtype)
        ahead += left
        gain = fresh
        if not go_on.all():
            busy, left, ahead = busy[go_on], left[:, go_on], ahead[:, go_on]
            gain, radau = gain[go_on], radau[go_on]
    return Approached(solution, norms, bounds, iterations)


def _radau(gap: Vector, ratio: Vector) -> Vector:
    """Return g after one more step; where rounding leaves no gap nothing is known."""
    known = gap > 0
    gap = np.where(known, gap, 1.0)
    return np.where(known, gap / (NODE * gap + ratio), 1 / NODE)


def stalled(largest: float, tolerance: float) -> NumericalError:
    """Return the error that says that a residual gets no smaller."""
    return NumericalError(
        f"a residual of {largest:.2g} is left where {tolerance:.2g} was asked for: "
        "rounding allows no better; raise tolerance, or noise variances that are tiny"
    )
