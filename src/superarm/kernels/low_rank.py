r"""A partial Cholesky factor of a kernel: few features that sum up the covariance of many arms.

Pivoted on the arm of greatest variance left, M features :math:`\varphi(a)` of every arm leave

.. math:: r(a) = k(a, a) - \varphi(a)^T \varphi(a) \ge 0

of its variance unexplained.
"""

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector
from superarm.kernels.base import Kernel

_NEGLIGIBLE_SHARE = 1e-13
"""Share of an arm's prior variance below which nothing is left to explain."""


def partial_cholesky(arms: Arms, kernel: Kernel, most: int) -> tuple[Matrix, Vector]:
    """Return features and the variances that they leave, pivoting on the largest one left.

    Args:
        arms: whose covariance is factored.
        kernel: the covariance.
        most: the largest number of features M; fewer, if fewer explain everything.

    Returns:
        The features, shape (M, n), and the variances left, shape (n,).
    """
    prior = kernel.diagonal(arms)
    left = prior.copy()
    features = np.empty((most, len(arms)))
    for number in range(most):
        candidates = np.where(left > _NEGLIGIBLE_SHARE * prior, left, -np.inf)
        pivot = int(np.argmax(candidates))
        if not np.isfinite(candidates[pivot]):
            return features[:number].copy(), np.maximum(left, 0.0)
        row = kernel.gram(arms.take([pivot]), arms)[0]
        row = row - features[:number, pivot] @ features[:number]
        features[number] = row / np.sqrt(left[pivot])
        left = np.maximum(left - features[number] ** 2, 0.0)
        left[pivot] = 0.0
    return features, left
