"""Endpoints that ask: routes, the map, what is believed, how it is doing."""

import asyncio
import gzip
from datetime import timedelta
from typing import Annotated, Any

import numpy as np
from fastapi import Body, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse

from superarm.arrays import Rows
from superarm.service.http.access import Reading
from superarm.service.http.keys import RANKS, Key
from superarm.service.http.prices import price_of_front, price_of_route
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.refused import Refused
from superarm.service.http.schemas import (
    AlarmOut,
    Calibration,
    KeyCalibration,
    StatsAnswer,
    TimeCalibration,
)
from superarm.service.http.state import ServiceState
from superarm.service.model.fleet import CLASSES
from superarm.service.model.vehicle import ClassName
from superarm.service.routes.schemas import (
    BeliefAnswer,
    FrontAnswer,
    FrontQuery,
    RoadCollection,
    RouteAnswer,
    RouteRequest,
)
from superarm.service.trips.standings import Standing
from superarm.service.trips.store import EPOCH, Sums

COST_OF_MAP, DRAWN_EDGES = 20.0, 10.0
"""What a map costs, in plain requests, and how many things drawn on it cost one more."""

_SHOWN_EDGES, _COST_OF_NUMBERS = 50.0, 10.0
_TELLING = 2.0
_FEW = 10

BoxText = Annotated[
    str | None,
    Query(
        description="West, south, east, north in degrees.",
        pattern=r"^-?\d+(\.\d+)?(,-?\d+(\.\d+)?){3}$",
        max_length=100,
        examples=["6.10,49.59,6.15,49.62"],
    ),
]
_Most = Annotated[
    int | None,
    Query(ge=1, le=1_000_000, description="Edges at most, the most important ones first."),
]
_EXAMPLES = {
    "by edges": {
        "summary": "Between two edges",
        "value": {"start": "s0", "goal": "s400", "mode": "best"},
    },
    "by coordinates": {
        "summary": "Between two points, with a battery and alternatives",
        "value": {
            "start": {"longitude": 6.13, "latitude": 49.61, "heading_deg": 90},
            "goal": {"longitude": 6.2, "latitude": 49.65, "within_m": 300},
            "vehicle": "truck",
            "battery": {"charge_wh": 30000, "capacity_wh": 60000, "reserve_wh": 5000},
            "alternatives": 2,
            "departs_at": "2026-03-02T08:15:00+01:00",
            "temperature_c": -3,
            "payload_kg": 4200,
        },
    },
}


class GeoJson(JSONResponse):
    """A map, as bytes that are JSON already."""

    media_type = "application/geo+json"

    def render(self, content: bytes) -> bytes:
        """Return the content as it is."""
        return content


