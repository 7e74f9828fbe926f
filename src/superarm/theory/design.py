r"""A certified upper bound on the maximal information gain, by a relaxed design.

Allow every arm a fractional number of rewards :math:`w_a \ge 0, \sum_a w_a = T`:

.. math:: g(w) = \tfrac12 \log\det(I + W^{1/2} K W^{1/2}), \qquad W = \mathrm{diag}(w / \varsigma^2)

is concave (a Bayesian D-optimal design), and :math:`\partial g / \partial w_a =
\sigma_w^2(a) / 2\varsigma_a^2` with :math:`\sigma_w^2` the posterior variance under these weights.
A concave function lies below its tangents, so for *any* w

.. math:: \gamma_T \le \max g \le g(w) + T \max_a \frac{\partial g}{\partial w_a}
          - \sum_a w_a \frac{\partial g}{\partial w_a} .

The difference to g(w) is the duality gap; weights are improved until it is small.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular

from superarm.arrays import Matrix, Vector
from superarm.theory.information import checked_gram, greedy_information_gain, noise_of

TOLERANCE = 0.01
"""How small the gap must be, relative to the bound, for the search to stop."""

MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class GainBounds:
    r"""What is certain about :math:`\gamma_T`.

    Attributes:
        lower: the gain of actual (greedy) picks.
        upper: the dual bound of a fractional design.
        design: its weights, shape (n,), which sum to T.
    """

    lower: float
    upper: float
    design: Vector

    @property
    def gap(self) -> float:
        """How far apart the bounds are."""
        return self.upper - self.lower


def information_gain_bounds(
    gram: ArrayLike,
    noise_variance: ArrayLike,
    picks: int,
    *,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
) -> GainBounds:
    """Enclose the maximal information gain of T rewards.

    Args:
        gram: prior covariance of all n arms, shape (n, n).
        noise_variance: one number, or one per arm.
        picks: T.
        tolerance: stop when the relative duality gap of the design is below this.
        most_steps: or after so many steps; the bound is valid whenever it stops.
    """
    matrix = checked_gram(gram)
    noise = noise_of(noise_variance, matrix.shape[0])
    greedy = greedy_information_gain(matrix, noise, picks)
    if picks == 0:
        return GainBounds(0.0, 0.0, np.zeros(matrix.shape[0]))
    scaled = matrix / np.sqrt(np.outer(noise, noise))
    # start at the greedy picks, with a little everywhere so that no weight is stuck at zero
    weights: Vector = 0.9 * greedy.counts.astype(np.float64) + 0.1 * picks / matrix.shape[0]
    best, upper = weights, greedy.upper
    for _ in range(most_steps):
        value, slope = _value_and_slope(scaled, weights)
        dual = value + picks * float(slope.max()) - float(weights @ slope)
        if dual < upper:
            best, upper = weights, dual
        if dual - value <= tolerance * dual:
            break
        weights = weights * slope
        weights *= picks / float(weights.sum())
    # where the greedy picks are the best design both bounds are one number, up to its rounding
    return GainBounds(greedy.value, max(upper, greedy.value), best)


def _value_and_slope(scaled: Matrix, weights: Vector) -> tuple[float, Vector]:
    """Return g and its gradient; arms of no weight need no row in the factor."""
    used = np.flatnonzero(weights > 1e-12 * weights.max())
    root = np.sqrt(weights[used])
    inner = root[:, None] * scaled[np.ix_(used, used)] * root
    inner.flat[:: used.size + 1] += 1.0
    lower = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    half = solve_triangular(lower, root[:, None] * scaled[used], lower=True, check_finite=False)
    variance = scaled.diagonal() - np.einsum("ij,ij->j", half, half)
    return float(np.log(lower.diagonal()).sum()), 0.5 * np.maximum(variance, 0.0)
