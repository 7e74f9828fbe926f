"""Trips against what was predicted before they were learned, one after the other."""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array

from superarm.service.learning.trust import Comparison
from superarm.service.model.posterior import RoadPosterior
from superarm.service.model.trip import MeasuredTrip, Reader, Source

MOST_COMPARED = 1_000
"""Trips of one batch beyond these are learned, but not compared."""


def compared(
    trips: Sequence[tuple[str, MeasuredTrip, Source]], posterior: RoadPosterior, reader: Reader
) -> list[Comparison]:
    """Return how much of a surprise each trip is, given the posterior and the trips before it.

    Args:
        trips: key, trip and source of each, in the order of their arrival.
        posterior: that knows none of them.
        reader: knows the vehicles.
    """
    some = trips[:MOST_COMPARED]
    if not some:
        return []
    places, weights, sizes, off, noise, magnitude, spread = [], [], [], [], [], [], []
    mean, n_edges = posterior.belief.mean, posterior.n_edges
    for _, trip, source in some:
        spans = reader.spans(trip)
        energy = float(spans.energy_wh.sum())
        arms, amounts = spans.places, spans.weights
        own = source.spread
        if source.slot >= 0:
            unit = reader.fleet.gain_unit(source.deviation)
            arms = np.append(arms, n_edges + source.slot)
            amounts = np.append(amounts, -unit * energy)
        else:
            own = source.spread_and_gain
        expected = energy - float(amounts @ mean[arms])
        places.append(arms)
        weights.append(amounts)
        sizes.append(arms.size)
        off.append(trip.measured_wh - expected)
        noise.append(float(spans.noise_variance.sum()))
        magnitude.append(spans.total_magnitude_wh)
        spread.append(own)
    arms, which = np.unique(np.concatenate(places), return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = csr_array((np.concatenate(weights), which, starts), shape=(len(some), arms.size))
    joint = np.asarray(rows @ (rows @ posterior.view(arms).covariance()).T)
    joint = (joint + joint.T) / 2
    variance = joint.diagonal() + np.array(noise)
    shared = (np.array(spread) * np.array(magnitude)) ** 2
    joint.flat[:: len(some) + 1] += np.array(noise) + shared
    lower = cholesky(joint, lower=True, check_finite=False)
    z = solve_triangular(lower, np.array(off), lower=True, check_finite=False)
    return [
        Comparison(key, float(z[i]), float(off[i]), float(variance[i]), magnitude[i])
        for i, (key, _, _) in enumerate(some)
    ]
