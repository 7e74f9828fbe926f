"""The JSON that goes in and out; units are in the names."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from superarm.navigation import Vehicle
from superarm.service.fleet import CLASSES
from superarm.service.routing import Mode

MOST_TRIP_EDGES = 5_000
MOST_TRIPS = 1_000
_NOT_SHOWN = ("body", "trip", "batch")  # of our making, not the client's

_EdgeId = Annotated[str, Field(min_length=1, max_length=200)]
_Energy = Annotated[float, Field(description="Wh; negative if regenerated.")]
_Positive = Annotated[float, Field(gt=0, le=1e6)]


_RFC_3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def _text_of_time(value: object) -> object:
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC_3339.fullmatch(value)):
        return value
    msg = "give a time as RFC 3339 with an offset, like 2026-03-01T08:15:00+01:00"
    raise ValueError(msg)


def _in_utc(time: datetime) -> datetime:
    try:
        moment = time.astimezone(UTC)
    except OverflowError as error:
        msg = "the time lies outside the years 1 to 9999 in UTC"
        raise ValueError(msg) from error
    if moment > datetime.now(UTC) + timedelta(days=1):
        msg = "the time lies in the future"
        raise ValueError(msg)
    return moment


Time = Annotated[AwareDatetime, BeforeValidator(_text_of_time), AfterValidator(_in_utc)]
"""RFC 3339 with an offset; kept in UTC."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class Parameters(_Model):
    """An electric vehicle by its physics; what is left out is as in the class `car`."""

    mass_kg: Annotated[float, Field(ge=100, le=100_000)] = 1830.0
    rolling_resistance: Annotated[float, Field(gt=0, le=0.1)] = 0.01
    front_area_m2: Annotated[float, Field(gt=0, le=30)] = 2.6
    drag_coefficient: Annotated[float, Field(gt=0, le=3)] = 0.35
    powertrain_efficiency: Annotated[float, Field(ge=0.1, le=1)] = 0.98
    recuperation_efficiency: Annotated[float, Field(ge=0.01, le=1)] = 0.96

    def made(self) -> Vehicle:
        """Return the vehicle."""
        return Vehicle(**self.model_dump())


ClassName = Literal["car", "van", "truck"]
VehicleIn = Annotated[
    ClassName | Parameters, Field(description="A class by name, or the vehicle's parameters.")
]


def vehicle_of(given: ClassName | Parameters) -> Vehicle:
    """Return the vehicle meant."""
    return given.made() if isinstance(given, Parameters) else CLASSES[given]


class Coordinates(_Model):
    """A point on the globe; the closest edge is taken."""

    longitude: Annotated[float, Field(ge=-180, le=180)]
    latitude: Annotated[float, Field(ge=-90, le=90)]
    heading_deg: Annotated[float, Field(ge=0, le=360)] | None = Field(
        default=None, description="Driving direction, clockwise from north."
    )
    within_m: Annotated[float, Field(gt=0, le=5_000)] = Field(
        default=150.0, description="How far the closest edge may be."
    )


PlaceOnRoad = Annotated[_EdgeId | Coordinates, Field(description="An edge id, or coordinates.")]


class BatteryIn(_Model):
    """The battery at the start of the route."""

    charge_wh: Annotated[float, Field(ge=0, le=1e7)]
    capacity_wh: Annotated[float, Field(gt=0, le=1e7)]
    reserve_wh: Annotated[float, Field(ge=0, le=1e7)] = 0.0

    @model_validator(mode="after")
    def _fits(self) -> "BatteryIn":
        if self.charge_wh > self.capacity_wh or self.reserve_wh > self.capacity_wh:
            msg = "charge_wh and reserve_wh must not exceed capacity_wh"
            raise ValueError(msg)
        return self


class RouteRequest(_Model):
    """Ask for a route."""

    start: PlaceOnRoad
    goal: PlaceOnRoad
    vehicle: VehicleIn = "car"
    battery: BatteryIn | None = None
    closed_edges: Annotated[list[_EdgeId], Field(max_length=MOST_TRIP_EDGES)] = []
    mode: Mode = Field(
        default="explore",
        description="explore: Thompson sampling; optimistic: BayesUCB; best: least energy.",
    )
    alternatives: Annotated[int, Field(ge=0, le=3)] = 0
    max_extra_energy: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1, description="Share of the best route's energy that exploring may cost."
    )


class Line(BaseModel):
    """A GeoJSON line."""

    type: Literal["LineString"]
    coordinates: list[list[float]]


class Road(BaseModel):
    """An edge as a GeoJSON feature; its id is its position."""

    type: Literal["Feature"]
    id: int
    geometry: Line
    properties: dict[str, Any]


class RoadCollection(BaseModel):
    """The roads as GeoJSON."""

    type: Literal["FeatureCollection"]
    name: str
    features: list[Road]


class Profile(BaseModel):
    """Along the route, at the end of every edge."""

    distance_m: list[float]
    height_m: list[float]
    energy_wh: list[float]
    energy_std_wh: list[float]


class RouteBody(BaseModel):
    """One way to go."""

    edges: list[str]
    geometry: Line
    length_m: float
    energy_wh: float = Field(description="Expected energy taken from the battery.")
    energy_std_wh: float = Field(description="Of the whole route, jointly, with noise.")
    energy_low_wh: float = Field(description="Lower end of the 90 % predictive interval.")
    energy_high_wh: float
    arrival_probability: float | None = Field(
        description="That the charge stays above the reserve at the end of every edge."
    )
    profile: Profile


class Alternative(RouteBody):
    """Another way to go; it can be driven and reported like the first."""

    route_id: str


