"""From a report to what is stored: names to edges, edges to a path, energies to a verdict.

Nothing here touches the database, so that it can be done beside everything else; who asks, and
whether the trip is known already, is for `superarm.service.trips.store`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.roads.models.intervals import INTERVAL
from superarm.roads.models.likelihood import MeasuredTrip, Reader
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.models.times import TimedDrive, part_of_day
from superarm.roads.network.access import is_heavy
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.motion import kinetic_energy
from superarm.roads.vehicle import CLASSES, Vehicle
from superarm.service.routes.tokens import IssuedRoute, RouteTokens, UnknownRouteError
from superarm.service.trips.durations import judged_times
from superarm.service.trips.packing import (
    UnusableTripError,
    content_digest,
    packed,
    spans_of,
    stretches_of,
)
from superarm.service.trips.plausibility import Verdict, judged
from superarm.service.trips.schemas import TripIn, printable
from superarm.service.trips.standings import Standing
from superarm.service.vehicles import class_of, driven, vehicle_of

MOST_SUGGESTIONS = 3
"""For how many unknown edges of a request it is said what comes close."""


@dataclass(frozen=True, eq=False)
class Checked:
    """A report that was looked at.

    Attributes:
        key_id: who sent it.
        owner: whose trip ids these are: keys of one name share them.
        trip: what was sent.
        digest: a checksum of it.
        row: columns to store.
        implausible: why it is not believed, if so.
        z: how many deviations its energy is off.
        worst: how many deviations its worst measurement, or all of it, is off.
        left_out: measurements that are not believed, by position.
        problem: why it cannot be used at all, if so.
        note: what else was left out, and why, if so.
    """

    key_id: str
    owner: str
    trip: TripIn
    digest: str
    row: Mapping[str, object]
    implausible: str | None = None
    z: float = 0.0
    worst: float = 0.0
    left_out: tuple[int, ...] = ()
    problem: str | None = None
    note: str | None = None

    @property
    def has_energy(self) -> bool:
        """Whether it says what was used, and not only how long it took."""
        return self.row.get("energies_wh") != b""


class Intake:
    """Looks at reports, given what is believed now."""

    def __init__(
        self,
        network: RoadNetwork,
        reader: Reader[Any],
        tokens: RouteTokens,
        zone: ZoneInfo | None = None,
    ) -> None:
        """Index the legal turns.

        Args:
            network: the roads.
            reader: knows the vehicles.
            tokens: read route ids.
            zone: in which the roads are; by default times of day are as reports write them.
        """
        self.network = network
        self._zone = zone
        self.reader = reader
        self._tokens = tokens
        turns = network.turns.astype(np.int64)
        self._turns = np.unique(turns[:, 0] * network.n_edges + turns[:, 1])

    def checked(  # noqa: PLR0913, PLR0917 - a report, who sent it, and what is believed
        self,
        trips: Sequence[TripIn],
        key_id: str,
        owner: str,
        standing: Standing,
        posterior: RoadPosterior,
        widened: float = 1.0,
        suggestions: int = MOST_SUGGESTIONS,
    ) -> list[Checked]:
        """Look at the trips of one request.

        Args:
            trips: what was sent.
            key_id: by whom.
            owner: the name of the key.
            standing: of the key.
            posterior: what is believed now.
            widened: multiplies the deviations of the gate.
            suggestions: for how many unknown edges to say what comes close.
        """
        found = []
        for trip in trips:
            digest = content_digest(trip)
            try:
                found.append(self._one(trip, digest, key_id, owner, standing, posterior, widened))
            except _UnknownEdgeError as unknown:
                problem = unknown.shown(self.network if suggestions > 0 else None)
                suggestions -= 1
                found.append(Checked(key_id, owner, trip, digest, {}, problem=problem))
            except (UnusableTripError, UnknownRouteError) as error:
                found.append(Checked(key_id, owner, trip, digest, {}, problem=str(error)))
        return found

    def _one(  # noqa: PLR0913, PLR0917 - as above
        self,
        trip: TripIn,
        digest: str,
        key_id: str,
        owner: str,
        standing: Standing,
        posterior: RoadPosterior,
        widened: float,
    ) -> Checked:
        measured, route = self.measured(trip)
        times = None
        if measured.timed is not None:
            now, before = posterior.times, posterior.fleet.usual_times
            factor = posterior.time_factor_of(key_id)
            times = judged_times(measured.timed, now, before, self.network.length_m, factor)
            measured = replace(measured, timed=times.drive)
            times = times.of_key(standing.durations_reason)
        spread = posterior.spread_of(key_id)
        verdict = judged(measured, standing.source(spread), posterior, self.reader, widened)
        return Checked(
            key_id,
            owner,
            trip,
            digest,
            self._row(verdict, route, trip, spread) | ({} if times is None else times.row()),
            verdict.reason,
            verdict.z,
            verdict.worst,
            tuple(verdict.left_out.tolist()),
            note=None if times is None else times.note,
        )

    def measured(self, trip: TripIn) -> tuple[MeasuredTrip, IssuedRoute | None]:
        """Return a trip as arrays, and the route it was driven on, if it says so."""
        route = None if trip.route_id is None else self._tokens.read(trip.route_id)
        edges = self._edges(trip) if route is None else route.edges
        vehicle = self._vehicle(trip, route)
        first, last, energies = spans_of(trip, edges.size)
        known = trip.speeds_ms is not None
        if trip.speeds_ms is not None:
            energies = energies - _of_motion(vehicle, trip.speeds_ms, first, last, edges.size)
        timed = self._timed(trip, edges, vehicle)
        return MeasuredTrip(vehicle, edges, first, last, energies, known, timed), route

    @staticmethod
    def _vehicle(trip: TripIn, route: IssuedRoute | None) -> Vehicle:
        """Return what drove, with what was on board, in the air there was."""
        if trip.vehicle is None and route is not None:
            return route.vehicle
        usual = CLASSES["car"] if trip.vehicle is None else vehicle_of(trip.vehicle)
        return driven(usual, trip.temperature_c, trip.payload_kg)

    def _timed(self, trip: TripIn, edges: Rows, vehicle: Vehicle) -> TimedDrive | None:
        """Return how long parts of a trip took, if it says so."""
        found = stretches_of(trip, edges.size)
        if found is None:
            return None
        try:
            here = trip.driven_at if self._zone is None else trip.driven_at.astimezone(self._zone)
        except OverflowError as error:
            msg = "driven_at lies outside the years 1 to 9999 where the roads are"
            raise UnusableTripError(msg) from error
        return TimedDrive(edges, *found, part_of_day(here), is_heavy(vehicle))

    def _edges(self, trip: TripIn) -> Rows:
        """Return the edges of a trip, which must be a path but where it says otherwise."""
        names = trip.edges or []
        found = self.network.positions(names)
        if None in found:
            raise _UnknownEdgeError(names[found.index(None)])
        edges = np.array(found, dtype=np.intp)
        outside = [gap for gap in trip.gaps if gap >= edges.size - 1]
        if outside:
            msg = f"gaps must be positions before the last edge, 0 to {edges.size - 2}"
            raise UnusableTripError(msg)
        steps = edges[:-1].astype(np.int64) * self.network.n_edges + edges[1:]
        place = np.minimum(np.searchsorted(self._turns, steps), self._turns.size - 1)
        broken = self._turns[place] != steps if self._turns.size else np.ones(steps.size, bool)
        broken[trip.gaps] = False
        if broken.any():
            at = int(np.argmax(broken))
            msg = (
                f"no turn leads from edges[{at}] ({printable(names[at])!r}) to edges[{at + 1}] "
                f"({printable(names[at + 1])!r}); list the edges in driving order, and name "
                f"positions after which the log is interrupted in gaps"
            )
            raise UnusableTripError(msg)
        return edges

    def _row(
        self, verdict: Verdict, route: IssuedRoute | None, trip: TripIn, spread: float
    ) -> dict[str, Any]:
        kept = verdict.trip
        off = abs(kept.measured_wh - verdict.expected_wh)
        row = packed(kept) | {
            "trip_id": trip.trip_id,
            "route_id": None if trip.route_id is None else self._tokens.short(trip.route_id),
            "vehicle_class": _class_of(trip, route),
            "spread": spread,
            "measured_wh": kept.measured_wh,
            "predicted_wh": verdict.expected_wh,
            "predicted_std_wh": verdict.std_wh,
            "inside": bool(off <= INTERVAL * verdict.std_wh),
            "best_wh": None,
            "left_out": None,
            "measured_s": None,
        }
        if route is not None and route.vehicle == kept.vehicle and kept.is_whole:
            row["best_wh"] = route.best_wh
        return row


def _class_of(trip: TripIn, route: IssuedRoute | None) -> str:
    """Return the class of what drove, whatever was on board and however cold it was.

    A route for a vehicle under other conditions does not say of which class it was.
    """
    if trip.vehicle is not None:
        return trip.vehicle if isinstance(trip.vehicle, str) else class_of(trip.vehicle.made())
    return "car" if route is None else class_of(route.vehicle)


def _of_motion(
    vehicle: Vehicle, speeds_ms: Sequence[float], first: Rows, last: Rows, n_edges: int
) -> Vector:
    """Return by how much the energy of motion grows along spans, in Wh."""
    if len(speeds_ms) != n_edges + 1:
        msg = (
            f"speeds_ms has {len(speeds_ms)} entries for {n_edges} edges; give the speed at which "
            "each edge was entered, and the one at the end"
        )
        raise UnusableTripError(msg)
    motion = kinetic_energy(vehicle, speeds_ms)
    return motion[last + 1] - motion[first]


class _UnknownEdgeError(Exception):
    """An id that no edge has."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def shown(self, network: RoadNetwork | None) -> str:
        if network is None:
            return f"there is no edge {printable(self.name)!r}"
        try:
            network.position(self.name)
        except ValueError as error:
            return str(error).encode("ascii", "backslashreplace").decode()
        return f"there is no edge {printable(self.name)!r}"  # pragma: no cover - looked up before
