"""Endpoints for trips: report them, see where they are, take them back."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic_core import from_json

from superarm.beliefs.sums.dense import MOST_ARMS
from superarm.service.http.access import Reporting, ReportingTrips
from superarm.service.http.keys import Key
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.refused import Refused
from superarm.service.http.roles import RANKS
from superarm.service.http.schemas import PLAIN
from superarm.service.http.state import ServiceState
from superarm.service.trips.schemas import (
    MOST_TRIPS,
    StoredTrip,
    StoredTrips,
    TripBatch,
    TripIn,
    TripOutcome,
    TripOutcomes,
    TripState,
    printable,
)

_STATUS = {"accepted": 201, "duplicate": 200, "conflict": 409, "quarantined": 422, "rejected": 422}
_GOOD = {200, 201}
_EDGES_PER_REQUEST = 50.0
_MEASUREMENTS_PER_REQUEST, _USUAL_EDGES = 5.0, 5_000.0
_COST_OF_DELETING = 50.0
_SMALL = 20_000
_EXAMPLES = {
    "total": {
        "summary": "A trip on a route that was issued, with its total",
        "value": {
            "trip_id": "van7-2026-03-01-1",
            "route_id": "AQAAAAAAWHlA...",
            "driven_at": "2026-03-01T08:15:00+01:00",
            "total_energy_wh": 412.5,
        },
    },
    "spans": {
        "summary": "A trip by its edges, with spans, interrupted once",
        "value": {
            "trip_id": "van7-2026-03-01-2",
            "edges": ["s0", "s4", "s9", "s31"],
            "gaps": [1],
            "vehicle": "van",
            "driven_at": "2026-03-01T08:15:00+01:00",
            "spans": [
                {"first": 0, "last": 1, "energy_wh": 51.0},
                {"first": 2, "last": 3, "energy_wh": 44.5},
            ],
        },
    },
    "batch": {
        "summary": "Several trips at once",
        "value": {
            "trips": [
                {
                    "trip_id": "van7-2026-03-01-3",
                    "edges": ["s0", "s4"],
                    "driven_at": "2026-03-01T08:15:00+01:00",
                    "edge_energy_wh": [30.5, None],
                }
            ]
        },
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/TripIn"},
                        {"$ref": "#/components/schemas/TripBatch"},
                    ]
                },
                "examples": _EXAMPLES,
            }
        },
    }
}
_OUTCOME = TripOutcome | TripOutcomes

_TripId = Annotated[
    str,
    Path(
        min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$", description="As it was reported."
    ),
]
_Owner = Annotated[
    str | None,
    Query(
        max_length=100,
        pattern=PLAIN,
        description="For administrators: the name of the key it came with.",
    ),
]


def add_reports(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""

    @app.post(
        "/v1/trips",
        operation_id="report_trips",
        status_code=201,
        response_model=_OUTCOME,
        responses=problems(*ANY_KEY, *ANY_BODY)
        | {
            200: {"model": _OUTCOME, "description": "Known already."},
            207: {"model": TripOutcomes, "description": "Some were not taken; each says why."},
            409: {"model": _OUTCOME, "description": "The trip id is taken by other content."},
            422: {
                "content": {
                    "application/json": {
                        "schema": {
                            "anyOf": [
                                {"$ref": f"#/components/schemas/{name}"}
                                for name in ("TripOutcome", "TripOutcomes", "Problem")
                            ]
                        }
                    }
                },
                "description": "The trip cannot be used, or was put aside; the detail says why.",
            },
        },
        openapi_extra=_BODY,
        tags=["trips"],
    )
    async def report(request: Request, key: ReportingTrips) -> Response:
        """Report a trip or a batch; answered when safe on disk. Sending again is harmless."""
        body = await request.body()
        if len(body) < _SMALL:
            single, trips = read_report(body)
        else:
            single, trips = await asyncio.to_thread(read_report, body)
        good = [trip for trip in trips if isinstance(trip, TripIn)]
        cost = len(trips) - 1 + cost_of(good, state.network.n_edges)
        _require_payable(len(trips), cost, state.rates.affordable)
        state.charge(key, cost)
        kept = iter(await state.keep(good, key) if good else [])
        outcomes = [trip if isinstance(trip, TripOutcome) else next(kept) for trip in trips]
        codes = {_STATUS[outcome.status] for outcome in outcomes}
        if single:
            return JSONResponse(outcomes[0].model_dump(), status_code=codes.pop())
        answer = TripOutcomes(trips=outcomes)
        code = max(codes) if codes <= _GOOD or len(codes) == 1 else 207
        return JSONResponse(answer.model_dump(), status_code=code)

    @app.get(
        "/v1/trips",
        operation_id="list_trips",
        responses=problems(*ANY_KEY, 422, 503),
        tags=["trips"],
    )
    def stored(
        key: Reporting,
        after: Annotated[int, Query(ge=0, le=2**62)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> StoredTrips:
        """Return one's own trips as they were stored, oldest first; an administrator sees all."""
        state.charge(key, limit / 50)
        mine = None if _is_admin(key) else key.id
        rows = state.store.stored_trips(after, limit, _mark(state), mine)
        return StoredTrips(trips=[_shown(state, row) for row in rows])

    @app.get(
        "/v1/trips/{trip_id:path}",
        operation_id="get_trip",
        responses=problems(*ANY_KEY, 404, 422, 503),
        tags=["trips"],
    )
    def one(key: Reporting, trip_id: _TripId, owner: _Owner = None) -> TripState:
        """Say where one of one's own trips is: learned, waiting, put aside."""
        found = state.store.state_of(_owner_of(key, owner), trip_id, _mark(state))
        if found is None:
            raise Refused(404, f"there is no trip {printable(trip_id)!r} of yours")
        if found.get("trip") is not None:
            found["trip"] = StoredTrip(**found["trip"])
        return TripState(trip_id=trip_id, **found)

    @app.delete(
        "/v1/trips/{trip_id:path}",
        operation_id="delete_trip",
        status_code=204,
        responses=problems(*ANY_KEY, 404, 422, 503),
        tags=["trips"],
    )
    def forget(key: Reporting, trip_id: _TripId, owner: _Owner = None) -> Response:
        """Forget one of one's own trips; what is believed is made again without it."""
        state.charge(key, _COST_OF_DELETING)
        if not state.store.delete_trip(_owner_of(key, owner), trip_id):
            raise Refused(404, f"there is no trip {printable(trip_id)!r} of yours")
        state.learning.wake()
        return Response(status_code=204)