class RouteAnswer(RouteBody):
    """The route to drive, and others."""

    route_id: str
    mode: Mode
    exploration_wh: float = Field(description="Expected energy above the best route's.")
    fallback: str | None = Field(description="Why the best route is returned instead, if it is.")
    start_distance_m: float | None = Field(description="From the given point to the start edge.")
    goal_distance_m: float | None
    alternatives: list[Alternative]
    trips_learned: int


class Span(_Model):
    """Energy of consecutive edges, by their positions in the trip's list of edges."""

    first: Annotated[int, Field(ge=0, lt=MOST_TRIP_EDGES)]
    last: Annotated[int, Field(ge=0, lt=MOST_TRIP_EDGES)]
    energy_wh: _Energy


class TripIn(_Model):
    """Report a trip: its edges (or a route id) and the energy of edges, spans, or the whole."""

    trip_id: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$")]
    route_id: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9a-f]+$")] | None = (
        None
    )
    edges: Annotated[list[_EdgeId], Field(min_length=1, max_length=MOST_TRIP_EDGES)] | None = None
    vehicle: VehicleIn | None = Field(
        default=None, description="Left out: that of the route, else a car."
    )
    driven_at: Time = Field(description="RFC 3339 with offset.")
    edge_energy_wh: Annotated[list[_Energy | None], Field(max_length=MOST_TRIP_EDGES)] | None = (
        Field(default=None, description="One per edge; null where none was measured.")
    )
    spans: Annotated[list[Span], Field(min_length=1, max_length=MOST_TRIP_EDGES)] | None = None
    total_energy_wh: _Energy | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> "TripIn":
        if (self.route_id is None) == (self.edges is None):
            msg = "give either route_id or edges"
            raise ValueError(msg)
        measured = (self.edge_energy_wh, self.spans, self.total_energy_wh)
        if sum(value is not None for value in measured) != 1:
            msg = "give exactly one of edge_energy_wh, spans and total_energy_wh"
            raise ValueError(msg)
        return self


class TripBatch(_Model):
    """Up to a thousand trips at once; each is looked at by itself."""

    trips: Annotated[
        list[Annotated[Any, WithJsonSchema({"$ref": "#/components/schemas/TripIn"})]],
        Field(min_length=1, max_length=MOST_TRIPS),
    ]

    def read(self) -> "list[TripIn | TripOutcome]":
        """Return every trip, or why it cannot be read."""
        return [_read(trip) for trip in self.trips]


def _read(trip: object) -> "TripIn | TripOutcome":
    try:
        return TripIn.model_validate(trip)
    except ValidationError as error:
        name = trip.get("trip_id") if isinstance(trip, dict) else None
        shown = name if isinstance(name, str) else ""
        return TripOutcome(trip_id=shown, status="rejected", detail=what_is_wrong(error.errors()))


def what_is_wrong(problems: Sequence[Any]) -> str:
    """Say which part of a request is wrong, and how, without repeating its values."""
    texts = []
    for problem in problems[:5]:
        where = ".".join(str(part) for part in problem["loc"] if part not in _NOT_SHOWN)
        texts.append(f"{where}: {problem['msg']}" if where else str(problem["msg"]))
    return "; ".join(texts)


def _kind(body: object) -> str:
    return "batch" if isinstance(body, (dict, TripBatch)) and "trips" in dict(body) else "trip"


Report = Annotated[
    Annotated[TripIn, Tag("trip")] | Annotated[TripBatch, Tag("batch")], Discriminator(_kind)
]
"""A trip, or several."""


class TripOutcome(BaseModel):
    """What became of a trip."""

    trip_id: str
    status: Literal["accepted", "duplicate", "conflict", "rejected"]
    detail: str | None = None


class TripOutcomes(BaseModel):
    """What became of a batch, in its order."""

    trips: list[TripOutcome]


class BeliefAnswer(BaseModel):
    """What is believed of the energy of edges, as columns."""

    vehicle: str
    trips_learned: int
    edge: list[int] = Field(description="Positions, the ids of features in /v1/network.")
    energy_wh: list[float]
    energy_std_wh: list[float]
    count: list[int] = Field(description="How many measurements the edge was part of.")


class StoredTrip(BaseModel):
    """A trip as it was stored."""

    sequence: int
    trip_id: str
    key: str
    route_id: str | None
    received_at: datetime
    driven_at: datetime
    edges: list[str]
    spans: list[dict[str, Any]]
    total_wh: float | None
    predicted_wh: float | None
    predicted_std_wh: float | None
    best_wh: float | None


class StoredTrips(BaseModel):
    """Some trips, oldest first; go on with `after` set to the last sequence."""

    trips: list[StoredTrip]


class Calibration(BaseModel):
    """Whether predictions were as sure as they claimed, over whole trips on issued routes."""

    trips: int
    coverage_90: float | None = Field(description="Share inside the 90 % interval.")
    mean_z: float | None = Field(description="Zero if predictions are not biased.")
    std_z: float | None = Field(description="One if intervals are as wide as they should be.")


class StatsAnswer(BaseModel):
    """How the service is doing."""

    trips: int
    trips_learned: int
    distinct_edges: int
    quarantined: int
    mean_energy_wh: float | None = Field(description="MeasuredTrip, over whole trips on routes.")
    mean_best_wh: float | None = Field(description="Expected of the best route, when issued.")
    calibration: Calibration
    recent: Calibration = Field(description="Over the last 1,000 such trips.")


class Problem(BaseModel):
    """What went wrong, and what to do."""

    detail: str
    request_id: str
