"""Traces of GPS points with readings of the battery: matched here, then trips like any other.

Points are forgotten as soon as they are matched, unless a setting keeps them: what is stored are
edges, energies and times.
"""

from datetime import datetime
from threading import Lock
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from superarm.roads.imports.importer import Importer, MatchedTrip, reports_of
from superarm.roads.imports.logs import Log, integrated
from superarm.roads.network.city import generate_city
from superarm.roads.network.geography import Geography
from superarm.roads.network.network import RoadNetwork
from superarm.service.trips.schemas import MOST_TRIP_EDGES, Time, TripIn, TripOutcome
from superarm.service.vehicles import Given, Payload, Temperature, VehicleIn

MOST_POINTS = 5_000
"""Points of one trace; longer ones are sent in parts."""

_MOST_WH = 1e8
_ACCURACIES_M = (3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_MOST_ENTRIES = 2_000_000
_SMALLEST, _FEW = 500, 60  # edges of a city, points of a trace
_Seconds = Annotated[float, Field(ge=0, le=7 * 86_400)]
_Reading = Annotated[float, Field(ge=-_MOST_WH, le=_MOST_WH)]
_Column = Field(min_length=2, max_length=MOST_POINTS)
_Readings = Annotated[list[_Reading | None], _Column]


class TraceIn(Given):
    """Report where a vehicle was, and what its battery said, as columns of equal length."""

    trace_id: Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[\x21-\x7e]+$")]
    begins_at: Time = Field(description="RFC 3339 with offset; seconds count from here.")
    seconds: Annotated[list[_Seconds], _Column] = Field(description="Rising.")
    longitude: Annotated[list[Annotated[float, Field(ge=-180, le=180)]], _Column]
    latitude: Annotated[list[Annotated[float, Field(ge=-90, le=90)]], _Column]
    used_wh: _Readings | None = Field(
        default=None, description="Taken from the battery since any moment; null between readings."
    )
    power_w: _Readings | None = Field(default=None, description="Positive while it discharges.")
    charge_percent: _Readings | None = Field(default=None, description="With capacity_wh.")
    capacity_wh: Annotated[float, Field(gt=0, le=1e7)] | None = None
    speed_ms: Annotated[list[Annotated[float, Field(ge=0, le=120)] | None], _Column] | None = None
    accuracy_m: Annotated[float, Field(ge=1, le=100)] = Field(
        default=10.0, description="Standard deviation of GPS errors in each direction."
    )
    vehicle: VehicleIn = "car"
    temperature_c: Temperature | None = None
    payload_kg: Payload | None = None

    @model_validator(mode="after")
    def _fits(self) -> "TraceIn":
        size = len(self.seconds)
        named = ("longitude", "latitude", "used_wh", "power_w", "charge_percent", "speed_ms")
        for name in named:
            column = getattr(self, name)
            if column is not None and len(column) != size:
                msg = f"{name} has {len(column)} entries for {size} points"
                raise ValueError(msg)
        if (np.diff(self.seconds) <= 0).any():
            msg = "seconds must rise from point to point"
            raise ValueError(msg)
        given = [self.used_wh, self.power_w, self.charge_percent]
        if sum(column is not None for column in given) > 1:
            msg = "give at most one of used_wh, power_w and charge_percent"
            raise ValueError(msg)
        if (self.charge_percent is None) != (self.capacity_wh is None):
            msg = "charge_percent and capacity_wh go together"
            raise ValueError(msg)
        return self

    @property
    def is_read(self) -> bool:
        """Whether it says anything of the battery."""
        readings = (self.used_wh, self.power_w, self.charge_percent)
        return any(column is not None for column in readings)

    def log(self) -> Log:
        """Return the points and what was used so far."""
        seconds = np.array(self.seconds)
        return Log(
            self.trace_id,
            self.begins_at.timestamp() + seconds,
            np.column_stack([self.longitude, self.latitude]),
            self._used(seconds),
            _numbers(self.speed_ms, seconds.size),
            np.full(seconds.size, np.nan),
        )

    def _used(self, seconds: Any) -> Any:  # noqa: ANN401 - arrays
        if self.used_wh is not None:
            return _numbers(self.used_wh, seconds.size)
        if self.charge_percent is not None:
            charge = _numbers(self.charge_percent, seconds.size)
            return -charge / 100 * (self.capacity_wh or 0.0)
        if self.power_w is not None:
            return integrated(_numbers(self.power_w, seconds.size), seconds)
        return np.full(seconds.size, np.nan)  # times alone


class TraceOutcome(BaseModel):
    """What became of a trace."""

    trace_id: str
    points: int
    matched: int = Field(description="How many points are on roads of trips.")
    problems: list[str] = Field(description="Where and why the trace was cut or not matched.")
    trips: list[TripOutcome]


class TraceReader:
    """Matches traces to roads, one at a time."""

    def __init__(self, network: RoadNetwork) -> None:
        """Remember the roads."""
        self._network = network
        self._importers: dict[float, Importer] = {}
        self._lock = Lock()

    def read(self, trace: TraceIn) -> tuple[TraceOutcome, list[TripIn]]:
        """Return trips to be kept like any other, and what is known already of the outcome."""
        with self._lock:
            importer = self._importer(trace.accuracy_m)
            before = importer.report.matched, len(importer.report.rejected)
            trips = importer.trips(trace.log())
            matched = importer.report.matched - before[0]
            problems = importer.report.rejected[before[1] :]
            importer.report.rejected.clear()
        outcome = TraceOutcome(
            trace_id=trace.trace_id,
            points=len(trace.seconds),
            matched=matched,
            problems=problems,
            trips=[],
        )
        good: list[TripIn] = []
        for number, trip in enumerate(trips):
            name = f"{trace.trace_id}.{number}"
            reason = _unusable(trip, is_read=trace.is_read)
            if reason is not None:
                outcome.trips.append(TripOutcome(trip_id=name, status="rejected", detail=reason))
                continue
            (body,) = reports_of([trip], self._network)
            names = ("vehicle", "temperature_c", "payload_kg")
            body |= {"trip_id": name} | {each: getattr(trace, each) for each in names}
            # the time of day there, as the trace says it
            local = datetime.fromtimestamp(trip.driven_s, trace.begins_at.tzinfo)
            body["driven_at"] = local.isoformat()
            try:
                good.append(TripIn.model_validate(body))
            except ValidationError as error:
                detail = str(error.errors()[0]["msg"])
                outcome.trips.append(TripOutcome(trip_id=name, status="rejected", detail=detail))
        return outcome, good

    def _importer(self, accuracy_m: float) -> Importer:
        """Return the importer of the next usual accuracy; what each remembers is bounded."""
        usual = next(one for one in _ACCURACIES_M if one >= accuracy_m)
        if usual not in self._importers:
            self._importers[usual] = Importer(self._network, usual, most_entries=_MOST_ENTRIES)
        return self._importers[usual]


def prepare() -> None:
    """Compile what matches traces, on a city as small as can be.

    It takes some seconds the first time on a machine, whatever the network that is served: what the
    matcher keeps of that one is made for its first trace.
    """
    network = generate_city(seed=0, n_edges=_SMALLEST).largest_component()
    start, goal = Geography(network).to_globe(network.junction_xy_m[:2])
    longitude, latitude = np.linspace(start, goal, _FEW).T
    columns = {"longitude": longitude.tolist(), "latitude": latitude.tolist()}
    seconds = [10.0 * number for number in range(_FEW)]
    trace = {"trace_id": "prepare", "begins_at": "2026-01-01T00:00:00Z", "seconds": seconds}
    TraceReader(network).read(TraceIn.model_validate(trace | columns | {"used_wh": seconds}))


def _unusable(trip: MatchedTrip, *, is_read: bool) -> str | None:
    if is_read and not trip.energy_wh.size:
        return "no two readings of the battery lie on it"
    if trip.edges.size > MOST_TRIP_EDGES:
        return (
            f"it has {trip.edges.size:,} edges, at most {MOST_TRIP_EDGES:,} are taken; send parts"
        )
    return None


def _numbers(column: list[float | None] | None, size: int) -> Any:  # noqa: ANN401 - an array
    if column is None:
        return np.full(size, np.nan)
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
