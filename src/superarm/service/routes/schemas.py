"""Routes and maps as JSON; units are in the names."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, model_validator

from superarm.service.model.vehicle import ClassName, Given, Payload, Temperature, VehicleIn
from superarm.service.routes.matrix import By
from superarm.service.routes.reach import CONFIDENCES
from superarm.service.routes.router import Mode

MOST_CLOSED = 5_000
MOST_VIA = 10
MOST_IN_BATCH = 100
MOST_OF_MATRIX = 100
_YEARS = (1970, 2200)
_COORDINATES = re.compile(r"(-?\d{1,3}(?:\.\d{1,12})?),(-?\d{1,2}(?:\.\d{1,12})?)", re.ASCII)


def _text_of_time(value: object) -> object:
    if isinstance(value, datetime) or (isinstance(value, str) and RFC_3339.fullmatch(value)):
        return value
    msg = "give a time as RFC 3339 with an offset, like 2026-03-01T08:15:00+01:00"
    raise ValueError(msg)


RFC_3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
Moment = Annotated[AwareDatetime, BeforeValidator(_text_of_time)]
"""RFC 3339 with an offset."""

EdgeId = Annotated[str, Field(min_length=1, max_length=200)]


class Coordinates(Given):
    """A point on the globe; the closest edge is taken."""

    longitude: Annotated[float, Field(ge=-180, le=180)]
    latitude: Annotated[float, Field(ge=-90, le=90)]
    heading_deg: Annotated[float, Field(ge=0, le=360)] | None = Field(
        default=None, description="Driving direction, clockwise from north."
    )
    within_m: Annotated[float, Field(gt=0, le=50_000)] = Field(
        default=5_000.0, description="How far the closest road open to the vehicle may be."
    )


PlaceOnRoad = Annotated[EdgeId | Coordinates, Field(description="An edge id, or coordinates.")]


class BatteryIn(Given):
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


class Circumstances(Given):
    """Who drives, when, and in which weather."""

    vehicle: VehicleIn = "car"
    closed_edges: Annotated[list[EdgeId], Field(max_length=MOST_CLOSED)] = Field(default=[])
    departs_at: Moment | None = Field(
        default=None,
        description="RFC 3339 with offset; left out: now. Times are believed by part of the day.",
    )
    temperature_c: Temperature | None = None
    payload_kg: Payload | None = None

    @model_validator(mode="after")
    def _in_our_time(self) -> Self:
        if self.departs_at is not None and not _YEARS[0] <= self.departs_at.year <= _YEARS[1]:
            msg = f"departs_at must lie in the years {_YEARS[0]} to {_YEARS[1]}"
            raise ValueError(msg)
        return self


class RouteRequest(Circumstances):
    """Ask for a route."""

    start: PlaceOnRoad
    goal: PlaceOnRoad
    via: Annotated[list[PlaceOnRoad], Field(max_length=MOST_VIA)] = Field(
        default=[], description="Places to pass on the way, in this order."
    )
    battery: BatteryIn | None = None
    mode: Mode = Field(
        default="explore",
        description="explore: Thompson sampling; optimistic: BayesUCB; best: least energy.",
    )
    alternatives: Annotated[int, Field(ge=0, le=3)] = 0
    max_extra_energy: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1, description="Share of the best route's energy that exploring may cost."
    )
    max_extra_time: Annotated[float, Field(ge=0, le=10)] | None = Field(
        default=None,
        description="How much longer than the fastest route any route may take, as a share.",
    )
    wh_per_minute: Annotated[float, Field(ge=0, le=1e5)] = Field(
        default=0.0, description="What a minute is worth: routes are chosen by energy and time."
    )


class RouteBatch(Given):
    """Ask for several routes at once."""

    routes: Annotated[list[RouteRequest], Field(min_length=1, max_length=MOST_IN_BATCH)]


class ReachRequest(Circumstances):
    """Ask how far the charge lasts."""

    start: PlaceOnRoad
    battery: BatteryIn
    back: bool = Field(default=False, description="Whether it must last for the way back, too.")
    confidences: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]], Field(min_length=1, max_length=5)
    ] = Field(
        default=list(CONFIDENCES), description="How likely the charge stays above the reserve."
    )


class MatrixRequest(Circumstances):
    """Ask for the best ways from all origins to all destinations."""

    origins: Annotated[list[PlaceOnRoad], Field(min_length=1, max_length=MOST_OF_MATRIX)]
    destinations: Annotated[list[PlaceOnRoad], Field(min_length=1, max_length=MOST_OF_MATRIX)]
    by: By = Field(default="energy", description="What the best way has least of.")


_Place = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="An edge id, or longitude,latitude; the closest road is taken.",
        examples=["6.13,49.61"],
    ),
]


class FrontQuery(Given):
    """Ask for routes between the fastest and the thriftiest."""

    start: _Place
    goal: _Place
    vehicle: ClassName = "car"
    departs_at: Moment | None = None
    temperature_c: Temperature | None = None
    payload_kg: Payload | None = None

    def request(self) -> RouteRequest:
        """Return the same as a request for a route."""
        rest = self.model_dump(exclude={"start", "goal"})
        return RouteRequest(start=_place(self.start), goal=_place(self.goal), mode="best", **rest)


def _place(text: str) -> EdgeId | Coordinates:
    found = _COORDINATES.fullmatch(text)
    if found is None:
        return text
    longitude, latitude = float(found[1]), float(found[2])
    if abs(longitude) > 180 or abs(latitude) > 90:  # noqa: PLR2004 - degrees
        return text
    return Coordinates(longitude=longitude, latitude=latitude)


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
    seconds: list[float] = Field(description="Expected, since the departure.")


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
    minutes: float = Field(description="Expected, at this part of the day.")
    minutes_low: float = Field(description="Lower end of the 90 % predictive interval.")
    minutes_high: float
    arrives_at: datetime = Field(description="Departure plus the expected time.")
    arrives_early: datetime = Field(description="With the ends of the interval.")
    arrives_late: datetime
    profile: Profile


class Alternative(RouteBody):
    """Another way to go; it can be driven and reported like the first."""

    route_id: str


class RouteAnswer(RouteBody):
    """The route to drive, and others."""

    route_id: str = Field(description="Signed; holds the route. Report the trip with it.")
    mode: Mode
    departs_at: datetime
    exploration_wh: float = Field(description="Expected energy above the best route's.")
    boldness: float = Field(
        description="How far beliefs were left for the sake of learning: 1 as drawn, 0 not at all."
    )
    fallback: str | None = Field(description="Why it explores less than it would, if so.")
    start_distance_m: float | None = Field(description="From the given point to the start edge.")
    goal_distance_m: float | None
    via_distance_m: list[float | None] = Field(description="Likewise of the places on the way.")
    alternatives: list[Alternative]
    trips_learned: int


class FrontAnswer(BaseModel):
    """Routes between the fastest, which comes first, and the thriftiest."""

    departs_at: datetime
    start_distance_m: float | None = Field(description="From the given point to the start edge.")
    goal_distance_m: float | None
    covers_within: float = Field(
        description="Every route that no other beats in both expected time and dissipation is at "
        "most by this share better, in either, than one of these."
    )
    routes: list[Alternative] = Field(description="At most eight; none beats another in both.")
    trips_learned: int


class BatchOutcome(BaseModel):
    """One of several routes, or why there is none."""

    route: RouteAnswer | None
    problem: str | None


class BatchAnswer(BaseModel):
    """Routes in the order in which they were asked for."""

    routes: list[BatchOutcome]


class Area(BaseModel):
    """GeoJSON outlines; the first ring of each is its border, the others are holes."""

    type: Literal["MultiPolygon"]
    coordinates: list[list[list[list[float]]]]


class ReachedArea(BaseModel):
    """Where the charge lasts to with some confidence, as a GeoJSON feature."""

    type: Literal["Feature"]
    geometry: Area
    properties: dict[str, float] = Field(
        description="confidence; edges, how many are reached; length_km, of these."
    )


class ReachAnswer(BaseModel):
    """Areas as GeoJSON, the surest last."""

    type: Literal["FeatureCollection"]
    features: list[ReachedArea]
    start_distance_m: float | None = Field(description="From the given point to the start edge.")
    trips_learned: int


Numbers = list[list[float | None]]


class MatrixAnswer(BaseModel):
    """The best ways, a row per origin; null where no road leads."""

    energy_wh: Numbers = Field(description="Expected.")
    energy_low_wh: Numbers = Field(description="Lower end of the 90 % predictive interval.")
    energy_high_wh: Numbers
    minutes: Numbers = Field(description="Expected, at this part of the day.")
    minutes_low: Numbers = Field(description="Lower end of the 90 % predictive interval.")
    minutes_high: Numbers
    length_m: Numbers
    origin_distance_m: list[float | None] = Field(description="From given points to the road.")
    destination_distance_m: list[float | None]
    trips_learned: int = Field(description="Before the last row was made.")


class BeliefAnswer(BaseModel):
    """What is believed of the energy of edges, as columns."""

    vehicle: str
    trips_learned: int
    edge: list[int] = Field(description="Positions, the ids of features in /v1/network.")
    energy_wh: list[float]
    energy_std_wh: list[float]
    count: list[int] = Field(description="How many measurements the edge was part of.")
