"""One option per group within a budget: the multiple-choice knapsack of campaign budgets."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector, as_count, as_rows
from superarm.errors import CapacityError
from superarm.oracles.checks import distinct_rows, fitting

TABLE_LIMIT = 100_000_000
"""The most cells (groups x budget) a table may have: 400 MB."""


@dataclass(frozen=True, eq=False, init=False)
class Choices:
    """All sets with at most one row of each group whose whole costs sum to at most the budget.

    With one group per campaign and one row per bid and daily budget this is the feasible set of
    Nuara et al. (2018).

    Args:
        groups: which group every row belongs to, shape (n,).
        costs: what it costs, whole numbers, shape (n,).
        budget: a whole number.
    """

    groups: Rows
    costs: Rows
    budget: int

    def __init__(self, groups: ArrayLike, costs: ArrayLike, budget: int) -> None:
        """Refuse negative costs and budgets."""
        members, prices = as_rows("groups", groups), as_rows("costs", costs)
        if members.size != prices.size:
            msg = f"{members.size} groups and {prices.size} costs: give one of each per row"
            raise ValueError(msg)
        limit = as_count("budget", budget)
        if limit < 0 or (prices < 0).any():
            msg = "costs and budget must not be negative"
            raise ValueError(msg)
        object.__setattr__(self, "groups", members)
        object.__setattr__(self, "costs", prices)
        object.__setattr__(self, "budget", limit)

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        return int(self.groups.size)

    @property
    def max_size(self) -> int:
        """K, how many groups can be served with their cheapest rows."""
        cheapest = [self.costs[self.groups == group].min() for group in np.unique(self.groups)]
        return int((np.cumsum(np.sort(cheapest)) <= self.budget).sum()) if cheapest else 0

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether the rows are of different groups and within the budget."""
        if not distinct_rows(super_arm, self.n_arms):
            return False
        alone = np.unique(self.groups[super_arm]).size == super_arm.size
        return alone and int(self.costs[super_arm].sum()) <= self.budget

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every set."""
        rows = [[-1, *np.flatnonzero(self.groups == group)] for group in np.unique(self.groups)]
        for chosen in itertools.product(*rows):
            found = np.array([row for row in chosen if row >= 0], dtype=np.intp)
            if self.contains(found):
                yield found

    def take(self, rows: Rows) -> "Choices":
        """Return the choices among these rows only."""
        return Choices(self.groups[rows], self.costs[rows], self.budget)


@dataclass(frozen=True)
class ChoiceTable:
    """The best set, exactly, by a table over budgets: O(n budget) time, O(groups budget) memory."""

    def select(self, feasible: Choices, indices: Vector) -> SuperArm:
        """Return the rows, by group."""
        indices = fitting(self, feasible, indices, Choices)
        groups = np.unique(feasible.groups)
        if (groups.size + 1) * (feasible.budget + 1) > TABLE_LIMIT:
            msg = (
                f"{groups.size} groups times a budget of {feasible.budget} exceed {TABLE_LIMIT} "
                "cells; express costs in a coarser unit"
            )
            raise CapacityError(msg)
        best = np.zeros(feasible.budget + 1)
        picked = np.full((groups.size, feasible.budget + 1), -1, dtype=np.int32)
        for number, group in enumerate(groups):
            before = best.copy()
            for row in np.flatnonzero(feasible.groups == group):
                cost = int(feasible.costs[row])
                if cost > feasible.budget or indices[row] <= 0:
                    continue  # it does not fit, or gains nothing
                value = before[: best.size - cost] + indices[row]
                better = value > best[cost:]
                best[cost:][better] = value[better]
                picked[number, cost:][better] = row
        left, chosen = int(np.argmax(best)), list[int]()
        for number in range(groups.size - 1, -1, -1):
            taken = int(picked[number, left])
            if taken >= 0:
                chosen.append(taken)
                left -= int(feasible.costs[taken])
        return np.array(chosen[::-1], dtype=np.intp)
