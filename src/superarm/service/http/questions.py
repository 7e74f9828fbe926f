"""Endpoints that ask: routes, and how the service is doing."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Body, FastAPI, Query, Response

from superarm.service.http.access import Reading
from superarm.service.http.keys import Key
from superarm.service.http.prices import price_of_front, price_of_route
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.roles import RANKS
from superarm.service.http.schemas import (
    AlarmOut,
    Calibration,
    KeyCalibration,
    StatsAnswer,
    TimeCalibration,
)
from superarm.service.http.state import ServiceState
from superarm.service.http.verdicts import KeyFacts
from superarm.service.routes.schemas import (
    FrontAnswer,
    FrontQuery,
    RouteAnswer,
    RouteRequest,
)
from superarm.service.trips.standings import Standing
from superarm.service.trips.store import EPOCH, Sums

_COST_OF_NUMBERS = 10.0

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
        "/v1/stats",
        operation_id="get_stats",
        responses=problems(*ANY_KEY, 503),
        tags=["learning"],
    )
    def stats(key: Reading) -> StatsAnswer:
        """Return trips, energies, and whether predictions were as sure as they claimed."""
        state.charge(key, _COST_OF_NUMBERS)
        return stats_for(state, key)


def stats_for(state: ServiceState, key: Key) -> StatsAnswer:
    """Return how the service is doing, with the keys that one may see."""
    key_id = None if RANKS[key.role] >= RANKS["admin"] else key.id
    sums = state.calibration()
    everything = Sums()
    for some in sums.values():
        everything = everything.plus(some)
    stored, aside = state.counts()
    current = state.current
    learned = 0 if current is None else current.posterior.trips
    unlearned = sum(some.all_trips for (name, _), some in sums.items() if state.is_aside(name))
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
        trips_learned=learned,
        trips_waiting=max(stored - learned - unlearned, 0),
        trips_set_aside=unlearned,
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
    everything = state.calibration()
    devices = len({key for key, _ in everything if not state.is_aside(key)})
    sums = {place: some for place, some in everything.items() if place[0] == key_id}
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
    calibration, waiting = _calibration(total), state.waiting().get(key_id, 0)
    ratio = calibration.energy_ratio
    factor = 1.0 if current is None else current.posterior.time_factor_of(key_id)
    facts = KeyFacts(standing, total.all_trips, waiting, devices, gain, std, ratio, factor)
    return KeyCalibration(
        key=key_id,
        trips_learned=facts.learned,
        trips_waiting=0 if standing.is_aside else facts.waiting,
        verdict=facts.verdict,
        trusted=not standing.is_aside,
        reason=standing.reason,
        durations_trusted=standing.durations_aside_at is None and not standing.is_aside,
        durations_reason=standing.durations_reason,
        time_factor=factor,
        vouched=standing.vouched_at is not None,
        gain=gain,
        gain_std=std,
        spread=spread,
        surprise=surprise,
        advice=facts.advice,
        calibration=calibration,
        times=_of_times(total),
        vehicles=_by_vehicle(sums),
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
