"""Checks that all feasible sets and oracles share."""

from collections.abc import Iterator
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector, read_vector


class Sized(Protocol):
    """A feasible set that knows the number of rows it speaks of."""

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        ...


_ORACLES = {
    "Subsets": "TopK", "SubsetsUpTo": "TopK", "Paths": "Dijkstra", "Knapsacks": "Knapsack",
    "Matchings": "Hungarian", "Assignments": "Hungarian", "SpanningTrees": "Kruskal",
    "Choices": "ChoiceTable",
}  # fmt: skip


def fitting(oracle: object, feasible: Sized, indices: ArrayLike, *kinds: type) -> Vector:
    """Return the indices as a vector: finite, one per row of a feasible set of the right kind."""
    given = type(feasible).__name__
    if kinds and not isinstance(feasible, kinds):
        served = " and ".join(kind.__name__ for kind in kinds)
        advice = f"; use {_ORACLES[given]}" if given in _ORACLES else ""
        msg = f"{type(oracle).__name__} serves {served}, not {given}{advice}"
        raise TypeError(msg)
    size = np.size(indices)
    if size != feasible.n_arms:
        msg = f"{given} speaks of {feasible.n_arms} arms, but there are {size} indices"
        raise ValueError(msg)
    return read_vector("indices", indices, size)


def distinct_rows(super_arm: SuperArm, n_arms: int) -> bool:
    """Say whether the positions are distinct and inside the round."""
    inside = bool(((super_arm >= 0) & (super_arm < n_arms)).all())
    return inside and np.unique(super_arm).size == super_arm.size


def by_descending_index(rows: Rows, indices: Vector) -> Rows:
    """Order rows by index, the greatest first; ties by position."""
    return rows[np.argsort(-indices[rows], kind="stable")]


def subsets(n_arms: int, most: int) -> Iterator[SuperArm]:
    """Yield every subset of at most so many rows, in lexicographic order by size."""
    for size in range(most + 1):
        for rows in combinations(range(n_arms), size):
            yield np.array(rows, dtype=np.intp)
