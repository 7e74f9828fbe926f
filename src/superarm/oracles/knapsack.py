"""Choose arms whose weights fit a budget: exactly, or greedily with a guarantee."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, milp

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector, as_vector
from superarm.errors import NumericalError
from superarm.oracles.checks import by_descending_index, distinct_rows, fitting, subsets

BUDGET_TOLERANCE = 1e-9
"""A set fits if it exceeds the budget by no more than this share of it (0.1 + 0.2 = 0.3)."""

TABLE_LIMIT = 200_000_000
"""Largest number of cells (items x budget) for which integer weights are solved by a table."""

_VALUE_SCALE = 1e3  # the solver stops at an absolute gap of 1e-6
_MOST_CUTS = 200


@dataclass(frozen=True, eq=False, init=False)
class Knapsacks:
    """All sets of rows whose weights sum to at most the budget; row i weighs weights[i]."""

    weights: Vector
    budget: float

    def __init__(self, weights: ArrayLike, budget: float) -> None:
        """Refuse negative weights and budgets."""
        checked = as_vector("weights", weights)
        if (checked < 0).any():
            msg = f"weights must not be negative, got {float(checked.min())}"
            raise ValueError(msg)
        if not (np.isfinite(budget) and budget >= 0):
            msg = f"budget must be finite and not negative, got {budget}"
            raise ValueError(msg)
        object.__setattr__(self, "weights", checked)
        object.__setattr__(self, "budget", float(budget))

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        return int(self.weights.size)

    @property
    def capacity(self) -> float:
        """The budget with its tolerance."""
        return self.budget * (1 + BUDGET_TOLERANCE)

    @property
    def max_size(self) -> int:
        """K, how many of the lightest rows fit."""
        return int((np.cumsum(np.sort(self.weights)) <= self.capacity).sum())

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether the rows are distinct and fit."""
        fits = distinct_rows(super_arm, self.n_arms)
        return fits and float(self.weights[super_arm].sum()) <= self.capacity

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every set that fits."""
        return filter(self.contains, subsets(self.n_arms, self.n_arms))

    def take(self, rows: Rows) -> "Knapsacks":
        """Return the knapsacks of these rows only."""
        return Knapsacks(self.weights[rows], self.budget)


@dataclass(frozen=True)
class Knapsack:
    """The best set that fits, exactly.

    Integer weights by a table over budgets, O(n budget) time and n budget / 8 bytes; real weights,
    and tables beyond `TABLE_LIMIT` cells, as a mixed-integer program.
    """

    def select(self, feasible: Knapsacks, indices: Vector) -> SuperArm:
        """Return the rows, greatest index first."""
        indices = fitting(self, feasible, indices, Knapsacks)
        # an arm that gains nothing is left out, one that cannot fit too
        useful = np.flatnonzero((indices > 0) & (feasible.weights <= feasible.capacity))
        weights, values = feasible.weights[useful], indices[useful]
        if weights.sum() <= feasible.capacity:
            return by_descending_index(useful, indices)
        limit = int(np.floor(feasible.capacity))
        if (weights == np.floor(weights)).all() and useful.size * (limit + 1) <= TABLE_LIMIT:
            chosen = _by_table(weights.astype(np.intp), values, limit)
        else:
            chosen = _by_program(feasible.take(useful), values)
        return by_descending_index(useful[chosen], indices)


@dataclass(frozen=True)
class DensityGreedy:
    """Fill the knapsack by value per weight, or take the single best arm if that is worth more.

    At least half as good as the best set, in O(n log n).
    """

    approximation_ratio: ClassVar[float] = 0.5

    def select(self, feasible: Knapsacks, indices: Vector) -> SuperArm:
        """Return the rows, greatest index first."""
        indices = fitting(self, feasible, indices, Knapsacks)
        useful = np.flatnonzero((indices > 0) & (feasible.weights <= feasible.capacity))
        if useful.size == 0:
            return useful
        weights = feasible.weights[useful]
        with np.errstate(divide="ignore"):
            density = indices[useful] / weights
        chosen: list[int] = []
        room = feasible.capacity
        for row in useful[np.argsort(-density, kind="stable")]:
            if feasible.weights[row] <= room:
                chosen.append(int(row))
                room -= float(feasible.weights[row])
        while not feasible.contains(np.array(chosen, dtype=np.intp)):  # rounding of sums
            chosen.pop()
        best = int(useful[np.argmax(indices[useful])])
        if indices[best] > indices[chosen].sum():
            chosen = [best]
        return by_descending_index(np.sort(np.array(chosen, dtype=np.intp)), indices)


def _by_table(weights: Rows, values: Vector, budget: int) -> Rows:
    """Solve by the value of the best set within each budget, item after item."""
    best = np.zeros(budget + 1)
    taken = np.zeros((weights.size, budget // 8 + 1), dtype=np.uint8)
    for item, (weight, value) in enumerate(zip(weights, values, strict=True)):
        better = np.zeros(budget + 1, dtype=bool)
        with_item = best[: budget + 1 - weight] + value
        better[weight:] = with_item > best[weight:]
        best[weight:] = np.maximum(best[weight:], with_item)
        taken[item] = np.packbits(better)[: taken.shape[1]]
    chosen = []
    for item in range(weights.size - 1, -1, -1):
        if taken[item, budget // 8] >> (7 - budget % 8) & 1:
            chosen.append(item)
            budget -= int(weights[item])
    return np.array(chosen[::-1], dtype=np.intp)


def _by_program(feasible: Knapsacks, values: Vector) -> Rows:
    """Solve as a mixed-integer program, cutting off sets that only fit by its tolerance."""
    # the solver's tolerances are absolute, so that values and weights are brought to one size
    scale = _VALUE_SCALE / float(values.max())
    weights = feasible.weights * (_VALUE_SCALE / feasible.capacity)
    constraints = [LinearConstraint(weights[None, :], -np.inf, _VALUE_SCALE)]
    for _ in range(_MOST_CUTS):
        result = milp(
            -values * scale,
            integrality=np.ones(values.size, dtype=np.intp),
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        if not result.success:
            msg = f"the mixed-integer solver gave up: {result.message}"
            raise NumericalError(msg)
        chosen = np.flatnonzero(result.x > 0.5)  # noqa: PLR2004 - a rounded 0 or 1
        if feasible.contains(chosen):
            return chosen
        cut = np.zeros((1, values.size))
        cut[0, chosen] = 1.0
        constraints.append(LinearConstraint(cut, -np.inf, chosen.size - 1))
    msg = f"{_MOST_CUTS} sets exceed the budget by less than the solver can tell; round the weights"
    raise NumericalError(msg)