def add_questions(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""

    @app.post(
        "/v1/routes",
        operation_id="ask_for_route",
        response_model=RouteAnswer,
        responses=problems(*ANY_KEY, *ANY_BODY),
        tags=["routes"],
    )
    async def ask(
        request: Annotated[RouteRequest, Body(openapi_examples=_EXAMPLES)],
        key: Reading,
    ) -> Response:
        """Return the route to drive, what it will cost, and how sure that is."""
        price = price_of_route(request, state.network.n_edges)
        state.charge(key, price)
        if state.navigator.knows(request):
            question = state.navigator.query(request)
        else:  # points to find, or names to say something about
            question = await asyncio.to_thread(state.navigator.query, request)
        _, body = await state.on_router(
            lambda current: state.navigator.route(question, current.posterior), key, price
        )
        return Response(body, media_type="application/json")

    @app.get(
        "/v1/front",
        operation_id="get_front",
        response_model=FrontAnswer,
        responses=problems(*ANY_KEY, 422, 503),
        tags=["routes"],
    )
    async def front(key: Reading, asked: Annotated[FrontQuery, Query()]) -> Response:
        """Return at most eight routes between the fastest and the thriftiest."""
        price = price_of_front(state.network.n_edges)
        state.charge(key, price)
        question = await asyncio.to_thread(state.navigator.query, asked.request())
        body = await state.on_router(
            lambda current: state.navigator.front(question, current.posterior), key, price
        )
        return Response(body, media_type="application/json")

    @app.get(
        "/v1/network",
        operation_id="get_network",
        response_model=RoadCollection,
        response_class=GeoJson,
        responses=problems(*ANY_KEY, 422),
        tags=["map"],
    )
    async def network(
        request: Request, key: Reading, bbox: BoxText = None, most: _Most = None
    ) -> Response:
        """Return the roads as GeoJSON; ids of features are the positions used in `/v1/belief`."""
        state.charge(key, COST_OF_MAP)
        edges, left_out = await asyncio.to_thread(_edges_in, state, bbox, most)
        if edges is not None:  # the whole network is made once, parts of it again and again
            state.charge(key, edges.size / DRAWN_EDGES)
        body = await asyncio.to_thread(state.network_json, edges, left_out)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return GeoJson(body, headers={"content-encoding": "gzip", "vary": "accept-encoding"})
        return GeoJson(await asyncio.to_thread(gzip.decompress, body))

    @app.get(
        "/v1/belief",
        operation_id="get_belief",
        response_model=BeliefAnswer,
        responses=problems(*ANY_KEY, 422, 503),
        tags=["map"],
    )
    async def belief(
        key: Reading, bbox: BoxText = None, most: _Most = None, vehicle: ClassName = "car"
    ) -> Response:
        """Return what is believed of the energy of every edge, as columns."""
        edges, _ = await asyncio.to_thread(_edges_in, state, bbox, most)
        size = state.network.n_edges if edges is None else edges.size
        price = COST_OF_MAP + size / _SHOWN_EDGES
        state.charge(key, price)
        body = await state.on_router(
            lambda current: state.navigator.belief(
                current.posterior, vehicle, CLASSES[vehicle], edges
            ),
            key,
            price,
        )
        return Response(body, media_type="application/json")

    @app.get(
        "/v1/stats",
        operation_id="get_stats",
        responses=problems(*ANY_KEY, 503),
        tags=["learning"],
    )
    def stats(key: Reading) -> StatsAnswer:
        """Return trips, energies, and whether predictions were as sure as they claimed."""
        state.charge(key, _COST_OF_NUMBERS)
        return stats_for(state, key)


def box_of(bbox: str) -> tuple[float, float, float, float]:
    """Return west, south, east and north of a text that has their form."""
    west, south, east, north = (float(part) for part in bbox.split(","))
    if west > east or south > north:
        raise Refused(422, "bbox must be west,south,east,north with west <= east, south <= north")
    return west, south, east, north


def stats_for(state: ServiceState, key: Key) -> StatsAnswer:
    """Return how the service is doing, with the keys that one may see."""
    key_id = None if RANKS[key.role] >= RANKS["admin"] else key.id
    sums = state.calibration()
    everything = Sums()
    for some in sums.values():
        everything = everything.plus(some)
    stored, aside = state.counts()
    current = state.current
    heard = sorted({key for key, _ in sums} | set(state.watch.standings))
    shown = heard if key_id is None else [key for key in heard if key == key_id]
    alarms = [
        alarm
        for alarm in state.alarms.standing()
        if key_id is None or alarm.key_id in {None, key_id}
    ]
    return StatsAnswer(
        role=key.role,
        trips=stored,
        trips_learned=0 if current is None else current.posterior.trips,
        lag_s=round(state.lag_s(), 3),
        distinct_edges=0 if current is None else current.distinct,
        quarantined=aside,
        spread=None if current is None else current.posterior.spread,
        mean_energy_wh=_mean(everything.routed_wh, everything.routed),
        mean_best_wh=_mean(everything.best_wh, everything.routed),
        calibration=_calibration(everything),
        recent=_calibration(state.recent()),
        times=_of_times(everything),
        recent_times=_of_times(state.recent()),
        vehicles=_by_vehicle(sums),
        keys=[key_calibration(state, key) for key in shown],
        alarms=[
            AlarmOut(
                kind=alarm.kind,
                reason=alarm.reason,
                since=EPOCH + timedelta(microseconds=alarm.since_us),
                key=alarm.key_id,
            )
            for alarm in alarms
        ],
    )


def key_calibration(state: ServiceState, key_id: str) -> KeyCalibration:
    """Return what is made of a key's trips."""
    sums = {place: some for place, some in state.calibration().items() if place[0] == key_id}
    total = Sums()
    for some in sums.values():
        total = total.plus(some)
    standing = state.watch.standings.get(key_id, Standing(key_id))
    current = state.current
    gain = std = spread = surprise = None
    if current is not None and standing.slot is not None and not standing.is_aside:
        gain, std = state.gain(key_id)
        spread = current.posterior.spreads.get(key_id)
        surprise = current.surprises.get(key_id)
    return KeyCalibration(
        key=key_id,
        trusted=not standing.is_aside,
        reason=standing.reason,
        vouched=standing.vouched_at is not None,
        gain=gain,
        gain_std=std,
        spread=spread,
        surprise=surprise,
        advice=_advice(standing, gain, std, total),
        calibration=_calibration(total),
        times=_of_times(total),
        vehicles=_by_vehicle(sums),
    )


def _advice(standing: Standing, gain: float | None, std: float | None, total: Sums) -> str | None:
    if standing.is_aside:
        return (
            f"none of its trips is learned: {standing.reason}. Look at unit, sign and vehicle, "
            "then ask an administrator to let it in again"
        )
    if gain is None or std is None or total.trips < _FEW or abs(gain) < _TELLING * std:
        return None
    way = "more" if gain > 0 else "less"
    return (
        f"its logger reads about {abs(gain):.0%} {way} than those of others; its trips are "
        "corrected for that, and teach the less"
    )


def _mean(total: float, count: int) -> float | None:
    return total / count if count > 0 else None


def _by_vehicle(sums: Any) -> dict[str, Calibration]:  # noqa: ANN401 - sums by key and class
    classes: dict[str, Sums] = {}
    for (_, vehicle), some in sums.items():
        classes[vehicle] = classes.get(vehicle, Sums()).plus(some)
    return {name: _calibration(some) for name, some in sorted(classes.items())}


def _spread(mean: float | None, square: float | None) -> float | None:
    return None if mean is None or square is None else max(square - mean**2, 0.0) ** 0.5


def _of_times(sums: Sums) -> TimeCalibration:
    count = sums.time_trips
    mean, square = _mean(sums.time_z, count), _mean(sums.time_squares, count)
    return TimeCalibration(
        trips=count,
        coverage_90=_mean(sums.time_inside, count),
        mean_z=mean,
        std_z=_spread(mean, square),
        time_ratio=sums.time_s / sums.time_predicted_s if count > 0 else None,
    )


def _calibration(sums: Sums) -> Calibration:
    mean, square = _mean(sums.z, sums.trips), _mean(sums.squares, sums.trips)
    spread = _spread(mean, square)
    ratio = sums.energy_wh / sums.predicted_wh if sums.trips > 0 and sums.predicted_wh else None
    return Calibration(
        trips=sums.trips,
        coverage_90=_mean(sums.inside, sums.trips),
        mean_z=mean,
        std_z=spread,
        energy_ratio=ratio,
    )


def _edges_in(state: ServiceState, bbox: str | None, most: int | None) -> tuple[Rows | None, int]:
    """Return the edges of a part of the map, none for all of them, and how many were left out."""
    geography, everything = state.navigator.geography, state.network.n_edges
    if bbox is None:
        if most is None or most >= everything:
            return None, 0
        shown = geography.most_important(np.arange(everything), most)
        return shown, everything - shown.size
    inside = geography.inside(box_of(bbox))
    shown = inside if most is None else geography.most_important(inside, most)
    return shown, inside.size - shown.size
