"""A trip as arrays: which edges, which spans of them were measured, what that says of the roads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky_banded
from scipy.sparse import csc_array, csr_array, diags_array

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs import Evidence
from superarm.beliefs.ensemble import Observations
from superarm.compiling import compiled
from superarm.roads.models.fleet import (
    KEY_DEVIATION,
    MOTION_DEVIATION,
    Fleet,
    measure,
    passage_variance,
)
from superarm.roads.models.times import TimedDrive, TimeSums
from superarm.roads.physics.motion import kinetic_energy
from superarm.roads.vehicle import Vehicle

_MOST_LINKS = 20_000_000
_FADED = 1e-12


class Addable(Protocol):
    """What trips say, summed up (`Evidence`) or as rows (`superarm.beliefs.ensemble`)."""

    @classmethod
    def nothing(cls, n_arms: int) -> Self:
        """Return what no trips say."""
        ...

    @classmethod
    def of_functionals(
        cls,
        functionals: csr_array,
        values: ArrayLike,
        noise_variance: ArrayLike,
        common: csr_array | None = None,
    ) -> Self:
        """Return what weighted sums of arms say, some of which share an error."""
        ...

    def moved(self, n_arms: int, places: ArrayLike, scales: ArrayLike) -> Self:
        """Return the same about other arms."""
        ...

    def without_last(self, prior_precision: float) -> Self:
        """Return what is said of all arms but the last one, which is not known."""
        ...

    def with_keys(self, keys: Rows) -> Self:
        """Return the same with a number for every observation, as far as they are kept singly."""
        ...

    def stored(self) -> dict[str, object]:
        """Return plain arrays."""
        ...

    def __add__(self, other: Self) -> Self:
        """Return what both say together."""
        ...

    @property
    def is_finite(self) -> bool:
        """Whether it consists of numbers."""
        ...


TripSums = TypeVar("TripSums", bound=Addable)

SPANS_OF_KEY = 65_536
"""A trip has fewer spans: the key of each is the trip's number times this, and its own."""


@dataclass(frozen=True, eq=False)
class MeasuredTrip:
    """A trip: edges in driving order and the energy of disjoint spans of them.

    Attributes:
        vehicle: what drove.
        edges: positions in the network, shape (k,).
        first: where in `edges` the spans begin, shape (m,).
        last: where they end, inclusive, shape (m,).
        energies_wh: what each took from the battery, shape (m,).
        at_rest: whether energy of motion is accounted for, as if every span began and ended at
            rest; whole trips do.
        timed: how long parts of it took, if that was measured.
    """

    vehicle: Vehicle
    edges: Rows
    first: Rows
    last: Rows
    energies_wh: Vector
    at_rest: bool = True
    timed: TimedDrive | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all of the trip was measured."""
        return int((self.last - self.first + 1).sum()) == self.edges.size

    @property
    def measured_wh(self) -> float:
        """The energy of all that was measured."""
        return float(self.energies_wh.sum())

    def only(self, spans: Rows) -> "MeasuredTrip":
        """Return the trip with some of its spans."""
        return MeasuredTrip(
            self.vehicle,
            self.edges,
            self.first[spans],
            self.last[spans],
            self.energies_wh[spans],
            self.at_rest,
            self.timed,
        )


@dataclass(frozen=True, eq=False)
class Noise:
    """Of the measured spans of a trip, but for what all of it has in common.

    Attributes:
        own: variance of every span, independent of all others, shape (m,).
        begin: variance of the energy of motion where it begins, shape (m,).
        end: likewise where it ends: what it lacks there the next span has, if that goes on.
        joined: whether the next span begins where each but the last one ends, shape (m - 1,).
    """

    own: Vector
    begin: Vector
    end: Vector
    joined: NDArray[np.bool_]

    @property
    def each(self) -> Vector:
        """The variances of spans."""
        return self.own + self.begin + self.end

    @property
    def total(self) -> float:
        """The variance of the sum of all spans."""
        return float(self.each.sum() - 2 * self._shared.sum())

    @property
    def _shared(self) -> Vector:
        return np.where(self.joined, self.end[:-1], 0.0)

    @property
    def is_diagonal(self) -> bool:
        """Whether spans are independent of each other."""
        return not self._shared.any()

    def covariance(self, chosen: Rows | None = None) -> Matrix:
        """Return the covariance of all spans, or of those chosen, which ascend."""
        chosen = np.arange(self.own.size) if chosen is None else chosen
        total = np.diag(self.each[chosen])
        next_to = np.flatnonzero(np.diff(chosen) == 1)
        total[next_to, next_to + 1] = -self._shared[chosen[next_to]]
        total[next_to + 1, next_to] = -self._shared[chosen[next_to]]
        return total

    def whitening(self) -> csr_array:
        """Return W with W N W' = I, lower triangular; N is tridiagonal."""
        if self.is_diagonal:
            return csr_array(diags_array(1 / np.sqrt(self.each)))
        band = np.vstack([self.each, np.append(-self._shared, 0.0)])
        lower = cholesky_banded(band, lower=True, check_finite=False)
        found = _inverse_of_bidiagonal(lower[0], lower[1])
        return csr_array(csc_array(found, shape=(self.own.size, self.own.size)))


