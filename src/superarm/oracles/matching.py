"""Pair two sides: bipartite matchings, and assignments that cover the left side."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from superarm.arms import SuperArm
from superarm.arrays import Pairs, Rows, Vector, as_pairs
from superarm.errors import InfeasibleError
from superarm.oracles.checks import distinct_rows, fitting, subsets


@dataclass(frozen=True, eq=False, init=False)
class Matchings:
    """All sets of pairs in which no node occurs twice; row i is the pair pairs[i] = (left, right).

    The empty matching is one of them, so that pairs of negative index are never needed.
    """

    n_left: int
    n_right: int
    pairs: Pairs

    def __init__(self, n_left: int, n_right: int, pairs: ArrayLike) -> None:
        """Refuse pairs outside the nodes and repeated pairs."""
        checked = as_pairs("pairs", pairs, n_left, n_right)
        if np.unique(checked, axis=0).shape[0] != checked.shape[0]:
            msg = "pairs holds the same pair twice; every arm must be a pair of its own"
            raise ValueError(msg)
        object.__setattr__(self, "n_left", n_left)
        object.__setattr__(self, "n_right", n_right)
        object.__setattr__(self, "pairs", checked)

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        return int(self.pairs.shape[0])

    @property
    def max_size(self) -> int:
        """K, at most the smaller side."""
        return min(self.n_left, self.n_right, self.n_arms)

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether no node occurs twice."""
        if not distinct_rows(super_arm, self.n_arms):
            return False
        left, right = self.pairs[super_arm].T
        return bool(np.unique(left).size == left.size and np.unique(right).size == right.size)

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every matching."""
        return filter(self.contains, subsets(self.n_arms, self.max_size))

    def take(self, rows: Rows) -> "Matchings":
        """Return the matchings of these rows only."""
        return type(self)(self.n_left, self.n_right, self.pairs[rows])


@dataclass(frozen=True, eq=False, init=False)
class Assignments(Matchings):
    """The matchings that cover every node of the left side."""

    def __init__(self, n_left: int, n_right: int, pairs: ArrayLike) -> None:
        """Refuse pairs that admit no assignment."""
        super().__init__(n_left, n_right, pairs)
        if (missing := n_left - self._largest_matching()) > 0:
            msg = (
                f"no assignment covers all {n_left} left nodes, at least {missing} stay alone; "
                "offer more pairs or use Matchings"
            )
            raise InfeasibleError(msg)

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether it is a matching that covers the left side."""
        return super_arm.size == self.n_left and super().contains(super_arm)

    def _largest_matching(self) -> int:
        left, right = self.pairs.T.astype(np.int32)  # all that SciPy before 1.17.1 takes
        graph = csr_array(
            (np.ones(left.size, dtype=np.int8), (left, right)), shape=(self.n_left, self.n_right)
        )
        return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


@dataclass(frozen=True)
class Hungarian:
    """The best matching or assignment, exactly; n_left x n_right numbers in memory."""

    def select(self, feasible: Matchings, indices: Vector) -> SuperArm:
        """Return the rows, by left node."""
        indices = fitting(self, feasible, indices, Matchings)
        covering = isinstance(feasible, Assignments)
        # a matching may leave a node alone, which is worth nothing
        missing = -np.inf if covering else 0.0
        gain = np.full((feasible.n_left, feasible.n_right), missing)
        left, right = feasible.pairs.T
        gain[left, right] = indices if covering else np.maximum(indices, 0.0)
        chosen = _rows_of(feasible, *linear_sum_assignment(gain, maximize=True))
        return chosen if covering else chosen[indices[chosen] > 0]


def _rows_of(feasible: Matchings, left: Rows, right: Rows) -> Rows:
    row = np.full((feasible.n_left, feasible.n_right), -1, dtype=np.intp)
    row[feasible.pairs[:, 0], feasible.pairs[:, 1]] = np.arange(feasible.n_arms)
    found = row[left, right]
    return found[found >= 0]
