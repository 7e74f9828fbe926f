"""Endpoints about stations: where they are, trips that stop at them, and places by name."""

import asyncio
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from superarm.service.http.access import Reading
from superarm.service.http.assets import Asset
from superarm.service.http.prices import price_of_plan
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.state import ServiceState
from superarm.service.routes.charging import ChargingDesk
from superarm.service.routes.names import PlaceNames
from superarm.service.routes.schemas import (
    PlacesAnswer,
    PlanAnswer,
    PlanRequest,
    StationCollection,
)

_COST_OF_STATIONS, _COST_OF_PLACES = 5.0, 5.0


def add_charging(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""
    desk = ChargingDesk(state.navigator, state.stations)
    known = Asset.of(desk.stations(), "application/json")

    price = price_of_plan(state.network.n_edges, state.stations.edges.size)
    names = PlaceNames(state.navigator.geography, state.stations)

    @app.get(
        "/v1/places",
        operation_id="find_places",
        response_model=PlacesAnswer,
        responses=problems(*ANY_KEY, 422),
        tags=["map"],
    )
    async def places(
        key: Reading, q: Annotated[str, Query(min_length=1, max_length=100)]
    ) -> Response:
        """Return places by name: streets, charging stations, edges."""
        state.charge(key, _COST_OF_PLACES)
        body = await asyncio.to_thread(names.found, q)
        return Response(body, media_type="application/json")

    @app.get(
        "/v1/stations",
        operation_id="get_stations",
        response_model=StationCollection,
        responses=problems(*ANY_KEY, 503),
        tags=["map"],
    )
    async def stations(request: Request, key: Reading) -> Response:
        """Return the charging stations as GeoJSON."""
        state.charge(key, _COST_OF_STATIONS)
        return known.answer(request)

    @app.post(
        "/v1/plans",
        operation_id="get_plan",
        response_model=PlanAnswer,
        responses=problems(*ANY_KEY, *ANY_BODY),
        tags=["routes"],
    )
    async def plan(request: PlanRequest, key: Reading) -> Response:
        """Return a trip with stops to charge such that the charge lasts as surely as asked."""
        state.charge(key, price)
        question = await asyncio.to_thread(desk.query, request)
        body = await state.on_router(
            lambda current: desk.plan(question, current.posterior, request), key, price
        )
        return Response(body, media_type="application/json")
