r"""Trips against what was predicted before the first of them was learned, one after the other.

The totals of all trips of a block are predicted jointly. With the Cholesky factor L of their
covariance, :math:`z = L^{-1} (\text{measured} - \text{predicted})` is the surprise of each trip
given those before it (an innovation): independent and standard normal, if the model is right.
:math:`L_{ii} z_i` is by how much it is off, given those before it, and :math:`L_{ii}` the deviation
of that.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array

from superarm.arrays import Rows, Vector
from superarm.errors import SuperarmError
from superarm.roads.models.likelihood import Reader, Spans
from superarm.roads.models.posterior import RoadPosterior
from superarm.service.learning.factoring import factored
from superarm.service.learning.timing import TimedTrip, TimeSurprise, time_surprises, timed_trip
from superarm.service.learning.tracks import Comparison
from superarm.service.trips.reading import ReadTrip

MOST_SPANS = 256
"""Of a trip with more spans so many are compared with each other, chosen by chance."""

_UNUSABLE = (ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError, SuperarmError)


@dataclass(frozen=True, eq=False)
class Predicted:
    """A trip beside its prediction: what does not depend on the other trips of its block.

    Attributes:
        key_id: who measured.
        places: arms in the sum of all spans, and
        weights: their weights; an arm may be there more than once.
        off_wh: measured minus predicted, of all spans together.
        noise: variance of that, without roads and without what the trip has in common.
        shared: deviation of what the trip has in common, in Wh.
        magnitude_wh: what `shared` is a share of.
        scatter: the sum of squared surprises of its spans, jointly.
        spans: how many these are; none if the trip has but one.
    """

    key_id: str
    places: Rows
    weights: Vector
    off_wh: float
    noise: float
    shared: float
    magnitude_wh: float
    scatter: float = 0.0
    spans: int = 0


def predicted(
    read: ReadTrip, posterior: RoadPosterior, reader: Reader[Any], seed: int = 0
) -> Predicted:
    """Return a trip beside its prediction.

    Args:
        read: the trip.
        posterior: that does not know it.
        reader: knows the vehicles.
        seed: chooses which spans of a long trip are compared with each other.
    """
    spans, spread = posterior.measured(reader.spans(read.trip), read.source)
    off = read.trip.energies_wh - posterior.expected_wh(spans)
    magnitude, noise = spans.total_magnitude_wh, spans.noise.total
    scatter, count = 0.0, off.size
    if count > 1:
        chosen = np.arange(count)
        if count > MOST_SPANS:
            rng = np.random.default_rng(seed)
            chosen = np.sort(rng.choice(count, MOST_SPANS, replace=False))
        scatter, count = _scatter(off, spans, spread, chosen, posterior), chosen.size
    sums = (float(off.sum()), float(noise), float(abs(spread * magnitude)), float(magnitude))
    if not np.isfinite([*sums, scatter]).all():
        msg = "what is expected of it is not finite"
        raise ArithmeticError(msg)
    parts = count if count > 1 else 0
    return Predicted(read.key_id, spans.places, spans.weights, *sums, scatter, parts)


def _scatter(
    off: Vector, spans: Spans, spread: float, chosen: Rows, posterior: RoadPosterior
) -> float:
    """Return the sum of squared surprises of some spans of a trip, jointly."""
    rows = spans.rows(posterior.fleet.n_arms)
    joint = posterior.covariance_of(rows if chosen.size == off.size else csr_array(rows[chosen]))
    shared = spread * spans.magnitude_wh[chosen]
    joint += np.outer(shared, shared)
    joint += spans.noise.covariance(chosen)
    lower = cholesky(joint, lower=True, check_finite=False)
    z = solve_triangular(lower, off[chosen], lower=True, check_finite=False)
    return float(z @ z)


def compared(trips: Sequence[Predicted], posterior: RoadPosterior) -> list[Comparison]:
    """Return how much of a surprise each trip is, given the posterior and the trips before it."""
    if not trips:
        return []
    starts = np.cumsum([0, *(one.places.size for one in trips)])
    places = np.concatenate([one.places for one in trips])
    weights = np.concatenate([one.weights for one in trips])
    shape = (len(trips), posterior.fleet.n_arms)
    joint = posterior.covariance_of(csr_array((weights, places, starts), shape=shape))
    roads = np.array([one.noise for one in trips]) + joint.diagonal()
    shared = np.array([one.shared for one in trips])
    joint.flat[:: len(trips) + 1] = roads + shared**2
    kept, lower = factored(joint)
    if not kept:
        return []
    off = np.array([trips[i].off_wh for i in kept])
    z = solve_triangular(lower, off, lower=True, check_finite=False)
    found = []
    for place, i in enumerate(kept):
        one, deviation = trips[i], float(lower[place, place])
        # given the trips before it; what is not common and not noise is roads that are not known
        variance = max(deviation**2 - one.shared**2, one.noise)
        unknown = float(np.clip((variance - one.noise) / deviation**2, 0.0, 1.0))
        innovation = float(z[place]) * deviation
        found.append(
            Comparison(
                one.key_id,
                float(z[place]),
                innovation,
                variance,
                one.magnitude_wh,
                one.scatter,
                one.spans,
                unknown,
            )
        )
    return found


class Comparer:
    """Compares trips with one posterior; what is known of a trip alone is kept for the next time.

    Args:
        posterior: that knows none of the trips.
        reader: knows the vehicles.
        secret: chooses, with the content of a trip, which of many spans are compared: the same
            wherever it is known, and no client can tell which.
        say: called with what could not be compared.
    """

    def __init__(
        self,
        posterior: RoadPosterior,
        reader: Reader[Any],
        secret: str,
        say: Callable[[str], None],
    ) -> None:
        """Remember the prediction."""
        self._posterior = posterior
        self._reader = reader
        self._secret = secret
        self._say = say
        self._predicted: dict[int, tuple[Predicted | None, TimedTrip | None]] = {}

    def compare(self, trips: Sequence[ReadTrip]) -> tuple[list[Comparison], list[TimeSurprise]]:
        """Compare energies and durations with the prediction, in the order of their numbers."""
        ordered = sorted(trips, key=lambda one: one.sequence)
        pairs = [self._prediction(one) for one in ordered if one.counts]
        energies = [energy for energy, _ in pairs if energy is not None]
        times = [time for _, time in pairs if time is not None]
        posterior = self._posterior
        return compared(energies, posterior), time_surprises(times, posterior.times)

    def _prediction(self, read: ReadTrip) -> tuple[Predicted | None, TimedTrip | None]:
        if read.sequence not in self._predicted:
            self._predicted[read.sequence] = self._energy(read), self._time(read)
        return self._predicted[read.sequence]

    def _energy(self, read: ReadTrip) -> Predicted | None:
        if not read.trip.first.size:
            return None
        chance = hashlib.sha256(f"{self._secret}{read.digest}".encode()).digest()
        seed = int.from_bytes(chance[:8], "big")
        try:
            return predicted(read, self._posterior, self._reader, seed)
        except _UNUSABLE as error:
            self._say(f"trip {read.sequence} could not be compared with its prediction: {error}")
            return None

    def _time(self, read: ReadTrip) -> TimedTrip | None:
        try:
            return timed_trip(read, self._posterior.times)
        except _UNUSABLE as error:
            self._say(f"durations of trip {read.sequence} could not be compared: {error}")
            return None
