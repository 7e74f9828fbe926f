r"""Gaussian models made of variance components, and their evidence.

Of n measurements y with known prior means m,

.. math:: y \sim N\Big(m, \sum_j \theta_j^2 C_j\Big)

with known matrices C: coefficients of known terms, roads, trips, days, noise. The deviations
:math:`\theta` have log-normal hyperpriors in the unit of the data and are those of greatest
posterior density; a model is a list of components, nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from superarm.arrays import Matrix, Vector
from superarm.errors import NumericalError
from superarm.experiments.drives.rows import Passages

Block = Callable[[Passages, Passages], Matrix]
"""C between the rows of two tables; the diagonal parts are in `Component.alone`."""

_JITTER = 1e-10
_SEARCHED = 800  # rows, the last ones, by which deviations are found
_WIDE = 12.0  # how far logarithms of deviations may go from their hyperprior, in its deviations


@dataclass(frozen=True)
class Component:
    """One part of a covariance.

    Attributes:
        name: what it is.
        between: C between rows of two tables; nothing, if it is noise of every row alone.
        alone: its diagonal for rows of one table, where it is noise of every row.
        deviation: where the hyperprior of its deviation has its middle, in the unit of the data.
        spread: of the hyperprior's logarithm; zero holds the deviation fixed.
    """

    name: str
    deviation: float
    between: Block | None = None
    alone: Callable[[Passages], Vector] | None = None
    spread: float = 1.0

    def matrix(self, left: Passages, right: Passages, *, same: bool) -> Matrix:
        """Return C between two tables, which are the same or have no row in common."""
        if self.between is not None:
            return self.between(left, right)
        if same and self.alone is not None:
            return np.diag(self.alone(left))
        return np.zeros((len(left), len(right)))


@dataclass(frozen=True, eq=False)
class Fitted:
    """Deviations that were found, and the solve that predicts with them."""

    components: tuple[Component, ...]
    mean: Callable[[Passages], Vector]
    deviations: Mapping[str, float]
    seen: Passages
    weights: Vector
    factor: tuple[Matrix, bool]

    def predict(self, new: Passages) -> tuple[Vector, Matrix]:
        """Return mean and covariance of what will be measured in new rows."""
        cross = self._covariance(new, self.seen, same=False)
        mean = self.mean(new) + cross @ self.weights
        joint = self._covariance(new, new, same=True)
        if len(self.seen):
            joint = joint - cross @ cho_solve(self.factor, cross.T)
        return mean, (joint + joint.T) / 2

    def _covariance(self, left: Passages, right: Passages, *, same: bool) -> Matrix:
        total = np.zeros((len(left), len(right)))
        for part in self.components:
            total += self.deviations[part.name] ** 2 * part.matrix(left, right, same=same)
        return total


def fitted(  # noqa: PLR0913 - a model, data, and how to search
    components: Sequence[Component],
    mean: Callable[[Passages], Vector],
    seen: Passages,
    target: Vector,
    start: Mapping[str, float] | None = None,
    *,
    search: bool = True,
) -> Fitted:
    """Return the model with the likeliest deviations.

    Args:
        components: of the covariance.
        mean: prior means of rows.
        seen: rows that were measured.
        target: what was measured, shape (n,).
        start: deviations to begin with, those of an earlier fit.
        search: whether to look for better ones.
    """
    off = target - mean(seen)
    middles = np.log([part.deviation for part in components])
    spreads = np.array([part.spread for part in components])
    logs = np.array([np.log((start or {}).get(part.name, part.deviation)) for part in components])
    free = np.flatnonzero(spreads > 0)
    if search and off.size and free.size:
        last = slice(max(off.size - _SEARCHED, 0), off.size)
        some_rows = seen.take(last)
        some_parts = [part.matrix(some_rows, some_rows, same=True) for part in components]

        def unlikely(some: Vector) -> tuple[float, Vector]:
            trial = logs.copy()
            trial[free] = some
            value, slope = _unlikely(some_parts, off[last], trial)
            away = (some - middles[free]) / spreads[free]
            return value + float(away @ away) / 2, slope[free] + away / spreads[free]

        bounds = [(middles[i] - _WIDE * spreads[i], middles[i] + _WIDE * spreads[i]) for i in free]
        found = minimize(
            unlikely, logs[free], jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 60},
        )  # fmt: skip
        logs[free] = found.x
    parts = [part.matrix(seen, seen, same=True) for part in components]
    factor = _factor(parts, logs, off.size)
    weights = cho_solve(factor, off) if off.size else np.empty(0)
    named = {part.name: float(np.exp(log)) for part, log in zip(components, logs, strict=True)}
    return Fitted(tuple(components), mean, named, seen, weights, factor)


def _factor(parts: Sequence[Matrix], logs: Vector, size: int) -> tuple[Matrix, bool]:
    total = np.zeros((size, size))
    for log, part in zip(logs, parts, strict=True):
        total += np.exp(2 * log) * part
    if not size:
        return total, True
    total[np.diag_indices(size)] += _JITTER * float(np.trace(total)) / size
    try:
        return cho_factor(total, lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        msg = "the covariance of the measurements is singular: a component of noise is missing"
        raise NumericalError(msg) from error


def _unlikely(parts: Sequence[Matrix], off: Vector, logs: Vector) -> tuple[float, Vector]:
    """Return minus the log evidence, and its slopes in the logarithms of deviations."""
    factor = _factor(parts, logs, off.size)
    weights = cho_solve(factor, off)
    inverse = cho_solve(factor, np.eye(off.size))
    value = 0.5 * float(off @ weights) + float(np.log(np.diagonal(factor[0])).sum())
    value += 0.5 * off.size * float(np.log(2 * np.pi))
    slopes = [
        np.exp(2 * log) * (float((inverse * part).sum()) - float(weights @ part @ weights))
        for log, part in zip(logs, parts, strict=True)
    ]
    return value, np.array(slopes)
