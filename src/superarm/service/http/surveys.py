"""Endpoints that ask about many places at once: batches of routes, reach, matrices."""

import asyncio
import json

from fastapi import FastAPI, Response

from superarm.errors import InfeasibleError, WorkLimitError
from superarm.service.http.access import Reading
from superarm.service.http.prices import price_of_reach, price_of_route, price_of_row
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.state import ServiceState
from superarm.service.routes.navigator import UnknownPlaceError
from superarm.service.routes.schemas import (
    BatchAnswer,
    MatrixAnswer,
    MatrixRequest,
    ReachAnswer,
    ReachRequest,
    RouteBatch,
)
from superarm.service.routes.surveyor import Surveyor


def add_surveys(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""
    surveyor = Surveyor(state.navigator)

    @app.post(
        "/v1/routes/batch",
        operation_id="ask_for_routes",
        response_model=BatchAnswer,
        responses=problems(*ANY_KEY, *ANY_BODY),
        tags=["routes"],
    )
    async def ask_many(batch: RouteBatch, key: Reading) -> Response:
        """Return several routes; one that cannot be found does not keep the others back."""
        n_edges = state.network.n_edges
        prices = [price_of_route(request, n_edges) for request in batch.routes]
        state.charge(key, sum(1.0 + price for price in prices))
        found: list[bytes] = []
        # one after the other: others take turns in between
        for request, price in zip(batch.routes, prices, strict=True):
            try:
                question = await asyncio.to_thread(state.navigator.query, request)
                _, body = await state.on_router(
                    lambda current, question=question: state.navigator.route(  # type: ignore[misc]
                        question, current.posterior
                    ),
                    key,
                    price,
                )
            except (UnknownPlaceError, InfeasibleError, WorkLimitError) as error:
                found.append(b'{"route":null,"problem":%b}' % json.dumps(str(error)).encode())
            else:
                found.append(b'{"route":%b,"problem":null}' % body)
        return Response(b'{"routes":[%b]}' % b",".join(found), media_type="application/json")

    @app.post(
        "/v1/reach",
        operation_id="get_reach",
        response_model=ReachAnswer,
        responses=problems(*ANY_KEY, *ANY_BODY),
        tags=["routes"],
    )
    async def reach(request: ReachRequest, key: Reading) -> Response:
        """Return how far the charge lasts, as areas."""
        price = price_of_reach(state.network.n_edges)
        state.charge(key, price)
        question = await asyncio.to_thread(surveyor.reach_query, request)
        body = await state.on_router(
            lambda current: surveyor.reach(question, current.posterior, request), key, price
        )
        return Response(body, media_type="application/json")

    @app.post(
        "/v1/matrix",
        operation_id="get_matrix",
        response_model=MatrixAnswer,
        responses=problems(*ANY_KEY, *ANY_BODY),
        tags=["routes"],
    )
    async def matrix(request: MatrixRequest, key: Reading) -> Response:
        """Return what the best ways from all origins to all destinations take."""
        origins, destinations = len(request.origins), len(request.destinations)
        price = price_of_row(state.network.n_edges, destinations)
        state.charge(key, origins * price)
        asked = await asyncio.to_thread(surveyor.matrix_queries, request)
        rows, trips = [], 0
        for number in range(origins):  # one row at a time: others take turns in between
            row, trips = await state.on_router(
                lambda current, number=number: (  # type: ignore[misc]
                    surveyor.matrix_row(asked, number, current.posterior),
                    current.posterior.trips,
                ),
                key,
                price,
            )
            rows.append(row)
        body = await asyncio.to_thread(surveyor.matrix_answer, asked, rows, trips)
        return Response(body, media_type="application/json")
