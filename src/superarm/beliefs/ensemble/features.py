"""Features that some arms span: a kernel of low rank, and what it leaves of the variances."""

from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.rows import tiles
from superarm.gaussian import cholesky_with_jitter
from superarm.kernels import Kernel
from superarm.threads import in_blocks

SINGLE_BEYOND = 20_000_000
"""From so many numbers on, features are kept in single precision: seven digits of the prior."""

FIRST_SAMPLE = 4_000
"""Pivots are looked for among so many arms first."""

_CHECKED = 2_000  # arms by which a choice of pivots is judged before all arms are

_ENOUGH = 1e-13  # share of the variance below which nothing is left to explain


def spanned(
    kernel: Kernel, arms: Arms, share: float, most: int, *, exactly: bool = False
) -> tuple[Matrix, Vector, float]:
    """Return features, what they leave of the variances, and which share of all that is.

    Pivots are chosen among a sample, which grows until they explain the others as well, or there
    are as many as may be. What is to be subtracted from the kernel is kept exactly.
    """
    n_arms, variance = len(arms), kernel.diagonal(arms)
    size = min(FIRST_SAMPLE, n_arms)
    while True:
        sample = np.linspace(0, n_arms - 1, size).astype(np.intp)
        chosen = sample[pivots(kernel, arms.take(sample), share / 2, most)]
        growing = size < n_arms and 0 < chosen.size < most
        if growing and _too_little(kernel, arms, chosen, share):  # others first: all take long
            size = min(4 * size, n_arms)
            continue
        precision = np.float64 if exactly else precision_of(arms, chosen.size)
        features, left = features_of(kernel, arms, chosen, variance, precision)
        whole = float(variance.sum())
        missing = float(left.sum()) / whole if whole > 0 else 0.0
        if missing <= share or chosen.size >= min(most, n_arms) or size == n_arms:
            return features, left, missing
        size = min(4 * size, n_arms)


def _too_little(kernel: Kernel, arms: Arms, chosen: Rows, share: float) -> bool:
    """Say whether features leave more than a share of the variance of some other arms."""
    others = arms.take(np.arange(len(arms) // (2 * _CHECKED), len(arms), len(arms) // _CHECKED + 1))
    few, variance = arms.take(chosen), kernel.diagonal(others)
    lower = cholesky_with_jitter(kernel.gram(few, few))
    found = solve_triangular(lower, kernel.gram(few, others), lower=True, check_finite=False)
    left = np.maximum(variance - np.einsum("ij,ij->j", found, found), 0.0)
    return float(left.sum()) > share * float(variance.sum())


def pivots(kernel: Kernel, arms: Arms, share: float, most: int) -> Rows:
    """Return arms that explain the others but for a share, each of greatest variance left."""
    variance = kernel.diagonal(arms)
    left, limit = variance.copy(), share * variance.sum()
    most = min(most, len(arms))
    features, chosen = np.empty((most, len(arms))), np.empty(most, dtype=np.intp)
    for number in range(most):
        pivot = int(np.argmax(left))
        if left.sum() <= limit or left[pivot] <= _ENOUGH * variance[pivot]:
            return chosen[:number]
        row = (
            kernel.gram(arms.take([pivot]), arms)[0] - features[:number, pivot] @ features[:number]
        )
        features[number] = row / np.sqrt(left[pivot])
        left = np.maximum(left - features[number] ** 2, 0.0)
        left[pivot], chosen[number] = 0.0, pivot
    return chosen


def features_of(
    kernel: Kernel, arms: Arms, chosen: Rows, variance: Vector, precision: type[np.floating[Any]]
) -> tuple[Matrix, Vector]:
    """Return the features that some arms span, shape (n, R), and what they leave of variances."""
    few = arms.take(chosen)
    lower = cholesky_with_jitter(kernel.gram(few, few))
    features = cast("Matrix", np.empty((len(arms), chosen.size), precision))
    left, parts = variance.copy(), list(tiles(len(arms)))
    if not chosen.size:  # which not every LAPACK solves for
        return features, left

    def work(number: int, _: int) -> None:
        part = parts[number]
        some = arms.take(np.arange(part.start, part.stop))
        found = solve_triangular(lower, kernel.gram(few, some), lower=True, check_finite=False)
        left[part] -= np.einsum("ij,ij->j", found, found)
        features[part] = found.T

    in_blocks(len(parts), work, (1,))
    np.maximum(left, 0.0, out=left)
    left[chosen] = 0.0
    return features, left


def precision_of(arms: Arms, rank: int) -> type[np.floating[Any]]:
    """Return the precision in which so many features of these arms are kept."""
    return np.float64 if rank * len(arms) <= SINGLE_BEYOND else np.float32
