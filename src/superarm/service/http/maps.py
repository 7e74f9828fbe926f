"""Endpoints that draw: the roads of a part of the map, and what is believed of them."""

import asyncio
from typing import Annotated

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse

from superarm.arrays import Rows
from superarm.beliefs.sums.dense import MOST_ARMS
from superarm.roads.vehicle import CLASSES
from superarm.service.http.access import Reading
from superarm.service.http.answers import Pieces, packed, unpacked
from superarm.service.http.problems import ANY_KEY, problems
from superarm.service.http.refused import Refused
from superarm.service.http.state import ServiceState
from superarm.service.routes.schemas import BeliefAnswer, RoadCollection
from superarm.service.vehicles import ClassName

MOST_WHOLE = MOST_ARMS
"""The largest network, in edges, that is answered whole: of others a part is asked for."""

MOST_DRAWN = 50_000
"""Edges of one answer: 12 megabytes of roads, before they are packed."""

COST_OF_MAP, DRAWN_EDGES = 20.0, 10.0
"""What a map costs, in plain requests, and how many things drawn on it cost one more."""

GEO_JSON = "application/geo+json"

_SHOWN_EDGES = 50.0

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
    Query(ge=1, le=MOST_DRAWN, description="Edges at most, the most important ones first."),
]


class GeoJson(JSONResponse):
    """A map, as bytes that are JSON already."""

    media_type = GEO_JSON

    def render(self, content: bytes) -> bytes:
        """Return the content as it is."""
        return content


def add_maps(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""

    @app.get(
        "/v1/network",
        operation_id="get_network",
        response_model=RoadCollection,
        response_class=GeoJson,
        responses=problems(*ANY_KEY, 422, 503),
        tags=["map"],
    )
    async def network(
        request: Request, key: Reading, bbox: BoxText = None, most: _Most = None
    ) -> Response:
        """Return the roads as GeoJSON; ids of features are the positions used in `/v1/belief`.

        Of networks beyond 12,000 edges a box or a number of edges must be asked for, 50,000 edges
        at most.
        """
        state.charge(key, COST_OF_MAP)
        edges, left_out = await asyncio.to_thread(edges_in, state, bbox, most)
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"vary": "accept-encoding"} | ({"content-encoding": "gzip"} if is_packed else {})
        if edges is None:  # the whole network is made once, parts of it again and again
            whole = await asyncio.to_thread(state.whole_map)
            if is_packed:
                return GeoJson(whole, headers=headers)
            return Pieces(unpacked(whole), GEO_JSON, headers)
        state.charge(key, edges.size / DRAWN_EDGES)
        pieces = state.navigator.geography.feature_pieces(edges, left_out)
        return Pieces(packed(pieces) if is_packed else pieces, GEO_JSON, headers)

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
        """Return what is believed of the energy of every edge, as columns.

        Of networks beyond 12,000 edges a box or a number of edges must be asked for, 50,000 edges
        at most.
        """
        edges, _ = await asyncio.to_thread(edges_in, state, bbox, most)
        size = state.network.n_edges if edges is None else edges.size
        price = COST_OF_MAP + size / _SHOWN_EDGES
        state.charge(key, price)
        answer = await state.on_router(
            lambda current: state.navigator.belief(
                current.posterior, vehicle, CLASSES[vehicle], edges
            ),
            key,
            price,
        )
        body = await asyncio.to_thread(answer.model_dump_json)
        return Response(body, media_type="application/json")


def box_of(bbox: str) -> tuple[float, float, float, float]:
    """Return west, south, east and north of a text that has their form."""
    west, south, east, north = (float(part) for part in bbox.split(","))
    if west > east or south > north:
        raise Refused(422, "bbox must be west,south,east,north with west <= east, south <= north")
    return west, south, east, north


def edges_in(state: ServiceState, bbox: str | None, most: int | None) -> tuple[Rows | None, int]:
    """Return the edges of a part of the map, none for all of them, and how many were left out."""
    geography, everything = state.navigator.geography, state.network.n_edges
    if bbox is None and (most or everything) >= everything and everything <= MOST_WHOLE:
        return None, 0
    if bbox is None and most is None:
        detail = (
            f"this network has {everything:,} edges, and at most {MOST_WHOLE:,} are answered "
            "whole; ask for a box (bbox=west,south,east,north), or for its most important edges "
            f"(most={MOST_WHOLE}), or for both"
        )
        raise Refused(422, detail)
    inside = np.arange(everything) if bbox is None else geography.inside(box_of(bbox))
    if most is None and inside.size > MOST_DRAWN:
        detail = (
            f"bbox holds {inside.size:,} edges, and at most {MOST_DRAWN:,} are answered at once; "
            f"ask for a smaller box, or for its most important edges (most={MOST_WHOLE})"
        )
        raise Refused(422, detail)
    shown = inside if most is None else geography.most_important(inside, most)
    return shown, inside.size - shown.size
