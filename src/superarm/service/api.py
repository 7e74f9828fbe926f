"""The HTTP interface, version 1."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import exc
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from superarm import __version__
from superarm.errors import InfeasibleError
from superarm.service import schemas
from superarm.service.fleet import CLASSES
from superarm.service.gate import Gate, Refused, logger
from superarm.service.keys import RANKS, Key, Role
from superarm.service.navigator import UnknownPlaceError
from superarm.service.schemas import ClassName
from superarm.service.state import ServiceState
from superarm.service.store import EPOCH, Reported, Sums
from superarm.service.writing import BusyError

PAGE = Path(__file__).parent / "page"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

_bearer = HTTPBearer(auto_error=False, description="An API key, `superarm.ID.SECRET`.")
_PROBLEM = {"$ref": "#/components/schemas/Problem"}  # JSON whatever else an endpoint answers
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"content": {"application/json": {"schema": _PROBLEM}}, "description": meaning}
    for code, meaning in {
        400: "The request cannot be read.",
        401: "No valid key.",
        403: "The key's role does not allow this.",
        404: "There is nothing here.",
        409: "The trip id is taken.",
        408: "The body did not come in time.",
        413: "The body is too large.",
        415: "Not JSON.",
        421: "Another host was meant.",
        422: "Something in the request is wrong; the detail says what.",
        429: "Too many requests with this key.",
        503: "Busy; try again after the time in Retry-After.",
    }.items()
}
_Box = Annotated[
    str | None,
    Query(
        description="West, south, east, north in degrees.",
        pattern=r"^-?\d+(\.\d+)?(,-?\d+(\.\d+)?){3}$",
        max_length=100,
    ),
]
_STATUS = {"accepted": 201, "duplicate": 200, "conflict": 409, "rejected": 422}
_GOOD = {200, 201}


class GeoJson(JSONResponse):
    """A map, as bytes that are JSON already."""

    media_type = "application/geo+json"

    def render(self, content: bytes) -> bytes:
        """Return the content as it is."""
        return content


def make_app(
    state: ServiceState, demo: Callable[[FastAPI, ServiceState], None] | None = None
) -> FastAPI:
    """Return the application around a state.

    Args:
        state: what it works on; it is started and stopped with the application.
        demo: adds the endpoints that drive on a hidden truth, in a demo.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:  # noqa: ANN401 - what FastAPI expects
        state.start()
        yield
        state.stop()

    app = FastAPI(
        title="Superarm",
        summary="Routes for electric vehicles that learn from every trip.",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_PROBLEMS,
    )
    app.state.parts = state
    _answer_errors(app)
    _add_questions(app, state)
    _add_reports(app, state)
    _add_health(app, state)
    if demo is not None:
        demo(app, state)
    _add_page(app)
    app.add_middleware(GZipMiddleware, minimum_size=2_000, compresslevel=4)
    app.add_middleware(
        Gate,
        metrics=state.metrics,
        hosts=LOOPBACK if state.settings.demo else None,
        who=state.who,
    )
    return app


def allowed(role: Role) -> Callable[..., Awaitable[Key]]:
    """Return a dependency that lets keys of this role, and higher ones, pass."""

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> Key:
        del given  # the gate has looked at it before the body was read
        state: ServiceState = request.app.state.parts
        key: Key = request.state.key
        if RANKS[key.role] < RANKS[role]:
            raise Refused(403, f"this needs a key of role {role!r}; yours is {key.role!r}")
        charge(state, key, 1)
        return key

    return check


def charge(state: ServiceState, key: Key, cost: int) -> None:
    """Count requests against a key's rate, or turn it away."""
    wait = state.rates.wait_s(key.id, cost)
    if wait:
        detail = f"more than {state.settings.rate:g} requests per second; wait {wait} s"
        raise Refused(429, detail, {"retry-after": str(wait)})


