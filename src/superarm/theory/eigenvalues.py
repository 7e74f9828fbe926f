r"""The constant :math:`\lambda_K^*`: the largest eigenvalue a super arm's covariance can have.

It is a supremum over all posterior covariances of at most K arms. Posterior covariances are below
prior ones in the positive semi-definite order, and no rewards at all is a history too, so that the
prior alone matters: :math:`\lambda_K^* = \max_{|S| \le K} \lambda_{\max}(K_{SS})`, and
eigenvalues of principal submatrices grow with the set, so :math:`|S| = K` suffices.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from superarm.theory.information import checked_gram

MOST_SUBSETS = 200_000
"""Up to this many subsets are looked at one by one, if their matrices are small."""

MOST_WORK = 1e9
"""And up to this many operations: subsets times the cube of their size."""

_CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class EigenvalueBound:
    r"""A number that :math:`\lambda_K^*` does not exceed, and where it comes from.

    Attributes:
        value: the bound.
        how: ``"enumeration"`` (then it is exact), ``"largest eigenvalue"`` of the whole Gram
            matrix, ``"row sums"`` of the K largest entries of a row, or ``"trace"``,
            :math:`K \max_a k(a, a)`.
    """

    value: float
    how: Literal["enumeration", "largest eigenvalue", "row sums", "trace"]

    @property
    def exact(self) -> bool:
        """Whether it is the supremum itself."""
        return self.how == "enumeration"


def largest_eigenvalue_bound(gram: ArrayLike, super_arm_size: int) -> EigenvalueBound:
    r"""Bound :math:`\lambda_K^*` for arms with this prior covariance.

    Small problems are enumerated. Otherwise it is the least of the largest eigenvalue of the Gram
    matrix, :math:`K \max_a k(a, a)`, and by Gershgorin's circles the largest sum of the K largest
    absolute entries of a row that include the diagonal.

    Args:
        gram: prior covariance of all n arms, shape (n, n).
        super_arm_size: K, at most n.
    """
    matrix = checked_gram(gram)
    size = matrix.shape[0]
    if not 1 <= super_arm_size <= size:
        msg = f"super_arm_size must lie between 1 and the {size} arms, got {super_arm_size}"
        raise ValueError(msg)
    subsets = math.comb(size, super_arm_size)
    if subsets <= MOST_SUBSETS and subsets * super_arm_size**3 <= MOST_WORK:
        return EigenvalueBound(_enumerated(matrix, super_arm_size), "enumeration")
    beside = np.abs(matrix)
    np.fill_diagonal(beside, 0.0)
    largest = -np.partition(-beside, super_arm_size - 1, axis=1)[:, : super_arm_size - 1]
    found: list[EigenvalueBound] = [
        EigenvalueBound(float(np.linalg.eigvalsh(matrix)[-1]), "largest eigenvalue"),
        EigenvalueBound(float((matrix.diagonal() + largest.sum(axis=1)).max()), "row sums"),
        EigenvalueBound(super_arm_size * float(matrix.diagonal().max()), "trace"),
    ]
    return min(found, key=lambda bound: bound.value)


def _enumerated(matrix: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", size: int) -> float:
    best = 0.0
    subsets = itertools.combinations(range(matrix.shape[0]), size)
    most = max(1, _CHUNK_BYTES // (8 * size**2))
    while chunk := list(itertools.islice(subsets, most)):
        rows = np.array(chunk)
        blocks = matrix[rows[:, :, None], rows[:, None, :]]
        best = max(best, float(np.linalg.eigvalsh(blocks)[:, -1].max()))
    return best
