r"""What linear observations say about a finite universe of arms, summed up.

An observation is a sum of arms with noise, :math:`y_i = h_i^T f + \varepsilon_i`,
:math:`\varepsilon_i \sim N(0, R_i)`: one arm, a stretch of them, or all that a super arm earned.
Of any number of them only

.. math:: A = \sum_i h_i h_i^T / R_i, \qquad w = \sum_i h_i y_i / R_i

matter (n x n, sparse, and n numbers). Evidence adds up in any order, so that histories can be read
in batches, merged, and thrown away without changing what follows from them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from superarm.arrays import Rows, Vector, as_positions, as_rows, as_vector, frozen, require_positive
from superarm.values import assembled


@dataclass(frozen=True, eq=False)
class Evidence:
    """The sums A (`precision`, shape (n, n)) and w (`weighted`, shape (n,)) of some observations.

    >>> noise = np.ones(3)
    >>> seen = Evidence.of_sums([0, 1, 2], [0, 1, 3], [5.0, 8.0], noise)  # arm 0; arms 1 + 2
    >>> seen.precision.toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    >>> seen.weighted.tolist()
    [5.0, 4.0, 4.0]
    """

    precision: csr_array
    weighted: Vector

    @classmethod
    def nothing(cls, n_arms: int) -> "Evidence":
        """Return what is known before the first observation."""
        return cls(csr_array((n_arms, n_arms)), frozen(np.zeros(n_arms)))

    @classmethod
    def of_rewards(cls, places: ArrayLike, rewards: ArrayLike, noise: Vector) -> "Evidence":
        """Sum up one reward per arm; `noise` holds the noise variance of every arm."""
        rows = as_positions("places", places, noise.size)
        return cls.of_sums(rows, np.arange(rows.size + 1), rewards, noise)

    @classmethod
    def of_sums(
        cls, places: ArrayLike, starts: ArrayLike, totals: ArrayLike, noise: Vector
    ) -> "Evidence":
        """Sum up totals of arms, whose noises add up as their rewards do.

        Args:
            places: the arms of all sums, one sum after the other; an arm may occur in many, and
                twice in one (played twice).
            starts: where the arms of each sum begin, shape (m + 1,); no sum is empty.
            totals: what was measured, shape (m,).
            noise: the noise variance of one reward of every arm, shape (n,).
        """
        rows = as_positions("places", places, noise.size)
        begin = _checked_starts(starts, rows.size)
        values = as_vector("totals", totals, begin.size - 1)
        require_positive("noise", noise)
        if values.size == 0:
            return cls.nothing(noise.size)
        weights = 1 / np.add.reduceat(noise[rows], begin[:-1])
        shape = (values.size, noise.size)
        which = csr_array((np.ones(rows.size), rows.copy(), begin.copy()), shape=shape)
        which.sum_duplicates()
        scaled = csr_array(
            (which.data * np.repeat(weights, np.diff(which.indptr)), which.indices, which.indptr),
            shape=shape,
        )
        return cls(csr_array(scaled.T @ which), frozen(np.asarray(scaled.T @ values)))

    def __add__(self, other: "Evidence") -> "Evidence":
        """Return what both say together."""
        return Evidence(
            csr_array(self.precision + other.precision), frozen(self.weighted + other.weighted)
        )

    def require_size(self, n_arms: int) -> None:
        """Refuse evidence about another number of arms."""
        if self.weighted.size != n_arms:
            msg = f"this evidence is about {self.weighted.size} arms, the belief about {n_arms}"
            raise ValueError(msg)

    def stored(self) -> dict[str, object]:
        """Return plain arrays."""
        matrix = self.precision
        return {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "weighted": self.weighted,
        }

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "Evidence":
        """Return the evidence from plain arrays."""
        size = parts["weighted"].size
        matrix = csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(size, size))
        return assembled(cls, precision=matrix, weighted=frozen(parts["weighted"]))


def _checked_starts(starts: ArrayLike, size: int) -> Rows:
    begin = as_rows("starts", starts)
    if begin.size == 0 or begin[0] != 0 or begin[-1] != size or (np.diff(begin) < 1).any():
        msg = (
            f"starts must rise from 0 to the number of arms, {size}, and no sum may be empty; "
            f"got {begin.tolist()[:8]}"
        )
        raise ValueError(msg)
    return begin
