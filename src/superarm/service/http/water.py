"""The endpoint that gives the water of a part of the map."""

import asyncio
import gzip
import hashlib

from fastapi import FastAPI, Request, Response

from superarm.roads.network.shores import Shores
from superarm.service.http.access import Reading
from superarm.service.http.maps import COST_OF_MAP, DRAWN_EDGES, BoxText, GeoJson, box_of
from superarm.service.http.problems import ANY_KEY, problems
from superarm.service.http.state import ServiceState
from superarm.service.routes.schemas import WaterCollection


def add_water(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoint."""
    shores = Shores(state.navigator.geography)

    @app.get(
        "/v1/water",
        operation_id="get_water",
        response_model=WaterCollection,
        response_class=GeoJson,
        responses=problems(*ANY_KEY, 422, 503),
        tags=["map"],
    )
    async def water(request: Request, key: Reading, bbox: BoxText = None) -> Response:
        """Return lakes, rivers and streams as GeoJSON, as much as one sees of a box this large."""
        box = None if bbox is None else box_of(bbox)
        headers = _headers(shores, bbox)
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        state.charge(key, COST_OF_MAP)
        view = await asyncio.to_thread(shores.view, box)
        state.charge(key, view.pieces.size / DRAWN_EDGES)
        body = await asyncio.to_thread(shores.feature_collection, view)
        if "gzip" in request.headers.get("accept-encoding", ""):
            packed = await asyncio.to_thread(gzip.compress, body, 4)
            return GeoJson(packed, headers=headers | {"content-encoding": "gzip"})
        return GeoJson(body, headers=headers)


def _headers(shores: Shores, bbox: str | None) -> dict[str, str]:
    """Return by what an answer is known again: it changes with the network only."""
    asked = hashlib.sha256(f"{shores.tag} {bbox}".encode()).hexdigest()[:32]
    kept = "private, no-cache"  # may be kept, and is asked for again
    return {"cache-control": kept, "etag": f'W/"{asked}"', "vary": "accept-encoding"}