def read_report(body: bytes) -> tuple[bool, list[TripIn | TripOutcome]]:
    """Return whether one trip was sent, and all trips, or why they cannot be read."""
    try:
        given: Any = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(422, f"the body is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise Refused(422, "send a trip, or {'trips': [...]}, as an object")
    if "trips" not in given:
        return True, [TripIn.model_validate(given)]
    trips = given["trips"]
    if isinstance(trips, list) and len(trips) > MOST_TRIPS:  # before any of them is looked at
        raise Refused(422, f"trips: at most {MOST_TRIPS:,} at once, not {len(trips):,}")
    return False, TripBatch.model_validate(given).read()


def cost_of(trips: Sequence[TripIn], n_edges: int) -> float:
    """Return how many plain requests trips cost: to be looked at, and to be learned.

    Learning takes time in proportion to measurements. Where the covariance of all edges is held,
    each takes time in proportion to its square. An ensemble makes passes through all that was ever
    measured: how many does not depend on the trips, and each measurement takes its part of them.
    Measured (`benchmarks/results/charges.md`), that is no more than on the usual network.
    """
    edges = sum(len(trip.edges or ()) for trip in trips)
    measured = sum(len(trip.spans or trip.edge_energy_wh or (None,)) for trip in trips)
    share = max(n_edges / _USUAL_EDGES, 0.2) ** 2 if n_edges <= MOST_ARMS else 1.0
    return edges / _EDGES_PER_REQUEST + share * measured / _MEASUREMENTS_PER_REQUEST


def _require_payable(count: int, cost: float, affordable: float) -> None:
    """Refuse a batch that costs more than its key can owe; a single trip is always taken."""
    if count > 1 and cost > affordable:
        fitting = max(int(count * affordable / cost), 1)
        detail = (
            f"{count:,} trips at once cost {cost:,.0f} requests, and a key can owe "
            f"{affordable:,.0f}; send at most {fitting:,} like these at once"
        )
        raise Refused(413, detail)


def _is_admin(key: Key) -> bool:
    return RANKS[key.role] >= RANKS["admin"]


def _owner_of(key: Key, owner: str | None) -> str:
    if owner is not None and owner != key.name and not _is_admin(key):
        raise Refused(403, "only an administrator may name another owner")
    return key.name if owner is None else owner


def _mark(state: ServiceState) -> int:
    return 0 if state.current is None else state.current.mark


def _shown(state: ServiceState, row: dict[str, Any]) -> StoredTrip:
    standing = state.watch.standings.get(row["key"])
    if standing is not None and standing.is_aside:
        row["learned"] = False
    return StoredTrip(**row)
