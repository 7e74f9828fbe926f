"""Trips from logs: cut where the vehicle stood, matched to roads, energy between readings.

Between two readings of the battery nobody knows where its energy went, so that a measurement is a
span of edges between two readings. Where readings are dense (every few seconds) every edge is one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.errors import DataError
from superarm.roads.imports.logs import Log, zone_of_utc
from superarm.roads.matching.matcher import Match, Matcher, Part, Trace
from superarm.roads.matching.trees import MOST_ENTRIES
from superarm.roads.network.geography import Geography
from superarm.roads.network.network import RoadNetwork
from superarm.roads.vehicle import Vehicle
from superarm.saving.parquet import read_lists, write_columns

_LONG_STOP_S = 300.0
_STILL_M = 50.0
_DENSE_S = 10.0
_FEWEST_POINTS = 3
_LEAST_M = 200.0
_ENDS_M = 3.0
_A_YEAR_S = 3.2e7
_LEAST_STEP_S = 0.01  # over less than this a distance says nothing about a speed
_OFTEN = 0.3
_TOO_SHORT = f"no edge was driven from end to end, or less than {_LEAST_M:.0f} m"


@dataclass(frozen=True, eq=False)
class MatchedTrip:
    """A trip on roads, with what was measured of it.

    Attributes:
        trip_id: the same whenever the same log is read.
        driven_s: when it began, seconds since 1970.
        edges: positions in the network, in driving order, shape (k,).
        entered_s: when each was entered, and when the last was left, shape (k + 1,).
        speed_ms: at these moments, shape (k + 1,).
        first: where in `edges` measured spans begin, shape (m,).
        last: where they end, inclusive, shape (m,).
        energy_wh: of each span, shape (m,).
        warm_c: mean temperature, NaN if not known.
        vehicle: what drove, without what was on board and the air of that day.
        has_times: whether times were logged, or made up for a track without any.
    """

    trip_id: str
    driven_s: float
    edges: Rows
    entered_s: Vector
    speed_ms: Vector
    first: Rows
    last: Rows
    energy_wh: Vector
    warm_c: float = np.nan
    vehicle: Vehicle = field(default_factory=Vehicle)
    has_times: bool = True

    @property
    def total_s(self) -> float:
        """How long it took."""
        return float(self.entered_s[-1] - self.entered_s[0])

    @property
    def is_by_edge(self) -> bool:
        """Whether every edge was measured by itself."""
        return self.first.size == self.edges.size and bool((self.first == self.last).all())

    def stored(self) -> dict[str, object]:
        """Return what to store."""
        return vars(self).copy()

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "MatchedTrip":
        """Return the trip; one stored before vehicles were part of it was driven by a car."""
        return cls(**parts)


@dataclass(eq=False)
class ImportReport:
    """What became of logs.

    Attributes:
        points: how many there were.
        matched: how many of these are on a road of a trip.
        trips: how many trips were made of them.
        rejected: parts of logs that are no trips, and why.
        dropped: rows of files that could not be used, by reason.
        visits: how often every edge was driven, shape (n,).
    """

    points: int = 0
    matched: int = 0
    trips: int = 0
    rejected: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    visits: Vector = field(default_factory=lambda: np.zeros(0))

    def lines(self) -> list[str]:
        """Return it in words."""
        share = self.matched / self.points if self.points else 0.0
        told = [f"{self.points:,} points, {share:.1%} of them on roads of {self.trips:,} trips"]
        told += [f"{count:,} rows left out: {why}" for why, count in self.dropped.items()]
        return told + [f"no trip: {why}" for why in self.rejected]


class Importer:
    """Makes trips of logs on one network; the report grows with every log.

    Args:
        network: the roads.
        accuracy_m: standard deviation of GPS errors in each direction.
        long_stop_s: a vehicle that stands for longer has arrived.
        most_entries: how much the matcher may remember.
        vehicle: whose logs they are.
    """

    def __init__(
        self,
        network: RoadNetwork,
        accuracy_m: float = 10.0,
        long_stop_s: float = _LONG_STOP_S,
        most_entries: int = MOST_ENTRIES,
        vehicle: Vehicle | None = None,
    ) -> None:
        """Prepare the network."""
        self._vehicle = Vehicle() if vehicle is None else vehicle
        self.network = network
        self.report = ImportReport(visits=np.zeros(network.n_edges))
        self._geography = Geography(network)
        self._matcher = Matcher(network, accuracy_m, most_entries=most_entries)
        self._long_stop_s = long_stop_s

    def trips(self, log: Log) -> list[MatchedTrip]:
        """Return the trips of a log."""
        report = self.report
        report.points += len(log)
        log = self._on_the_plane(log)
        for why, count in log.dropped.items():
            report.dropped[why] = report.dropped.get(why, 0) + count
        found: list[MatchedTrip] = []
        for rows in self._driven(log):
            part = log.take(rows)
            found += self._matched(part)
        report.trips += len(found)
        for trip in found:
            np.add.at(report.visits, trip.edges, 1.0)
        return found

    def _on_the_plane(self, log: Log) -> Log:
        """Return the points that the plane of the network knows: others are a world away."""
        known = np.isfinite(self._geography.plane_of(log.globe))
        fine = known[:, 0] & known[:, 1]
        if fine.all():
            return log
        away = {"too far away for the map": int((~fine).sum())}
        return replace(log.where(fine), dropped={**log.dropped, **away})

    def _driven(self, log: Log) -> Iterator[slice]:
        """Yield the rows between long stops and long gaps."""
        if not log.has_times:
            yield slice(0, len(log))
            return
        xy = self._geography.plane_of(log.globe)
        begin, anchor = 0, 0
        for point in range(1, len(log)):
            gap = log.time_s[point] - log.time_s[point - 1]
            moved = float(np.hypot(*(xy[point] - xy[anchor])))
            if gap > self._long_stop_s:
                yield slice(begin, point)
                begin = anchor = point
            elif moved > _STILL_M:
                if (
                    log.time_s[point] - log.time_s[anchor] > self._long_stop_s
                    and point > anchor + 1
                ):
                    yield slice(begin, anchor + 1)
                    begin = point - 1
                anchor = point
        # what stands at the end is no part of a trip
        stood = len(log) and log.time_s[-1] - log.time_s[anchor] > self._long_stop_s
        yield slice(begin, anchor + 1 if stood else len(log))

    def _matched(self, log: Log) -> list[MatchedTrip]:
        """Return the trips of a drive: one for each stretch that was matched without a gap."""
        if not len(log):
            return []
        when = f"{log.name} at {zone_of_utc(log.time_s[0]):%Y-%m-%d %H:%M:%S}"
        if len(log) < _FEWEST_POINTS:
            self.report.rejected.append(f"{when}: {len(log)} points without a stop or a long gap")
            return []
        match = self._matcher.match(Trace(log.time_s, self._geography.plane_of(log.globe)))
        found = []
        for number, part in enumerate(match.parts):
            trip = self._trip(log, part, f"{log.name}-{log.time_s[0]:.0f}-{number}")
            if trip is None or part.points.size < _FEWEST_POINTS:
                continue
            self.report.matched += part.points.size
            found.append(trip)
        self._explain(match, when, len(found))
        return found

    def _explain(self, match: Match, when: str, found: int) -> None:
        if not found:
            why = match.problems[0] if match.problems else _TOO_SHORT
            self.report.rejected.append(f"{when}: {why}")
        elif match.problems:
            self.report.rejected += [f"{when}: {problem}" for problem in match.problems]

    def _trip(self, log: Log, part: Part, name: str) -> MatchedTrip | None:
        """Return the trip over the edges that were driven from end to end, if it is one."""
        lengths = self.network.length_m
        starts = np.append(0.0, np.cumsum(lengths[part.edges]))
        share = part.offset_m / self._geometry[part.edges[part.place]]
        along = starts[part.place] + np.clip(share, 0.0, 1.0) * lengths[part.edges[part.place]]
        along = np.maximum.accumulate(along)
        clock = log.time_s[part.points]
        moving = np.concatenate([[True], np.diff(along) > 0])
        moving[-1] = True
        # half an edge says nothing about a whole one; ends are off by a few metres
        whole = np.flatnonzero(
            (starts[:-1] >= along[0] - _ENDS_M) & (starts[1:] <= along[-1] + _ENDS_M)
        )
        if along[-1] - along[0] < _LEAST_M or not whole.size:
            return None
        inner = slice(int(whole[0]), int(whole[-1]) + 1)
        marks = np.clip(starts[inner.start : inner.stop + 1], along[0], along[-1])
        entered = np.interp(marks, along[moving], clock[moving])
        first, last, energy = _spans(log, entered)
        warm = log.warm_c[part.points]
        return MatchedTrip(
            trip_id=name,
            driven_s=float(clock[0]),
            edges=part.edges[inner],
            entered_s=entered,
            speed_ms=_speeds(log, part, along, entered),
            first=first,
            last=last,
            energy_wh=energy,
            warm_c=float(np.nanmean(warm)) if np.isfinite(warm).any() else np.nan,
            vehicle=self._vehicle,
            has_times=log.has_times,
        )

    @property
    def _geometry(self) -> Vector:
        """Lengths of edges along their geometry, along which points are placed."""
        return np.maximum(self._matcher.geometry_m, 1e-9)


def _spans(log: Log, entered: Vector) -> tuple[Rows, Rows, Vector]:
    """Return measured spans of edges: they begin and end where a reading was near.

    Of a counter that moves seldom (a state of charge in steps) only the moments count at which it
    moved; boundaries of edges go to the closest of these. Of one that moves often every reading
    counts, and boundaries that no reading is near to are none.
    """
    nothing = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0)
    known = np.flatnonzero(np.isfinite(log.used_wh))
    if known.size < 2:  # noqa: PLR2004 - a difference
        return nothing
    moved = np.append(True, np.diff(log.used_wh[known]) != 0)
    readings = known if moved.mean() > _OFTEN else known[moved]
    clock, used = log.time_s[readings], log.used_wh[readings]
    inside = clock[(clock >= entered[0] - _DENSE_S) & (clock <= entered[-1] + _DENSE_S)]
    if inside.size < 2:  # noqa: PLR2004 - likewise
        return nothing
    nearest = _nearest(inside, entered)
    if np.median(np.diff(inside)) <= _DENSE_S:
        cuts = np.flatnonzero(np.abs(entered - inside[nearest]) <= _DENSE_S)
    else:
        cuts = np.unique(_nearest(entered, inside))
    if cuts.size < 2:  # noqa: PLR2004 - a span has two ends
        return nothing
    at = np.interp(entered[cuts], clock, used)
    return cuts[:-1].astype(np.intp), (cuts[1:] - 1).astype(np.intp), np.diff(at)


def _nearest(of: Vector, to: Vector) -> Rows:
    """Return which of some rising moments is nearest to each of others."""
    right = np.clip(np.searchsorted(of, to), 0, of.size - 1)
    left = np.maximum(right - 1, 0)
    closer = np.abs(of[left] - to) <= np.abs(of[right] - to)
    return np.where(closer, left, right).astype(np.intp)


def _speeds(log: Log, part: Part, along: Vector, entered: Vector) -> Vector:
    """Return speeds at the boundaries of edges: as logged, or from how far it went."""
    clock = log.time_s[part.points]
    logged = log.speed_ms[part.points]
    known = np.isfinite(logged)
    if known.mean() > 0.5:  # noqa: PLR2004 - most of them
        return np.maximum(np.interp(entered, clock[known], logged[known]), 0.0)
    apart = _apart(clock, _LEAST_STEP_S)
    clock, along = clock[apart], along[apart]
    speed = np.gradient(along, clock) if clock.size > 1 else np.zeros(clock.size)
    return np.maximum(np.interp(entered, clock, speed), 0.0)


def _apart(clock: Vector, least_s: float) -> Rows:
    """Return which moments to keep so that each is at least so much later than the one before."""
    kept = [0]
    for place, moment in enumerate(clock.tolist()):
        if moment - clock[kept[-1]] >= least_s:
            kept.append(place)
    return np.array(kept, dtype=np.intp)


def write_trips(path: Path, network: RoadNetwork, trips: Sequence[MatchedTrip]) -> None:
    """Write trips as Parquet, one row each; edges are named by their ids."""
    ids = network.edge_ids
    columns: dict[str, Any] = {
        "trip_id": [trip.trip_id for trip in trips],
        "driven_at": [zone_of_utc(trip.driven_s).isoformat() for trip in trips],
        "vehicle": [trip.vehicle.to_json() for trip in trips],
        "edges": [ids[trip.edges].tolist() for trip in trips],
        "entered_s": [trip.entered_s.tolist() for trip in trips],
        "speeds_ms": [trip.speed_ms.tolist() for trip in trips],
        "first": [trip.first.tolist() for trip in trips],
        "last": [trip.last.tolist() for trip in trips],
        "energy_wh": [trip.energy_wh.tolist() for trip in trips],
        "temperature_c": [trip.warm_c for trip in trips],
        "has_times": [trip.has_times for trip in trips],
    }
    write_columns(path, columns)


def read_trips(path: Path, network: RoadNetwork) -> list[MatchedTrip]:
    """Read what `write_trips` wrote; trips over edges that the network does not have are errors."""
    columns = read_lists(path)
    count = len(next(iter(columns.values()), []))
    rows = [{name: values[row] for name, values in columns.items()} for row in range(count)]
    return [_read(path, network, row) for row in rows]


def _read(path: Path, network: RoadNetwork, row: Mapping[str, Any]) -> MatchedTrip:
    try:
        places = network.positions(row["edges"])
        if None in places:
            missing = row["edges"][places.index(None)]
            msg = (
                f"{path}: trip {row['trip_id']} drives on {missing!r}, which {network.name} has not"
            )
            raise DataError(msg)
        driven = [place for place in places if place is not None]
        return MatchedTrip(
            trip_id=str(row["trip_id"]),
            driven_s=float(row["entered_s"][0]),
            edges=np.array(driven, dtype=np.intp),
            entered_s=np.array(row["entered_s"], dtype=np.float64),
            speed_ms=np.array(row["speeds_ms"], dtype=np.float64),
            first=np.array(row["first"], dtype=np.intp),
            last=np.array(row["last"], dtype=np.intp),
            energy_wh=np.array(row["energy_wh"], dtype=np.float64),
            warm_c=float(row["temperature_c"] if row["temperature_c"] is not None else np.nan),
            vehicle=Vehicle.from_json(row.get("vehicle", "car")),
            # times that were made up begin in 1970
            has_times=bool(row.get("has_times", row["entered_s"][0] > _A_YEAR_S)),
        )
    except (KeyError, TypeError, IndexError) as error:
        msg = f"{path} is no file of trips: it lacks {error}"
        raise DataError(msg) from error
    except ValueError as error:
        msg = f"{path}: trip {row['trip_id']}: {error}"
        raise DataError(msg) from error


def reports_of(trips: Iterable[MatchedTrip], network: RoadNetwork) -> Iterator[dict[str, Any]]:
    """Yield trips as the service takes them; those that say nothing are left out.

    A trip without readings of its battery says how long it took.
    """
    for trip in trips:
        if not trip.energy_wh.size and not trip.has_times:
            continue
        body: dict[str, Any] = {
            "trip_id": trip.trip_id[:100].replace(" ", "_"),
            "driven_at": zone_of_utc(trip.driven_s).isoformat(),
            "edges": network.edge_ids[trip.edges].tolist(),
        }
        if trip.has_times:
            took = np.diff(trip.entered_s)
            body["edge_duration_s"] = [round(float(seconds), 2) for seconds in took]
        body |= _vehicle_of(trip.vehicle)
        if np.isfinite(trip.warm_c):
            body["temperature_c"] = round(float(trip.warm_c), 1)
        if not trip.energy_wh.size:
            yield body
            continue
        if trip.has_times:
            body["speeds_ms"] = [round(float(speed), 2) for speed in trip.speed_ms]
        if trip.is_by_edge:
            body["edge_energy_wh"] = [round(float(energy), 4) for energy in trip.energy_wh]
        else:
            spans = zip(
                trip.first.tolist(), trip.last.tolist(), trip.energy_wh.tolist(), strict=True
            )
            body["spans"] = [
                {"first": a, "last": b, "energy_wh": round(energy, 4)} for a, b, energy in spans
            ]
        yield body


def _vehicle_of(vehicle: Vehicle) -> dict[str, Any]:
    """Return what a report says of its vehicle: its class, or what differs from a car."""
    if vehicle.class_name is not None:
        return {"vehicle": vehicle.class_name}
    usual = asdict(Vehicle())
    return {"vehicle": {n: v for n, v in asdict(vehicle).items() if v != usual[n]}}
