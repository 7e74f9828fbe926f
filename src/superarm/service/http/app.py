"""The HTTP interface, version 1: all endpoints, the page, and the gate around them."""

import gzip
import hashlib
import mimetypes
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.middleware.gzip import GZipMiddleware

from superarm import __version__
from superarm.service.http.access import Reading
from superarm.service.http.administration import add_administration
from superarm.service.http.charging import add_charging
from superarm.service.http.gate import Gate, Refused, policy_with
from superarm.service.http.problems import ANY_KEY, answer_errors, problems
from superarm.service.http.questions import add_questions
from superarm.service.http.reports import add_reports
from superarm.service.http.schemas import Health, Problem
from superarm.service.http.state import ServiceState, Settings
from superarm.service.http.surveys import add_surveys
from superarm.service.http.traces import add_traces
from superarm.service.http.water import add_water
from superarm.service.trips.schemas import TripBatch, TripIn, TripOutcome, TripOutcomes
from superarm.service.trips.traces import TraceIn

PAGE = Path(__file__).parent / "page"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

_MOST_FAILURES = 3
_COST_OF_METRICS = 20.0
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Asset:
    """A file of the page, packed once."""

    plain: bytes
    packed: bytes
    kind: str
    tag: str

    @classmethod
    def of(cls, path: Path) -> "Asset":
        """Read a file."""
        plain = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        kind = "text/javascript" if path.suffix in {".js", ".mjs"} else kind
        digest = hashlib.sha256(plain).hexdigest()[:32]
        return cls(plain, gzip.compress(plain, 6, mtime=0), kind, f'"{digest}"')

    def answer(self, request: Request) -> Response:
        """Return the file, packed if the client can unpack it, or say that it has not changed."""
        headers = {"cache-control": "no-cache", "etag": self.tag, "vary": "accept-encoding"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(self.packed, media_type=self.kind, headers=headers)
        return Response(self.plain, media_type=self.kind, headers=headers)


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
    )
    app.state.parts = state
    answer_errors(app)
    add_questions(app, state)
    add_water(app, state)
    add_surveys(app, state)
    add_charging(app, state)
    add_reports(app, state)
    add_traces(app, state)
    add_administration(app, state)
    _add_health(app, state)
    if demo is not None:
        demo(app, state)
    _add_page(app, state.settings)
    _describe(app)
    app.add_middleware(GZipMiddleware, minimum_size=2_000, compresslevel=4)
    app.add_middleware(
        Gate,
        metrics=state.metrics,
        hosts=LOOPBACK if state.settings.demo else None,
        keeper=state,
    )
    return app


def _add_health(app: FastAPI, state: ServiceState) -> None:
    @app.get("/healthz", operation_id="is_alive", tags=["health"])
    async def healthy() -> Health:
        """Say that the process answers."""
        return Health(status="ok")

    @app.get(
        "/readyz",
        operation_id="is_ready",
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


def _add_page(app: FastAPI, settings: Settings) -> None:
    files = {
        path.relative_to(PAGE).as_posix(): Asset.of(path)
        for path in PAGE.rglob("*")
        if path.is_file()
    }

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        answer = files["index.html"].answer(request)
        if settings.tiles is not None:
            answer.headers["content-security-policy"] = policy_with(settings.tiles)
        return answer

    @app.get("/page/settings.json", include_in_schema=False)
    async def page_settings() -> dict[str, bool | str | None]:
        tiles = {"tiles": settings.tiles, "attribution": settings.tiles_attribution}
        return {"demo": settings.demo} | tiles

    @app.get("/page/{name:path}", include_in_schema=False)
    async def asset(request: Request, name: str) -> Response:
        if name not in files:
            raise Refused(404, f"there is no file {name!r}")
        return files[name].answer(request)


def _describe(app: FastAPI) -> None:
    """Let the description name what is read by hand, and only errors that can happen."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes
            )
            ours: list[tuple[type[BaseModel], JsonSchemaMode]] = [
                (TripIn, "validation"),
                (TripBatch, "validation"),
                (TraceIn, "validation"),
                (Problem, "serialization"),
                (TripOutcome, "serialization"),
                (TripOutcomes, "serialization"),
            ]
            _, more = models_json_schema(ours, ref_template="#/components/schemas/{model}")
            parts = schema.setdefault("components", {}).setdefault("schemas", {})
            for name, part in more["$defs"].items():
                parts.setdefault(name, part)
            for path in schema["paths"].values():
                for operation in path.values():
                    _without_framework_errors(operation)
            for name in ("HTTPValidationError", "ValidationError"):
                parts.pop(name, None)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _without_framework_errors(operation: dict[str, Any]) -> None:
    answer = operation["responses"].get("422", {})
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    if schema.get("$ref", "").endswith("/HTTPValidationError"):
        schema["$ref"] = "#/components/schemas/Problem"
        answer["description"] = "Something in the request is wrong; the detail says what."
