"""The description of the interface: roles, what is read by hand, errors that can happen."""

import json
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from superarm.service.http.access import PUBLIC, role_of
from superarm.service.http.assets import Asset
from superarm.service.http.schemas import Problem
from superarm.service.trips.schemas import TripBatch, TripIn, TripOutcome, TripOutcomes
from superarm.service.trips.traces import TraceIn

_READ_BY_HAND: list[tuple[type[BaseModel], JsonSchemaMode]] = [
    (TripIn, "validation"),
    (TripBatch, "validation"),
    (TraceIn, "validation"),
    (Problem, "serialization"),
    (TripOutcome, "serialization"),
    (TripOutcomes, "serialization"),
]


def describe(app: FastAPI) -> None:
    """Add the endpoint that describes all others."""

    @lru_cache(1)
    def described() -> dict[str, Any]:
        return _described(app)

    @lru_cache(1)
    def asset() -> Asset:
        return Asset.of(json.dumps(described()).encode(), "application/json")

    app.openapi = described  # type: ignore[method-assign]

    @app.get("/v1/openapi.json", include_in_schema=False, dependencies=[PUBLIC])
    def description(request: Request) -> Response:
        return asset().answer(request)


def _described(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    _, more = models_json_schema(_READ_BY_HAND, ref_template="#/components/schemas/{model}")
    parts = schema.setdefault("components", {}).setdefault("schemas", {})
    for name, part in more["$defs"].items():
        parts.setdefault(name, part)
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                operation = schema["paths"][route.path_format][method.lower()]
                _name_role(operation, role_of(route))
                _without_framework_errors(operation)
    for name in ("HTTPValidationError", "ValidationError"):
        parts.pop(name, None)
    return schema


def _name_role(operation: dict[str, Any], role: str) -> None:
    operation["x-role"] = role
    if role != "public":
        said = operation.get("description", "")
        operation["description"] = f"{said}\n\nNeeds a key of role `{role}`, or higher.".strip()


def _without_framework_errors(operation: dict[str, Any]) -> None:
    answer = operation["responses"].get("422", {})
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    if schema.get("$ref", "").endswith("/HTTPValidationError"):
        schema["$ref"] = "#/components/schemas/Problem"
        answer["description"] = "Something in the request is wrong; the detail says what."