@compiled
def _inverse_of_bidiagonal(diagonal: Vector, below: Vector) -> tuple[Vector, Rows, Rows]:
    """Return the columns of the inverse of a lower bidiagonal matrix, until they have faded."""
    size = diagonal.size
    starts = np.zeros(size + 1, dtype=np.intp)
    for column in range(size):
        value, row = 1.0, column + 1
        while row < size and abs(value) >= _FADED:
            value *= -below[row - 1] / diagonal[row]
            row += 1
        starts[column + 1] = starts[column] + row - column
    values, rows = np.empty(starts[-1]), np.empty(starts[-1], dtype=np.intp)
    for column in range(size):
        value = 1 / diagonal[column]
        for place in range(starts[column], starts[column + 1]):
            row = column + place - starts[column]
            if row > column:
                value *= -below[row - 1] / diagonal[row]
            values[place], rows[place] = value, row
    return values, rows, starts


@dataclass(frozen=True, eq=False)
class Spans:
    """What physics expect of the measured spans of a trip.

    Attributes:
        places: edges of all spans, one span after the other.
        starts: where each span begins among them, and their number last, shape (m + 1,).
        weights: what one unit of h is on each of these edges, in Wh.
        energy_wh: of every span, shape (m,).
        cost_wh: dissipation of every span, shape (m,).
        noise: of the spans.
    """

    places: Rows
    starts: Rows
    weights: Vector
    energy_wh: Vector
    cost_wh: Vector
    noise: Noise

    def with_gain(self, column: int, unit: float) -> "Spans":
        """Return them with a share of the key's gain in every span.

        Args:
            column: the arm of the gain.
            unit: the gain that one unit of this arm stands for.
        """
        ends, more = self.starts[1:], np.arange(self.starts.size)
        return replace(
            self,
            places=np.insert(self.places, ends, column),
            weights=np.insert(self.weights, ends, -unit * self.magnitude_wh),
            starts=self.starts + more,
        )

    def rows(self, n_arms: int) -> csr_array:
        """Return the weights of all arms in every span, shape (m, n_arms)."""
        shape = (self.energy_wh.size, n_arms)
        return csr_array((self.weights, self.places, self.starts), shape=shape)

    @property
    def magnitude_wh(self) -> Vector:
        """What an error in proportion is in proportion to, shape (m,)."""
        return measure(self.energy_wh, self.cost_wh)

    @property
    def total_magnitude_wh(self) -> float:
        """Likewise of all spans together."""
        return float(measure(self.energy_wh.sum(), self.cost_wh.sum()))


@dataclass(frozen=True)
class Source:
    """Who measured a trip, and how much its trips have in common.

    Attributes:
        slot: of the key's gain, or -1 if it has none.
        deviation: how far its gain may be off.
        spread: deviation of what all of one trip has in common, as a share.
        widened: multiplies all deviations of the trip; above one if somebody has released it
            although it is not plausible. Then it says nothing about the key.
    """

    slot: int = -1
    deviation: float = KEY_DEVIATION
    spread: float = 0.0
    widened: float = 1.0

    @property
    def spread_and_gain(self) -> float:
        """The spread of trips where the gain is not learned, but counts as noise of each."""
        return float(np.hypot(self.spread, self.deviation))

    @property
    def vouched(self) -> bool:
        """Whether somebody has released the trip."""
        return self.widened > 1.0


