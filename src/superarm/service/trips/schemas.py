"""Trips as JSON; units are in the names."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from superarm.service.routes.schemas import EdgeId, Moment
from superarm.service.vehicles import Given, Payload, Temperature, VehicleIn

MOST_CHARACTERS = 8_000
"""How long a route id may be."""

MOST_TRIP_EDGES = 2_000
MOST_TRIPS = 1_000
MOST_SPEED_MS = 120.0
MOST_AHEAD = timedelta(days=366)
"""Clocks differ, and may be set wrongly, here or there; beyond this it is no clock."""

_SHOWN = 100
TripId = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$")]
Energy = Annotated[
    float, Field(strict=True, ge=-1e8, le=1e8, description="Wh; negative if regenerated.")
]


def _plausible(time: datetime) -> datetime:
    try:
        moment = time.astimezone(UTC)
    except OverflowError as error:
        msg = "the time lies outside the years 1 to 9999 in UTC"
        raise ValueError(msg) from error
    if moment > datetime.now(UTC) + MOST_AHEAD:
        msg = "the time lies more than a year in the future"
        raise ValueError(msg)
    return moment.astimezone(timezone(time.utcoffset() or timedelta(0)))


Time = Annotated[Moment, AfterValidator(_plausible)]
"""RFC 3339 with an offset, which says what time of day it was there."""

_MOST_SECONDS = 7 * 86_400.0
Seconds = Annotated[
    float, Field(strict=True, ge=0, le=_MOST_SECONDS, description="How long it took, in s.")
]


class Span(Given):
    """Energy of consecutive edges, by their positions in the trip's list of edges."""

    first: Annotated[int, Field(ge=0, lt=MOST_TRIP_EDGES)]
    last: Annotated[int, Field(ge=0, lt=MOST_TRIP_EDGES)]
    energy_wh: Energy
    duration_s: Seconds | None = None


class TripIn(Given):
    """Report a trip: its edges (or a route id) and the energy of edges, spans, or the whole.

    Without any energy it says how long it took.
    """

    trip_id: TripId
    route_id: (
        Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, pattern=r"^[0-9A-Za-z_-]+$")]
        | None
    ) = None
    edges: Annotated[list[EdgeId], Field(min_length=1, max_length=MOST_TRIP_EDGES)] | None = None
    gaps: Annotated[
        list[Annotated[int, Field(ge=0, lt=MOST_TRIP_EDGES)]], Field(max_length=MOST_TRIP_EDGES)
    ] = Field(
        default=[],
        description="Positions in edges after which the trip is interrupted: no turn leads on.",
    )
    vehicle: VehicleIn | None = Field(
        default=None, description="Left out: that of the route, else a car."
    )
    driven_at: Time = Field(description="RFC 3339 with offset.")
    edge_energy_wh: Annotated[list[Energy | None], Field(max_length=MOST_TRIP_EDGES)] | None = (
        Field(default=None, description="One per edge; null where none was measured.")
    )
    spans: Annotated[list[Span], Field(min_length=1, max_length=MOST_TRIP_EDGES)] | None = None
    total_energy_wh: Energy | None = None
    speeds_ms: (
        Annotated[
            list[Annotated[float, Field(ge=0, le=MOST_SPEED_MS)]],
            Field(min_length=2, max_length=MOST_TRIP_EDGES + 1),
        ]
        | None
    ) = Field(
        default=None,
        description="Speed at which each edge was entered, and at the end: energy of motion that "
        "passes from one edge to the next is then not charged to roads.",
    )
    duration_s: Seconds | None = Field(
        default=None, description="Of the whole trip; or give those of edges or spans."
    )
    edge_duration_s: Annotated[list[Seconds | None], Field(max_length=MOST_TRIP_EDGES)] | None = (
        Field(default=None, description="One per edge; null where none was measured.")
    )
    temperature_c: Temperature | None = None
    payload_kg: Payload | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> "TripIn":
        if (self.route_id is None) == (self.edges is None):
            msg = "give either route_id or edges"
            raise ValueError(msg)
        if self.route_id is not None and self.gaps:
            msg = "a route has no gaps; give the edges that were driven"
            raise ValueError(msg)
        if self.gaps and self.speeds_ms is not None:
            msg = "speeds_ms say nothing across gaps; report the parts as trips of their own"
            raise ValueError(msg)
        measured = (self.edge_energy_wh, self.spans, self.total_energy_wh)
        if sum(value is not None for value in measured) > 1:
            msg = "give at most one of edge_energy_wh, spans and total_energy_wh"
            raise ValueError(msg)
        self._one_duration()
        timed = self.duration_s is not None or self.edge_duration_s is not None
        if not timed and all(value is None for value in measured):
            msg = (
                "nothing was measured: give edge_energy_wh, spans or total_energy_wh, or how long "
                "it took in duration_s or edge_duration_s"
            )
            raise ValueError(msg)
        if (
            self.route_id is not None
            and self.vehicle is None
            and (self.temperature_c is not None or self.payload_kg is not None)
        ):
            msg = (
                "a route's vehicle has its load and temperature already; name the vehicle to "
                "report others"
            )
            raise ValueError(msg)
        return self

    def _one_duration(self) -> None:
        of_spans = any(span.duration_s is not None for span in self.spans or ())
        given = (self.duration_s is not None, self.edge_duration_s is not None, of_spans)
        if sum(given) > 1:
            msg = "give at most one of duration_s, edge_duration_s and durations of spans"
            raise ValueError(msg)
        if self.duration_s is not None and self.gaps:
            msg = "duration_s says nothing across gaps; give edge_duration_s, or parts as trips"
            raise ValueError(msg)
        for span in self.spans or ():
            if span.duration_s is not None and any(span.first <= g < span.last for g in self.gaps):
                msg = "a span's duration_s says nothing across gaps; give edge_duration_s instead"
                raise ValueError(msg)


