"""The endpoint for GPS traces: matched, then kept like any other trips."""

import asyncio
import gzip
import hashlib
import logging
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic_core import from_json

from superarm.saving.files import write_atomically
from superarm.service.http.access import Reporting
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.refused import Refused
from superarm.service.http.reports import cost_of
from superarm.service.http.state import ServiceState
from superarm.service.trips.traces import TraceIn, TraceOutcome

logger = logging.getLogger("superarm.service")

_POINTS_PER_REQUEST = 20.0

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/TraceIn"},
                "examples": {
                    "charge": {
                        "summary": "A log with a state of charge, every five seconds",
                        "value": {
                            "trace_id": "van7-2026-03-01-1",
                            "begins_at": "2026-03-01T08:15:00+01:00",
                            "seconds": [0, 5, 10, 15],
                            "longitude": [6.1, 6.1005, 6.101, 6.1015],
                            "latitude": [49.6, 49.6, 49.6, 49.6],
                            "charge_percent": [80.0, None, None, 79.9],
                            "capacity_wh": 52_000,
                        },
                    }
                },
            }
        },
    }
}


def read_trace(body: bytes) -> TraceIn:
    """Return the trace that was sent, or refuse."""
    try:
        given = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(422, f"the body is not JSON: {error}") from error
    return TraceIn.model_validate(given)


def _keep(folder: Path, key_id: str, trace_id: str, body: bytes) -> None:
    """Write a trace as it was sent, under a name that nobody chooses."""
    name = hashlib.sha256(f"{key_id}\0{trace_id}".encode()).hexdigest()[:32]
    target = folder / key_id / f"{name}.json.gz"
    if target.exists():  # what was sent first is what its trips were matched from
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, lambda file: file.write(gzip.compress(body)))
    except OSError as error:  # the trip is stored; a full disk does not undo that
        logger.warning("a trace could not be kept: %s", error)


def add_traces(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoint."""

    @app.post(
        "/v1/traces",
        operation_id="report_trace",
        status_code=201,
        response_model=TraceOutcome,
        responses=problems(*ANY_KEY, *ANY_BODY)
        | {
            200: {"model": TraceOutcome, "description": "No new trip; each says why."},
        },
        openapi_extra=_BODY,
        tags=["trips"],
    )
    async def report(request: Request, key: Reporting) -> Response:
        """Report GPS points with readings; sending the same again is harmless."""
        body = await request.body()
        trace = await asyncio.to_thread(read_trace, body)  # thousands of points
        state.charge(key, len(trace.seconds) / _POINTS_PER_REQUEST)
        outcome, trips = await state.on_matcher(trace, key)
        state.charge(key, cost_of(trips, state.network.n_edges))
        kept = await state.keep(trips, key) if trips else []
        outcome.trips.extend(kept)
        new = any(trip.status == "accepted" for trip in kept)
        if new and state.settings.keep_traces is not None:
            await asyncio.to_thread(_keep, state.settings.keep_traces, key.id, trace.trace_id, body)
        return JSONResponse(outcome.model_dump(), status_code=201 if new else 200)