Reading = Annotated[Key, Depends(allowed("read"))]
Reporting = Annotated[Key, Depends(allowed("report"))]
Administering = Annotated[Key, Depends(allowed("admin"))]


def _add_questions(app: FastAPI, state: ServiceState) -> None:
    @app.post("/v1/routes", response_model=schemas.RouteAnswer, tags=["routes"])
    async def ask(request: schemas.RouteRequest, key: Reading) -> Response:
        """Return the route to drive, what it will cost, and how sure that is."""
        issued, body = await state.on_router(
            lambda current: state.navigator.route(request, current, key.id)
        )
        await state.writer.keep([*issued])
        return Response(body, media_type="application/json")

    @app.get(
        "/v1/network",
        response_model=schemas.RoadCollection,
        response_class=GeoJson,
        tags=["map"],
    )
    async def network(request: Request, key: Reading, bbox: _Box = None) -> Response:
        """Return the roads as GeoJSON; ids of features are the positions used in `/v1/belief`."""
        del key
        edges = _edges_in(state, bbox)
        body = await asyncio.to_thread(state.network_json, edges)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return GeoJson(body, headers={"content-encoding": "gzip", "vary": "accept-encoding"})
        return GeoJson(await asyncio.to_thread(gzip.decompress, body))

    @app.get("/v1/belief", response_model=schemas.BeliefAnswer, tags=["map"])
    async def belief(key: Reading, bbox: _Box = None, vehicle: ClassName = "car") -> Response:
        """Return what is believed of the energy of every edge, as columns."""
        del key
        edges = _edges_in(state, bbox)
        body = await state.on_router(
            lambda current: state.navigator.belief(current, vehicle, CLASSES[vehicle], edges)
        )
        return Response(body, media_type="application/json")

    @app.get("/v1/stats", response_model=schemas.StatsAnswer, tags=["learning"])
    def stats(key: Reading) -> schemas.StatsAnswer:
        """Return trips, energies, and whether predictions were as sure as they claimed."""
        del key
        everything, recent = state.calibration()
        stored, aside = state.counts()
        current = state.current
        return schemas.StatsAnswer(
            trips=stored,
            trips_learned=0 if current is None else current.posterior.trips,
            distinct_edges=0 if current is None else current.distinct,
            quarantined=aside,
            mean_energy_wh=_mean(everything.energy_wh, everything.trips),
            mean_best_wh=_mean(everything.best_wh, everything.trips),
            calibration=_calibration(everything),
            recent=_calibration(recent),
        )


