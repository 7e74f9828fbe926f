"""The HTTP interface, version 1: all endpoints, the page, and the gate around them."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse
from starlette.middleware.gzip import GZipMiddleware

from superarm import __version__
from superarm.service.http.access import ALWAYS_PUBLIC, Operations, Reading
from superarm.service.http.administration import add_administration
from superarm.service.http.assets import add_page
from superarm.service.http.charging import add_charging
from superarm.service.http.description import describe
from superarm.service.http.gate import Gate
from superarm.service.http.maps import add_maps
from superarm.service.http.problems import ANY_KEY, answer_errors, problems
from superarm.service.http.questions import add_questions
from superarm.service.http.refused import Refused
from superarm.service.http.reports import add_reports
from superarm.service.http.schemas import Health
from superarm.service.http.state import ServiceState
from superarm.service.http.surveys import add_surveys
from superarm.service.http.traces import add_traces
from superarm.service.http.water import add_water

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

_MOST_FAILURES = 3
_COST_OF_METRICS = 20.0
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
        openapi_url=None,  # served below, with the page
        redirect_slashes=False,  # a redirect would send the key on, over plain HTTP
    )
    app.state.parts = state
    answer_errors(app)
    add_questions(app, state)
    add_maps(app, state)
    add_water(app, state)
    add_surveys(app, state)
    add_charging(app, state)
    add_reports(app, state)
    add_traces(app, state)
    add_administration(app, state)
    _add_health(app, state)
    if demo is not None:
        demo(app, state)
    add_page(app, state.settings)
    describe(app)
    app.add_middleware(GZipMiddleware, minimum_size=2_000, compresslevel=4)
    app.add_middleware(
        Gate,
        operations=Operations(app.routes),
        metrics=state.metrics,
        hosts=LOOPBACK if state.settings.demo else None,
        keeper=state,
    )
    return app


def _add_health(app: FastAPI, state: ServiceState) -> None:
    @app.get("/healthz", operation_id="is_alive", dependencies=[ALWAYS_PUBLIC], tags=["health"])
    async def healthy() -> Health:
        """Say that the process answers."""
        return Health(status="ok")

    @app.get(
        "/readyz",
        operation_id="is_ready",
        dependencies=[ALWAYS_PUBLIC],
        responses=problems(503),
        tags=["health"],
    )
    async def ready() -> Health:
        """Say that routes can be asked for and trips can be stored."""
        if not state.ready:
            raise Refused(503, "the belief is being loaded", {"retry-after": "1"})
        if not state.learning.alive:
            raise Refused(503, "the learner is being restarted", {"retry-after": "2"})
        if state.learning.failures >= _MOST_FAILURES:
            raise Refused(503, "the learner dies again and again; see the log")
        if not state.writer.alive:
            raise Refused(503, "trips cannot be stored; restart the server", {"retry-after": "5"})
        if state.watch.problem is not None:
            raise Refused(503, f"the database fails: {state.watch.problem}", {"retry-after": "2"})
        return Health(status="ready")

    @app.get(
        "/metrics",
        operation_id="get_metrics",
        response_class=PlainTextResponse,
        responses=problems(*ANY_KEY, 503),
        tags=["health"],
    )
    def metrics(key: Reading) -> Response:
        """Return numbers for Prometheus."""
        state.charge(key, _COST_OF_METRICS)
        return Response(state.metrics.text(), media_type=_METRICS_TYPE)
