"""Trips against what was predicted before they were learned, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array, vstack

from superarm.arrays import Vector
from superarm.service.learning.trust import Comparison
from superarm.service.model.posterior import RoadPosterior
from superarm.service.model.trip import MeasuredTrip, Reader, Source, Spans

MOST_COMPARED = 1_000
"""Trips of one batch beyond these are learned, but not compared."""

MOST_SPANS = 256
"""Of a trip with more spans so many are compared with each other, chosen by chance."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """A trip beside its prediction.

    Attributes:
        rows: the weights of arms in every span.
        spans: what is expected of them.
        off_wh: measured minus predicted, of every span.
        spread: what the trip has in common, as a share.
    """

    rows: csr_array
    spans: Spans
    off_wh: Vector
    spread: float


def compared(
    trips: Sequence[tuple[str, MeasuredTrip, Source]],
    posterior: RoadPosterior,
    reader: Reader[Any],
    rng: np.random.Generator | None = None,
) -> list[Comparison]:
    """Return how much of a surprise each trip is, given the posterior and the trips before it.

    Args:
        trips: key, trip and source of each, in the order of their arrival.
        posterior: that knows none of them.
        reader: knows the vehicles.
        rng: chooses the spans of long trips; nobody can know which.
    """
    some = trips[:MOST_COMPARED]
    if not some:
        return []
    rng = rng or np.random.default_rng()
    seen = [_seen(trip, source, posterior, reader) for _, trip, source in some]
    ones = [csr_array(np.ones((1, one.off_wh.size))) for one in seen]
    totals = csr_array(vstack([one @ trip.rows for one, trip in zip(ones, seen, strict=True)]))
    joint = posterior.covariance_of(totals)
    off = np.array([one.off_wh.sum() for one in seen])
    noise = np.array([one.spans.noise.total for one in seen])
    magnitude = np.array([one.spans.total_magnitude_wh for one in seen])
    roads = joint.diagonal().copy()
    variance = roads + noise
    joint.flat[:: len(seen) + 1] += (
        noise + (np.array([one.spread for one in seen]) * magnitude) ** 2
    )
    whole = joint.diagonal().copy()
    lower = cholesky(joint, lower=True, check_finite=False)
    z = solve_triangular(lower, off, lower=True, check_finite=False)
    return [
        Comparison(
            key,
            float(z[i]),
            float(off[i]),
            float(variance[i]),
            float(magnitude[i]),
            *_scatter(seen[i], posterior, rng),
            unknown=float(np.clip(roads[i] / whole[i], 0.0, 1.0)),
        )
        for i, (key, _, _) in enumerate(some)
    ]


def _seen(
    trip: MeasuredTrip, source: Source, posterior: RoadPosterior, reader: Reader[Any]
) -> _Seen:
    spans, spread = posterior.measured(reader.spans(trip), source)
    off = trip.energies_wh - posterior.expected_wh(spans)
    return _Seen(spans.rows(posterior.fleet.n_arms), spans, off, spread)


def _scatter(seen: _Seen, posterior: RoadPosterior, rng: np.random.Generator) -> tuple[float, int]:
    """Return the squared surprises of spans, jointly, and how many these are; none of one span."""
    count = seen.off_wh.size
    if count == 1:
        return 0.0, 0
    chosen = np.arange(count)
    if count > MOST_SPANS:
        chosen = np.sort(rng.choice(count, MOST_SPANS, replace=False))
    joint = posterior.covariance_of(csr_array(seen.rows[chosen]))
    shared = seen.spread * seen.spans.magnitude_wh[chosen]
    joint += np.outer(shared, shared)
    joint += seen.spans.noise.covariance(chosen)
    lower = cholesky(joint, lower=True, check_finite=False)
    z = solve_triangular(lower, seen.off_wh[chosen], lower=True, check_finite=False)
    return float(z @ z), int(chosen.size)
