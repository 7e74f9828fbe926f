"""Routes and maps as JSON; units are in the names."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, model_validator

from superarm.roads.battery import LEAST_ROOM_WH, ChargingCurve
from superarm.roads.routing.query import CONFIDENCES, By, Mode
from superarm.service.vehicles import ClassName, Given, Payload, Temperature, VehicleIn

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
    rivals: bool = Field(
        default=False, description="Also say what routes that learn nothing would take."
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


class CurvePoint(Given):
    """How much power a battery takes at some charge."""

    charge_percent: Annotated[float, Field(ge=0, le=100)]
    power_kw: Annotated[float, Field(ge=0.1, le=5_000)]


class PlanRequest(Circumstances):
    """Ask for a trip with stops to charge."""

    start: PlaceOnRoad
    goal: PlaceOnRoad
    battery: BatteryIn
    probability: Annotated[float, Field(ge=0.5, le=0.995)] = Field(
        default=0.95, description="That the charge stays above the reserve, all along."
    )
    least: Literal["time", "energy"] = Field(
        default="time", description="Of which the plan has least; charging is part of the time."
    )
    stop_minutes: Annotated[float, Field(ge=0, le=120)] = Field(
        default=3.0, description="What every stop takes besides charging."
    )
    curve: Annotated[list[CurvePoint], Field(min_length=2, max_length=50)] | None = Field(
        default=None, description="From 0 to 100 %; left out: that of a modern car."
    )

    @model_validator(mode="after")
    def _a_curve(self) -> Self:
        self.charging_curve()
        room = self.battery.capacity_wh - self.battery.reserve_wh
        if room < LEAST_ROOM_WH:
            msg = f"the battery must hold at least {LEAST_ROOM_WH:g} Wh above reserve_wh"
            raise ValueError(msg)
        return self

    def charging_curve(self) -> ChargingCurve:
        """Return the curve of the battery."""
        capacity = self.battery.capacity_wh
        if self.curve is None:
            return ChargingCurve.usual(capacity)
        points = tuple((point.charge_percent / 100, 1000 * point.power_kw) for point in self.curve)
        return ChargingCurve(capacity, points)


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
    edges: int = Field(description="How many the whole network has.")
    left_out: int = Field(description="Less important ones that are not told, by `most`.")
    water: int = Field(description="How many pieces of water it has, for `/v1/water`.")
    features: list[Road]


class Shape(BaseModel):
    """A polygon with holes, or a line."""

    type: Literal["Polygon", "LineString"]
    coordinates: list[list[list[float]]] | list[list[float]]


class WaterPiece(BaseModel):
    """A lake, or a part of a river, a canal or a stream, as GeoJSON."""

    type: Literal["Feature"]
    id: int
    geometry: Shape
    properties: dict[str, Literal["area", "river", "canal", "stream"]] = Field(
        description="Its `kind`."
    )


class WaterCollection(BaseModel):
    """The water of a box as GeoJSON, as simple as a view of this size allows."""

    type: Literal["FeatureCollection"]
    pieces: int = Field(description="How many the whole network has.")
    left_out: int = Field(description="How many in the box are too small to be seen.")
    features: list[WaterPiece]


class Profile(BaseModel):
    """Along the route, at the end of every edge."""

    distance_m: list[float]
    height_m: list[float]
    energy_wh: list[float]
    energy_std_wh: list[float]
    seconds: list[float] = Field(description="Expected, since the departure.")


class Parts(BaseModel):
    """What the expected energy is made of; the parts add up to it."""

    climb_wh: float = Field(description="Won back downhill.")
    rolling_wh: float
    drag_wh: float = Field(description="At the speed limit.")
    braking_wh: float = Field(description="What recuperation loses downhill.")
    auxiliary_wh: float = Field(description="Heating and lights, at the speed limit.")
    learned_wh: float = Field(description="What roads were found to take more than physics say.")


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
    parts: Parts
    profile: Profile


class Alternative(RouteBody):
    """Another way to go; it can be driven and reported like the first."""

    route_id: str


class Rival(BaseModel):
    """Another route between the same ends, as it is believed to be."""

    energy_wh: float
    minutes: float


class Rivals(BaseModel):
    """What routes that learn nothing are believed to take."""

    physics: Rival = Field(description="Of least energy by physics alone.")
    fastest: Rival = Field(description="Of least time at the speed limits.")


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
    rivals: Rivals | None = Field(description="Where asked for.")
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


class FoundPlace(BaseModel):
    """A place of a name."""

    name: str
    kind: Literal["street", "station", "edge"]
    longitude: float
    latitude: float


class PlacesAnswer(BaseModel):
    """Places whose names hold what was asked for, the best first."""

    places: list[FoundPlace]


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


class StationOut(BaseModel):
    """A charging station as a GeoJSON feature."""

    type: Literal["Feature"]
    id: int
    geometry: dict[str, Any]
    properties: dict[str, Any] = Field(description="name, power_kw, plugs, opening.")


class StationCollection(BaseModel):
    """Charging stations as GeoJSON."""

    type: Literal["FeatureCollection"]
    features: list[StationOut]


class PlannedStop(BaseModel):
    """Where to charge, and how much."""

    station: int = Field(description="Its id in /v1/stations.")
    name: str
    longitude: float
    latitude: float
    power_kw: float
    distance_m: float = Field(description="From the start, along the way.")
    arrives_at: datetime
    arrives_wh: float = Field(description="Expected charge on arrival.")
    leaves_wh: float = Field(description="Charge to this.")
    waiting_minutes: float = Field(description="Until it opens.")
    charging_minutes: float = Field(description="Expected.")


class PlanAnswer(RouteBody):
    """A trip with stops to charge; `minutes` and the profile are of driving alone.

    Stations are open when one comes to them; whether they close while one charges is not looked at.
    """

    route_id: str = Field(description="Of the whole way. Report the trip with it.")
    departs_at: datetime
    stops: list[PlannedStop]
    probability: float = Field(description="That the charge stays above the reserve.")
    total_minutes: float = Field(description="Driving, stopping, waiting and charging.")
    charging_minutes: float
    arrives_with_wh: float = Field(description="Expected charge at the goal.")
    charge_wh: list[float] = Field(description="Expected, at the end of every edge.")
    charge_low_wh: list[float] = Field(description="Lower end of its 90 % interval.")
    start_distance_m: float | None
    goal_distance_m: float | None
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
    physics_wh: list[float] = Field(description="What physics alone say.")
    prior_std_wh: list[float] = Field(description="The deviation before the first trip.")
    count: list[int] = Field(description="How many measurements the edge was part of.")
