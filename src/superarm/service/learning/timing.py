r"""Durations against what was expected before the first of a block was learned.

On a logarithmic scale :math:`r = \log(\mathrm{measured} / \mathrm{expected})`, jointly over the
trips of a block: what is not known of roads, what drives have in common, noise. With the Cholesky
factor L of their covariance, :math:`z = L^{-1} r` is the surprise of each given those before it. A
key whose durations are f times those of others adds :math:`\log f` to all of its r, which shows in
z as :math:`w \log f` with :math:`w = L^{-1} 1`: the sums of :math:`w^2` and of :math:`w z` say how
long its durations are, and how sure that is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from superarm.arrays import Matrix, Rows, Vector
from superarm.roads.models.times import TRIP_SHARE, TimePosterior
from superarm.service.learning.factoring import factored
from superarm.service.trips.reading import ReadTrip


@dataclass(frozen=True)
class TimeSurprise:
    """How long one trip took, against its prediction.

    Attributes:
        key_id: who measured.
        z: its surprise, as it is learned: without what is known of its key.
        information: how much it says about the factor of its key, on a logarithmic scale.
        score: the same times the factor that it speaks for.
    """

    key_id: str
    z: float
    information: float
    score: float


@dataclass(frozen=True, eq=False)
class TimedTrip:
    """A timed trip beside its prediction: what does not depend on the others of its block.

    Attributes:
        key_id: who measured.
        log_ratio: the logarithm of measured over expected time, as it is learned.
        log_factor: the logarithm of what it was divided by before.
        shared: weights of what roads share in it, as shares of the time expected.
        places: its edges, each once, and
        own: deviations of their own of these, as shares.
        noise: variance, likewise.
    """

    key_id: str
    log_ratio: float
    log_factor: float
    shared: Vector
    places: Rows
    own: Vector
    noise: float


def timed_trip(read: ReadTrip, times: TimePosterior) -> TimedTrip | None:
    """Return a trip beside its prediction, if anything of it was timed."""
    drive = read.trip.timed
    if drive is None:
        return None
    model, places = times.model, drive.places
    seconds, _ = times.of(places, drive.part, heavy=drive.heavy)
    expected, measured = float(seconds.sum()), float(drive.seconds.sum())
    which, count = np.unique(places, return_counts=True)
    # an edge that was timed by itself is pulled from what roads share towards what it has shown
    moved = -times.pull[which] * count[:, None]
    moved[:, drive.part] += count
    noise = float((count * model.noise_variance[which]).sum()) / expected**2 + TRIP_SHARE**2
    if not (measured > 0 and expected > 0 and np.isfinite([measured, noise]).all()):
        msg = "what is expected of its durations is not finite"
        raise ArithmeticError(msg)
    return TimedTrip(
        read.key_id,
        float(np.log(measured / expected)),
        float(np.log(read.time_factor)),
        (moved.T @ model.features[which]).ravel() / expected,
        which,
        count * np.sqrt(times.own_variance[which]) / expected,
        noise,
    )


def time_surprises(trips: Sequence[TimedTrip], times: TimePosterior) -> list[TimeSurprise]:
    """Return how much of a surprise each trip is, given the prediction and the trips before it."""
    if not trips:
        return []
    joint = _covariance(trips, times)
    kept, lower = factored(joint)
    if not kept:
        return []
    trips = [trips[place] for place in kept]
    # of a logarithmic normal the mean is above the median
    bias = joint.diagonal()[kept] / 2
    learned = np.array([one.log_ratio for one in trips]) + bias
    keys = sorted({one.key_id for one in trips})
    columns = np.array([keys.index(one.key_id) for one in trips])
    of_key = (columns[:, None] == np.arange(len(keys))).astype(np.float64)
    before = np.array([one.log_factor for one in trips])
    right = np.column_stack([learned, learned + before, of_key])
    white = solve_triangular(lower, right, lower=True, check_finite=False)
    weights = white[np.arange(len(trips)), 2 + columns]
    return [
        TimeSurprise(one.key_id, float(row[0]), float(weight**2), float(weight * row[1]))
        for one, row, weight in zip(trips, white, weights, strict=True)
    ]


def _covariance(trips: Sequence[TimedTrip], times: TimePosterior) -> Matrix:
    """Return the covariance of times of trips, as shares of what is expected of them."""
    shared = np.stack([one.shared for one in trips])
    starts = np.cumsum([0, *(one.places.size for one in trips)])
    values = np.concatenate([one.own for one in trips])
    places = np.concatenate([one.places for one in trips])
    shape = (len(trips), times.model.network.n_edges)
    own = csr_array((values, places, starts), shape=shape)
    joint: Matrix = shared @ times.covariance @ shared.T + (own @ own.T).toarray()
    joint.flat[:: len(trips) + 1] += [one.noise for one in trips]
    return (joint + joint.T) / 2
