"""Checks that all feasible sets and oracles share."""

import operator
from collections.abc import Iterator
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector, as_vector


class Sized(Protocol):
    """A feasible set that knows the number of rows it speaks of."""

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        ...


def fitting(feasible: Sized, indices: ArrayLike) -> Vector:
    """Return the indices as a vector: finite, one per row of the feasible set."""
    weights = as_vector("indices", indices)
    if weights.size != feasible.n_arms:
        msg = (
            f"{type(feasible).__name__} speaks of {feasible.n_arms} arms, "
            f"but there are {weights.size} indices"
        )
        raise ValueError(msg)
    return weights


def as_size(name: str, value: int) -> int:
    """Return a whole number, or say that it is none."""
    try:
        return operator.index(value)
    except TypeError as error:
        msg = f"{name} must be a whole number, got {value!r}"
        raise ValueError(msg) from error


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
