"""Choose k arms, or at most k: the top of the list."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector, as_count
from superarm.errors import InfeasibleError
from superarm.oracles.checks import (
    by_descending_index,
    distinct_rows,
    fitting,
    subsets,
)


@dataclass(frozen=True)
class Subsets:
    """All sets of exactly k of the round's n rows."""

    n_arms: int
    k: int

    def __post_init__(self) -> None:
        """Refuse sizes that no set has."""
        as_count("n_arms", self.n_arms)
        if as_count("k", self.k) < 1:
            msg = f"k must be at least 1, got {self.k}"
            raise ValueError(msg)
        if self.k > self.n_arms:
            msg = (
                f"{self.k} arms must be chosen but the round offers {self.n_arms}; "
                "offer more arms or use SubsetsUpTo"
            )
            raise InfeasibleError(msg)

    @property
    def max_size(self) -> int:
        """K = k."""
        return self.k

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether it is k distinct rows."""
        return super_arm.size == self.k and distinct_rows(super_arm, self.n_arms)

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every set."""
        return (rows for rows in subsets(self.n_arms, self.k) if rows.size == self.k)

    def take(self, rows: Rows) -> "Subsets":
        """Return the sets of k of these rows only."""
        return Subsets(rows.size, self.k)


@dataclass(frozen=True)
class SubsetsUpTo:
    """All sets of at most k of the round's n rows, the empty one included."""

    n_arms: int
    k: int

    def __post_init__(self) -> None:
        """Refuse sizes that no set has."""
        as_count("n_arms", self.n_arms)
        if as_count("k", self.k) < 1:
            msg = f"k must be at least 1, got {self.k}"
            raise ValueError(msg)

    @property
    def max_size(self) -> int:
        """K = min(k, n)."""
        return min(self.k, self.n_arms)

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether it is at most k distinct rows."""
        return super_arm.size <= self.k and distinct_rows(super_arm, self.n_arms)

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every set."""
        return subsets(self.n_arms, self.max_size)

    def take(self, rows: Rows) -> "SubsetsUpTo":
        """Return the sets of at most k of these rows only."""
        return SubsetsUpTo(rows.size, self.k)


@dataclass(frozen=True)
class TopK:
    """Take the k greatest indices; of "at most k" only the positive ones. Exact, O(n + k log k)."""

    def select(self, feasible: Subsets | SubsetsUpTo, indices: Vector) -> SuperArm:
        """Return the rows, greatest index first; ties go to the lower position."""
        indices = fitting(self, feasible, indices, Subsets, SubsetsUpTo)
        best = _greatest(indices, feasible.max_size)
        return best if isinstance(feasible, Subsets) else best[indices[best] > 0]


def _greatest(indices: Vector, k: int) -> Rows:
    if k >= indices.size:
        return by_descending_index(np.arange(indices.size), indices)
    threshold = np.partition(indices, indices.size - k)[indices.size - k]
    above = np.flatnonzero(indices > threshold)
    level = np.flatnonzero(indices == threshold)[: k - above.size]
    return by_descending_index(np.sort(np.concatenate([above, level])), indices)
