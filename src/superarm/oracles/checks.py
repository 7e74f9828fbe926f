"""Checks that all feasible sets and oracles share."""

from collections.abc import Iterator
from itertools import combinations
from typing import Protocol

import numpy as np

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector


class Sized(Protocol):
    """A feasible set that knows the number of rows it speaks of."""

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        ...


def require_fit(feasible: Sized, indices: Vector) -> None:
    """Raise unless there is one index per row of the feasible set."""
    if indices.shape != (feasible.n_arms,):
        msg = (
            f"{type(feasible).__name__} speaks of {feasible.n_arms} arms, "
            f"but there are indices of shape {indices.shape}"
        )
        raise ValueError(msg)


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
