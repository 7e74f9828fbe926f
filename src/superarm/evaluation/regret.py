r"""Regret of one agent in one world, and Bayesian regret over many.

.. math:: BR(T) = E\Big[\sum_{t=1}^{T} f(a_t^*) - f(a_t)\Big]

The optimum :math:`a_t^*` comes from an oracle of the evaluator's choice, which need not be the
agent's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Step
from superarm.arrays import Vector, as_matrix
from superarm.protocols import KnownTruth, Oracle

S = TypeVar("S")


def instantaneous_regret(step: Step[S], truth: KnownTruth, oracle: Oracle[S]) -> float:
    """Return how much expected reward the chosen super arm lost against the best one."""
    expected = truth.expected_rewards(step.round.arms)
    best = oracle.select(step.round.feasible, expected)
    return float(expected[best].sum() - expected[step.super_arm].sum())


def cumulative_regret(steps: Iterable[Step[S]], truth: KnownTruth, oracle: Oracle[S]) -> Vector:
    """Return the running sum of instantaneous regrets, shape (T,)."""
    return np.cumsum([instantaneous_regret(step, truth, oracle) for step in steps])


@dataclass(frozen=True, eq=False, repr=False)
class BayesianRegret:
    """Mean cumulative regret over repeated worlds, with its standard error, per round."""

    mean: Vector
    standard_error: Vector
    repeats: int

    def __repr__(self) -> str:
        """Return one line."""
        mean, error = float(self.mean[-1]), float(self.standard_error[-1])
        rounds = f"{self.mean.size} rounds, {self.repeats} worlds"
        return f"BayesianRegret({mean:,.4g} ± {error:,.2g} after {rounds})"


def bayesian_regret(curves: ArrayLike) -> BayesianRegret:
    r"""Estimate the Bayesian regret from cumulative curves of independent worlds.

    Args:
        curves: shape (repeats, T), one `cumulative_regret` per world; at least two.

    >>> bayesian_regret([[1.0, 2.0], [3.0, 2.0]]).standard_error.tolist()
    [1.0, 0.0]
    """
    table = as_matrix("curves", curves)
    repeats = table.shape[0]
    if repeats < 2:  # noqa: PLR2004 - a spread needs two
        msg = f"a standard error needs at least two repeats, got {repeats}"
        raise ValueError(msg)
    spread = table.std(axis=0, ddof=1) / np.sqrt(repeats)
    return BayesianRegret(table.mean(axis=0), spread, repeats)
