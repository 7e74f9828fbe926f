"""Trips as arrays: which edges, which spans of them were measured, what that says of the roads."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.beliefs import Evidence
from superarm.navigation import Vehicle
from superarm.service.fleet import Fleet
from superarm.service.schemas import TripIn

ABSURD = 6.0
"""Measurements this many prior standard deviations off are not believed."""

_EDGES, _SPANS, _ENERGIES = np.dtype("<i4"), np.dtype("<i4"), np.dtype("<f8")


class UnusableTripError(Exception):
    """A trip that cannot be taken as it is; the message says why and what to do."""


class ImplausibleTripError(UnusableTripError):
    """A well-formed trip whose energies no vehicle can have used."""


@dataclass(frozen=True, eq=False)
class MeasuredTrip:
    """A trip: edges in driving order and the energy of disjoint spans of them.

    Attributes:
        vehicle: what drove.
        edges: positions in the network, shape (k,).
        first: where in `edges` the spans begin, shape (m,).
        last: where they end, inclusive, shape (m,).
        energies_wh: what each took from the battery, shape (m,).
    """

    vehicle: Vehicle
    edges: Rows
    first: Rows
    last: Rows
    energies_wh: Vector

    @property
    def total_wh(self) -> float | None:
        """The energy of the whole trip, if all of it was measured."""
        covered = int((self.last - self.first + 1).sum()) == self.edges.size
        return float(self.energies_wh.sum()) if covered else None

    def pack(self) -> dict[str, object]:
        """Return columns of the trips table."""
        return {
            "vehicle": packed_vehicle(self.vehicle),
            "edges": pack_edges(self.edges),
            "spans": np.column_stack([self.first, self.last]).astype(_SPANS).tobytes(),
            "energies_wh": self.energies_wh.astype(_ENERGIES).tobytes(),
        }

    @classmethod
    def unpack(cls, vehicle: str, edges: bytes, spans: bytes, energies_wh: bytes) -> "MeasuredTrip":
        """Return a trip from these columns."""
        ends = np.frombuffer(spans, dtype=_SPANS).reshape(-1, 2).astype(np.intp)
        return cls(
            unpacked_vehicle(vehicle),
            unpack_edges(edges),
            ends[:, 0],
            ends[:, 1],
            np.frombuffer(energies_wh, dtype=_ENERGIES).astype(np.float64),
        )


def packed_vehicle(vehicle: Vehicle) -> str:
    """Return a vehicle as text, the same for the same vehicle."""
    return json.dumps(list(asdict(vehicle).values()))


def unpacked_vehicle(text: str) -> Vehicle:
    """Return the vehicle of a text."""
    return Vehicle(*json.loads(text))


def pack_edges(edges: Rows) -> bytes:
    """Return positions of edges as bytes."""
    return edges.astype(_EDGES).tobytes()


def unpack_edges(data: bytes) -> Rows:
    """Return positions of edges."""
    return np.frombuffer(data, dtype=_EDGES).astype(np.intp)


def spans_of(trip: TripIn, n_edges: int) -> tuple[Rows, Rows, Vector]:
    """Return where the measured spans of a trip begin and end, and their energies."""
    if trip.total_energy_wh is not None:
        return np.array([0]), np.array([n_edges - 1]), np.array([trip.total_energy_wh])
    if trip.edge_energy_wh is not None:
        if len(trip.edge_energy_wh) != n_edges:
            msg = (
                f"edge_energy_wh has {len(trip.edge_energy_wh)} entries for {n_edges} edges; give "
                "one per edge, null where none was measured"
            )
            raise UnusableTripError(msg)
        known = [(i, e) for i, e in enumerate(trip.edge_energy_wh) if e is not None]
        if not known:
            msg = "no energy was measured at all; leave the trip out"
            raise UnusableTripError(msg)
        places = np.array([place for place, _ in known], dtype=np.intp)
        return places, places.copy(), np.array([energy for _, energy in known])
    spans = sorted(trip.spans or (), key=lambda span: span.first)
    first = np.array([span.first for span in spans], dtype=np.intp)
    last = np.array([span.last for span in spans], dtype=np.intp)
    if (last < first).any() or last.max() >= n_edges:
        msg = f"spans must run from first to last within the trip's {n_edges} edges (0-based)"
        raise UnusableTripError(msg)
    if (first[1:] <= last[:-1]).any():
        msg = "spans overlap; give every edge to at most one span"
        raise UnusableTripError(msg)
    return first, last, np.array([span.energy_wh for span in spans])


def content_digest(trip: TripIn) -> str:
    """Return a checksum of all that a trip says, its id excepted."""
    body = trip.model_dump_json(exclude={"trip_id"})
    return hashlib.sha256(body.encode()).hexdigest()


class Reader:
    """Turns trips into what they say about the roads."""

    def __init__(self, fleet: Fleet) -> None:
        """Prepare the noise of every edge and the variance of the graph kernel."""
        model = fleet.reference
        self._fleet = fleet
        self.n_edges = fleet.network.n_edges
        self._noise = np.full(self.n_edges, model.noise_std_wh**2)
        self._graph_std = np.sqrt(model.graph_kernel.diagonal(model.arms))

    def require_plausible(self, trip: MeasuredTrip) -> None:
        """Refuse energies that the prior holds for impossible."""
        places, starts, rewards = self._sums([trip])
        noise = np.add.reduceat(self._noise[places], starts[:-1])
        off = np.abs(rewards) / np.sqrt(self._most_variance(places, starts) + noise)
        worst = int(np.argmax(off))
        if off[worst] > ABSURD:
            scale = self._fleet.drivetrain(trip.vehicle).scale
            expected = trip.energies_wh[worst] + scale * rewards[worst]
            msg = (
                f"{trip.energies_wh[worst]:.0f} Wh on edges {trip.first[worst]} to "
                f"{trip.last[worst]} of the trip is not plausible: about {expected:.0f} Wh are "
                "expected of this vehicle; check unit (Wh), sign and vehicle. The trip was put "
                "aside, not learned"
            )
            raise ImplausibleTripError(msg)

    def _most_variance(self, places: Rows, starts: Rows) -> Vector:
        r"""Return bounds from above on the prior variances of sums of edges.

        :math:`k_G k_f + k_f \le k_f (1 + \sqrt{g_i g_j})` with g the diagonal of :math:`k_G`:
        rows of the graph kernel would take sparse solves, and routes would wait for them.
        """
        model = self._fleet.reference
        distinct, which = np.unique(places, return_inverse=True)
        some = model.arms.take(distinct)
        root = self._graph_std[distinct]
        block = model.feature_kernel.gram(some, some) * (1 + root[:, None] * root)
        rows = np.add.reduceat(block[which], starts[:-1], axis=0)
        sums = np.add.reduceat(rows[:, which], starts[:-1], axis=1)
        return sums.diagonal().copy()

    def evidence(self, trips: list[MeasuredTrip]) -> Evidence:
        """Return what these trips say about rewards."""
        if not trips:
            return Evidence.nothing(self.n_edges)
        return Evidence.of_sums(*self._sums(trips), self._noise)

    def visits(self, trips: Iterable[MeasuredTrip]) -> Vector:
        """Return how often each edge was part of a measurement, shape (n,)."""
        places = [_covered(trip)[0] for trip in trips]
        flat = np.concatenate(places) if places else np.empty(0, dtype=np.intp)
        return np.bincount(flat, minlength=self.n_edges).astype(np.float64)

    def _sums(self, trips: list[MeasuredTrip]) -> tuple[Rows, Rows, Vector]:
        places, sizes, rewards = [], [], []
        for trip in trips:
            drivetrain = self._fleet.drivetrain(trip.vehicle)
            mine, lengths = _covered(trip)
            begin = np.cumsum(lengths) - lengths
            expected = np.add.reduceat(drivetrain.energy_wh[mine], begin)
            places.append(mine)
            sizes.append(lengths)
            rewards.append((expected - trip.energies_wh) / drivetrain.scale)
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        return np.concatenate(places), starts.astype(np.intp), np.concatenate(rewards)


def _covered(trip: MeasuredTrip) -> tuple[Rows, Rows]:
    """Return the edges of all spans, one span after the other, and the size of each."""
    lengths = trip.last - trip.first + 1
    if lengths.sum() == trip.edges.size:
        return trip.edges, lengths
    begin = np.cumsum(lengths) - lengths
    places = np.repeat(trip.first - begin, lengths) + np.arange(int(lengths.sum()))
    return trip.edges[places], lengths
