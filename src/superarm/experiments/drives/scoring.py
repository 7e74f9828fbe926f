"""Every trip predicted before it is learned, and how good that was."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest, norm
from threadpoolctl import threadpool_limits

from superarm.arrays import Matrix, Vector
from superarm.experiments.drives.models import MODELS, Learner, Setting, model
from superarm.experiments.drives.rows import Passages

FIRST = 3
"""So many trips are learned before the first one is scored."""

_NORMAL_90 = 1.6448536269514722
_BOOTSTRAPS = 10_000
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Scores:
    """Predictions of one model, of all scored rows and trips.

    Attributes:
        trip: number of the trip of every row, shape (n,).
        used: measured, shape (n,).
        mean: predicted.
        std: its standard deviation.
        trip_used: measured on whole trips, shape (t,).
        trip_mean: predicted.
        trip_std: its standard deviation.
        trip_joint: log density of all rows of a trip together, per row.
        time_used: how long trips took; empty, if the model does not learn it.
        time_mean: predicted.
        time_std: its standard deviation.
        deviations: of the model's components in the end.
    """

    trip: Vector
    used: Vector
    mean: Vector
    std: Vector
    trip_used: Vector
    trip_mean: Vector
    trip_std: Vector
    trip_joint: Vector
    time_used: Vector
    time_mean: Vector
    time_std: Vector
    deviations: Mapping[str, float]

    @property
    def row_density(self) -> Vector:
        """Log densities of rows, each by itself."""
        return _densities(self.used, self.mean, self.std)

    @property
    def trip_density(self) -> Vector:
        """Log densities of the totals of trips."""
        return _densities(self.trip_used, self.trip_mean, self.trip_std)


class Summary(NamedTuple):
    """One line of a table.

    Attributes:
        density: mean log density.
        against: mean difference of density to the full model, by trips.
        low: lower end of its 95 % bootstrap interval.
        high: upper end.
        error: sum of absolute errors over sum of absolute measurements.
        covered: share within 90 % intervals.
        covered_low: lower end of the 95 % interval of that share.
        covered_high: upper end.
        number: how many.
    """

    density: float
    against: float
    low: float
    high: float
    error: float
    covered: float
    covered_low: float
    covered_high: float
    number: int


def score(
    rows: Passages,
    setting: Setting,
    names: Sequence[str] = MODELS,
    *,
    knows_time: bool = False,
    advance: Callable[[str], None] | None = None,
) -> dict[str, Scores]:
    """Predict every trip, then learn it, with every model.

    Args:
        rows: in the order driven.
        setting: what is known of the vehicle.
        names: of models.
        knows_time: whether durations are told before.
        advance: called with the name of a model that is done.
    """
    found = {}
    with threadpool_limits(1):
        for name in names:
            found[name] = _scored(rows, Learner(model(name, setting), knows_time))
            if advance is not None:
                advance(name)
    return found


def _scored(rows: Passages, learner: Learner) -> Scores:
    parts: list[tuple[Passages, Vector, Matrix]] = []
    times: list[tuple[float, float, float]] = []
    for number, trip in enumerate(rows.trips()):
        if number < FIRST:
            continue
        learner.learn(rows.take(slice(0, trip.start)))
        new = rows.take(trip)
        parts.append((new, *learner.predict(new)))
        if (clock := learner.predict_time(new)) is not None:
            times.append((float(new.time_s.sum()), float(clock[0].sum()), _root(clock[1].sum())))
    taken = np.array(times).reshape(-1, 3).T
    return Scores(
        trip=np.concatenate([new.trip for new, _, _ in parts]).astype(np.float64),
        used=np.concatenate([new.used for new, _, _ in parts]),
        mean=np.concatenate([mean for _, mean, _ in parts]),
        std=np.concatenate([_roots(joint.diagonal()) for _, _, joint in parts]),
        trip_used=np.array([new.used.sum() for new, _, _ in parts]),
        trip_mean=np.array([mean.sum() for _, mean, _ in parts]),
        trip_std=np.array([_root(joint.sum()) for _, _, joint in parts]),
        trip_joint=np.array([_joint(new.used - mean, joint) for new, mean, joint in parts]),
        time_used=taken[0],
        time_mean=taken[1],
        time_std=taken[2],
        deviations=learner.deviations,
    )


def _densities(used: Vector, mean: Vector, std: Vector) -> Vector:
    return np.asarray(norm.logpdf(used, mean, std), dtype=np.float64)


def _root(variance: Any) -> float:  # noqa: ANN401 - a number of numpy
    return float(np.sqrt(max(float(variance), _LEAST)))


def _roots(variances: Vector) -> Vector:
    return np.sqrt(np.maximum(variances, _LEAST))


def _joint(off: Vector, joint: Matrix) -> float:
    """Return the log density of a trip's rows together, per row."""
    lower = np.linalg.cholesky(joint + _LEAST * np.trace(joint) * np.eye(off.size))
    white = np.linalg.solve(lower, off)
    total = -0.5 * float(white @ white) - float(np.log(lower.diagonal()).sum())
    return total / off.size - 0.5 * float(np.log(2 * np.pi))


def of_rows(scores: Scores, full: Scores) -> Summary:
    """Sum up passages; differences are bootstrapped by trip."""
    gap = scores.row_density - full.row_density
    by_trip = [gap[scores.trip == trip].sum() for trip in np.unique(scores.trip)]
    sizes = [(scores.trip == trip).sum() for trip in np.unique(scores.trip)]
    return _summed(
        scores.row_density, np.array(by_trip), np.array(sizes), scores.used, scores.mean, scores.std
    )


def of_trips(scores: Scores, full: Scores) -> Summary:
    """Sum up totals of trips."""
    gap = scores.trip_density - full.trip_density
    return _summed(
        scores.trip_density,
        gap,
        np.ones(gap.size),
        scores.trip_used,
        scores.trip_mean,
        scores.trip_std,
    )


def of_times(scores: Scores) -> Summary | None:
    """Sum up how long trips took, if the model predicts it."""
    if not scores.time_used.size:
        return None
    density = _densities(scores.time_used, scores.time_mean, scores.time_std)
    none = np.zeros(density.size)
    columns = scores.time_used, scores.time_mean, scores.time_std
    return _summed(density, none, np.ones(density.size), *columns)


def _summed(  # noqa: PLR0913, PLR0917 - columns
    density: Vector, gap: Vector, sizes: Vector, used: Vector, mean: Vector, std: Vector
) -> Summary:
    rng = np.random.default_rng(0)
    chosen = rng.integers(gap.size, size=(_BOOTSTRAPS, gap.size))
    drawn = gap[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    inside = int((np.abs(used - mean) <= _NORMAL_90 * std).sum())
    interval = binomtest(inside, used.size).proportion_ci()
    return Summary(
        float(density.mean()),
        float(gap.sum() / sizes.sum()),
        float(low),
        float(high),
        float(np.abs(used - mean).sum() / np.abs(used).sum()),
        inside / used.size,
        float(interval.low),
        float(interval.high),
        int(used.size),
    )