def _add_reports(app: FastAPI, state: ServiceState) -> None:
    @app.post(
        "/v1/trips",
        status_code=201,
        response_model=schemas.TripOutcome | schemas.TripOutcomes,
        responses={
            200: {"model": schemas.TripOutcome | schemas.TripOutcomes, "description": "Known."},
            207: {"model": schemas.TripOutcomes, "description": "Some were refused."},
            409: {
                "model": schemas.TripOutcome | schemas.TripOutcomes | schemas.Problem,
                "description": "The trip id is taken by other content.",
            },
            422: {
                "model": schemas.TripOutcome | schemas.TripOutcomes | schemas.Problem,
                "description": "The trip cannot be used; the detail says why.",
            },
        },
        tags=["trips"],
    )
    async def report(body: schemas.Report, key: Reporting) -> Response:
        """Report a trip or a batch; answered when safe on disk. Sending again is harmless."""
        trips = body.read() if isinstance(body, schemas.TripBatch) else [body]
        if len(trips) > 1:
            charge(state, key, len(trips) - 1)
        good = [trip for trip in trips if isinstance(trip, schemas.TripIn)]
        kept = iter(await state.writer.keep([Reported(key.id, trip, key.name) for trip in good]))
        outcomes = [
            trip
            if isinstance(trip, schemas.TripOutcome)
            else cast("schemas.TripOutcome", next(kept))
            for trip in trips
        ]
        codes = {_STATUS[outcome.status] for outcome in outcomes}
        if isinstance(body, schemas.TripIn):
            return JSONResponse(outcomes[0].model_dump(), status_code=codes.pop())
        answer = schemas.TripOutcomes(trips=outcomes)
        code = max(codes) if codes <= _GOOD or len(codes) == 1 else 207
        return JSONResponse(answer.model_dump(), status_code=code)

    @app.get("/v1/trips", response_model=schemas.StoredTrips, tags=["trips"])
    def stored(
        key: Administering,
        after: Annotated[int, Query(ge=0, le=2**62)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> schemas.StoredTrips:
        """Return trips as they were stored, oldest first."""
        del key
        rows = state.store.stored_trips(after, limit)
        for row in rows:
            for name in ("received_at", "driven_at"):
                row[name] = EPOCH + timedelta(microseconds=row[name])
        return schemas.StoredTrips(trips=[schemas.StoredTrip(**row) for row in rows])


def _add_health(app: FastAPI, state: ServiceState) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthy() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def ready() -> dict[str, str]:
        """Say that routes can be asked for."""
        if state.current is None:
            raise Refused(503, "the belief is being loaded", {"retry-after": "1"})
        if not state.learning.alive:
            raise Refused(503, "the learner is being restarted", {"retry-after": "2"})
        return {"status": "ready"}

    @app.get("/metrics", response_class=PlainTextResponse, tags=["health"])
    def metrics(key: Reading) -> Response:
        """Return numbers for Prometheus."""
        del key
        return PlainTextResponse(state.metrics.text(state.gauges()))


def _add_page(app: FastAPI) -> None:
    files = {path.relative_to(PAGE).as_posix(): path for path in PAGE.rglob("*") if path.is_file()}

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/page/{name:path}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in files:
            raise Refused(404, f"there is no file {name!r}")
        return FileResponse(files[name], headers={"cache-control": "no-cache"})


def _answer_errors(app: FastAPI) -> None:
    async def answer(request: Request, error: Exception) -> Response:
        status, detail, headers = _explained(error)
        body = {"detail": detail, "request_id": request.state.request_id}
        return JSONResponse(body, status_code=status, headers=headers)

    for kind in (
        Refused,
        RequestValidationError,
        HTTPException,
        UnknownPlaceError,
        InfeasibleError,
        BusyError,
        exc.OperationalError,
        exc.InterfaceError,
        exc.TimeoutError,
    ):
        app.add_exception_handler(kind, answer)


def _explained(error: Exception) -> tuple[int, str, dict[str, str]]:
    match error:
        case Refused():
            return error.status, error.detail, error.headers
        case RequestValidationError():
            return 422, schemas.what_is_wrong(error.errors()), {}
        case HTTPException():
            return error.status_code, str(error.detail), dict(error.headers or {})
        case UnknownPlaceError() | InfeasibleError():
            return 422, str(error), {}
        case BusyError():
            return 503, "too many reports wait to be stored; try again", {"retry-after": "2"}
        case _:
            logger.error("the database does not answer", exc_info=error)
            return 503, "the database does not answer; try again", {"retry-after": "5"}


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None


def _calibration(sums: Sums) -> schemas.Calibration:
    mean, square = _mean(sums.z, sums.trips), _mean(sums.squares, sums.trips)
    spread = None if mean is None or square is None else max(square - mean**2, 0.0) ** 0.5
    return schemas.Calibration(
        trips=sums.trips, coverage_90=_mean(sums.inside, sums.trips), mean_z=mean, std_z=spread
    )


def _edges_in(state: ServiceState, bbox: str | None) -> Any:  # noqa: ANN401 - an array or nothing
    if bbox is None:
        return None
    west, south, east, north = (float(part) for part in bbox.split(","))
    if west > east or south > north:
        raise Refused(422, "bbox must be west,south,east,north with west <= east, south <= north")
    return state.navigator.geography.inside((west, south, east, north))