class Reader(Generic[TripSums]):
    """Turns trips into what they say about the roads."""

    def __init__(self, fleet: Fleet, form: type[TripSums]) -> None:
        """Remember the vehicles.

        Args:
            fleet: of these.
            form: what becomes of trips: `Evidence`, or `Observations` for an ensemble.
        """
        self.fleet = fleet
        self.form = form
        self.n_edges = fleet.network.n_edges

    @classmethod
    def of(cls, fleet: Fleet) -> "Reader[Any]":
        """Return the reader whose form the fleet's belief learns from."""
        return Reader(fleet, Observations) if fleet.n_draws else Reader(fleet, Evidence)

    def spans(self, trip: MeasuredTrip) -> Spans:
        """Return what physics expect; only the edges of the trip are looked at."""
        places, lengths = covered(trip)
        energy, potential = self.fleet.physics(trip.vehicle, places)
        cost = np.maximum(energy - potential, 0.0)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
        noise = self.fleet.noise_wh(trip.vehicle)
        own = np.add.reduceat(passage_variance(cost + potential, cost, noise), starts[:-1])
        return Spans(
            places,
            starts,
            cost * self.fleet.unit[places],
            np.add.reduceat(cost + potential, starts[:-1]),
            np.add.reduceat(cost, starts[:-1]),
            self._noise(trip, own),
        )

    def _noise(self, trip: MeasuredTrip, own: Vector) -> Noise:
        """Return the noise of spans, with the energy of motion at their ends if that is unknown."""
        network, before, after = self.fleet.network, trip.last[:-1], trip.first[1:]
        joined = (after == before + 1) & (  # logs may be interrupted
            network.to_junction[trip.edges[before]] == network.from_junction[trip.edges[after]]
        )
        if trip.at_rest:
            return Noise(own, np.zeros(own.size), np.zeros(own.size), joined)
        limits = network.speed_ms[trip.edges]
        between = np.minimum(limits[:-1], limits[1:])
        variance = (MOTION_DEVIATION * kinetic_energy(trip.vehicle, between)) ** 2
        variance = np.concatenate([[0.0], variance, [0.0]])  # a trip begins and ends at rest
        return Noise(own, variance[trip.first], variance[trip.last + 1], joined)

    def evidence(
        self, trips: Sequence[tuple[MeasuredTrip, Source]], numbers: Sequence[int] | None = None
    ) -> TripSums:
        """Return what trips say about roads and gains.

        Args:
            trips: with who measured them.
            numbers: of the trips, no two alike: the noise of draws depends on them.
        """
        if self.form is not Evidence:
            return self._of_all(trips, numbers)
        # every trip links all of its edges: not too many at one time
        return reduce(add, (self._of_all(some) for some in _pieces(trips)))

    def nothing(self) -> TripSums:
        """Return what no trips say."""
        return self.form.nothing(self.fleet.n_arms)

    def _of_all(
        self, trips: Sequence[tuple[MeasuredTrip, Source]], numbers: Sequence[int] | None = None
    ) -> TripSums:
        columns = [
            self.n_edges + source.slot if source.slot >= 0 and not source.vouched else -1
            for _, source in trips
        ]
        units = [self.fleet.gain_unit(source.deviation) for _, source in trips]
        return self._evidence(trips, columns, units, self.fleet.n_arms, numbers)

    def evidence_of_one(
        self, trips: Sequence[tuple[MeasuredTrip, Source]], numbers: Sequence[int] | None = None
    ) -> TripSums:
        """Return what trips of one key say about roads and its gain, which comes last, as it is."""
        count = len(trips)
        columns = [-1 if source.vouched else self.n_edges for _, source in trips]
        return self._evidence(trips, columns, [1.0] * count, self.n_edges + 1, numbers)

    def placed(self, evidence: TripSums, source: Source) -> TripSums:
        """Return the evidence of one key among all arms."""
        roads = np.arange(self.n_edges)
        if source.slot < 0:  # its gain is noise
            evidence = evidence.without_last(1 / source.deviation**2)
            return evidence.moved(self.fleet.n_arms, roads, np.ones(self.n_edges))
        unit = self.fleet.gain_unit(source.deviation)
        place = self.n_edges + source.slot
        return evidence.moved(
            self.fleet.n_arms, np.append(roads, place), np.append(np.ones(self.n_edges), unit)
        )

    def _evidence(
        self,
        trips: Sequence[tuple[MeasuredTrip, Source]],
        columns: Sequence[int],
        units: Sequence[float],
        n_arms: int,
        numbers: Sequence[int] | None,
    ) -> TripSums:
        told = [place for place, (trip, _) in enumerate(trips) if trip.first.size]
        if not told:  # some say how long they took, and no more
            return self.form.nothing(n_arms)
        if len(told) < len(trips):
            trips = [trips[place] for place in told]
            columns, units = [columns[place] for place in told], [units[place] for place in told]
            numbers = None if numbers is None else [numbers[place] for place in told]
        places, weights, sizes, values, noise, shares = [], [], [], [], [], []
        for (trip, source), column, unit in zip(trips, columns, units, strict=True):
            spans, spread = self.spans(trip), source.spread
            if column >= 0:
                spans = spans.with_gain(column, unit)
            else:
                spread = source.spread_and_gain
            rows, off = spans.rows(n_arms), spans.energy_wh - trip.energies_wh
            variance = source.widened**2 * spans.noise.each
            common = source.widened * spread * spans.magnitude_wh
            if not spans.noise.is_diagonal:
                white = spans.noise.whitening()
                rows, off, common = csr_array(white @ rows), white @ off, white @ common
                variance = np.full(off.size, source.widened**2)
            places.append(rows.indices)
            weights.append(rows.data)
            sizes.append(np.diff(rows.indptr))
            values.append(off)
            noise.append(variance)
            shares.append(common)
        counts = [value.size for value in values]
        total = sum(counts)
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.intp)
        shape = (total, n_arms)
        whole = csr_array((np.concatenate(weights), np.concatenate(places), starts), shape=shape)
        owners = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        links = csr_array(
            (np.concatenate(shares), np.arange(total), owners), shape=(len(trips), total)
        )
        said = whole, np.concatenate(values), np.concatenate(noise), links
        found = self.form.of_functionals(*said)
        if numbers is None:
            return found
        owner = np.repeat(np.arange(len(trips)), counts)
        keys = np.asarray(numbers, dtype=np.int64)[owner] * SPANS_OF_KEY
        return found.with_keys(keys + np.arange(total) - owners[owner])

    def times(self, trips: Iterable[MeasuredTrip]) -> TimeSums:
        """Return what trips say about travel times."""
        return self.fleet.time_model.sums([trip.timed for trip in trips if trip.timed is not None])

    def visits(self, trips: Iterable[MeasuredTrip]) -> Vector:
        """Return how often each edge was part of a measurement, shape (n,)."""
        places = [covered(trip)[0] for trip in trips]
        flat = np.concatenate(places) if places else np.empty(0, dtype=np.intp)
        return np.bincount(flat, minlength=self.n_edges).astype(np.float64)


def _pieces(
    trips: Sequence[tuple[MeasuredTrip, Source]],
) -> Iterator[Sequence[tuple[MeasuredTrip, Source]]]:
    """Yield trips in pieces that link at most so many pairs of edges, or single ones."""
    begin = links = 0
    for place, (trip, _) in enumerate(trips):
        mine = trip.edges.size**2
        if links + mine > _MOST_LINKS and place > begin:
            yield trips[begin:place]
            begin, links = place, 0
        links += mine
    yield trips[begin:]


def covered(trip: MeasuredTrip) -> tuple[Rows, Rows]:
    """Return the edges of all spans, one span after the other, and the size of each."""
    lengths = trip.last - trip.first + 1
    if trip.is_whole and (trip.first[1:] > trip.last[:-1]).all():
        return trip.edges, lengths
    begin = np.cumsum(lengths) - lengths
    places = np.repeat(trip.first - begin, lengths) + np.arange(int(lengths.sum()))
    return trip.edges[places], lengths