class TripBatch(Given):
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
        shown = printable(name) if isinstance(name, str) else ""
        return TripOutcome(trip_id=shown, status="rejected", detail=what_is_wrong(error.errors()))


def printable(text: str) -> str:
    """Return the beginning of a text from outside as plain characters."""
    return text[:_SHOWN].encode("ascii", "backslashreplace").decode()


def what_is_wrong(problems: Sequence[Any]) -> str:
    """Say which part of a request is wrong, and how, without repeating its values."""
    texts = []
    for problem in problems[:5]:
        where = ".".join(printable(str(part)) for part in problem["loc"] if part != "body")
        texts.append(f"{where}: {problem['msg']}" if where else str(problem["msg"]))
    return "; ".join(texts)


Status = Literal["accepted", "duplicate", "conflict", "quarantined", "rejected"]


class TripOutcome(BaseModel):
    """What became of a trip."""

    trip_id: str
    status: Status = Field(
        description="accepted: on disk; duplicate: it was before; conflict: the id is taken; "
        "quarantined: kept, not learned, for an administrator to look at; rejected: not kept."
    )
    detail: str | None = None
    left_out: list[int] = Field(
        default=[], description="Measurements that are not plausible, by position; not learned."
    )
    again: bool = Field(default=False, exclude=True, description="Whether it was put aside before.")


class TripOutcomes(BaseModel):
    """What became of a batch, in its order."""

    trips: list[TripOutcome]


class StoredTrip(BaseModel):
    """A trip as it was stored."""

    sequence: int
    trip_id: str
    key: str
    route: str | None = Field(description="Which route it was, shortened; see route_id.")
    received_at: datetime
    driven_at: datetime
    vehicle: str
    edges: list[str]
    spans: list[dict[str, Any]]
    left_out: list[int]
    measured_wh: float
    predicted_wh: float = Field(description="Of the same, when the trip was reported.")
    predicted_std_wh: float
    best_wh: float | None = Field(description="Of the best route, when the route was issued.")
    measured_s: float | None = Field(description="How long what was timed of it took.")
    predicted_s: float | None = Field(description="Of the same, when the trip was reported.")
    predicted_std_s: float | None
    learned: bool = Field(description="Whether the current posterior knows this trip.")


class StoredTrips(BaseModel):
    """Some trips, oldest first; go on with `after` set to the last sequence."""

    trips: list[StoredTrip]


class TripState(BaseModel):
    """Where a trip is."""

    trip_id: str
    state: Literal["learned", "waiting", "set_aside", "quarantined", "folded"] = Field(
        description="waiting: stored, learned in a moment; set_aside: its key is not believed; "
        "folded: learned, and summed up with others since."
    )
    reason: str | None = None
    trip: StoredTrip | None = None


class QuarantinedTrip(BaseModel):
    """A trip that is kept, but not learned."""

    sequence: int
    trip_id: str
    key: str
    received_at: datetime
    kind: Literal["implausible", "set_aside", "unlearnable"]
    reason: str
    body: dict[str, Any]


class QuarantinedTrips(BaseModel):
    """Some of them, oldest first; go on with `after` set to the last sequence."""

    trips: list[QuarantinedTrip]
