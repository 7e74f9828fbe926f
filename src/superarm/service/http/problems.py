"""What can go wrong, as HTTP says it."""

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from superarm.errors import DataError, InfeasibleError, WorkLimitError
from superarm.service.database import is_away
from superarm.service.http.refused import Refused
from superarm.service.routes.navigator import UnknownPlaceError
from superarm.service.trips.schemas import what_is_wrong
from superarm.service.trips.writing import BusyError

logger = logging.getLogger("superarm.service")

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_MEANINGS = {
    400: "The request cannot be read.",
    401: "No valid key.",
    403: "The key's role does not allow this.",
    404: "There is nothing here.",
    408: "The body did not come in time.",
    409: "The trip id is taken.",
    413: "The body is too large.",
    415: "Not JSON.",
    421: "Another host was meant.",
    422: "Something in the request is wrong; the detail says what.",
    429: "Too many requests; try again after the time in Retry-After.",
    503: "Busy, or the database is away; try again after the time in Retry-After.",
}
ANY_KEY = (401, 403, 429)
"""Of every endpoint that needs a key."""

ANY_BODY = (400, 408, 413, 415, 422, 503)
"""Of every endpoint that takes a body."""


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return responses for a description of the interface."""
    return {
        code: {
            "content": {"application/json": {"schema": _PROBLEM}},
            "description": _MEANINGS[code],
        }
        for code in sorted(set(codes))
    }


def answer_errors(app: FastAPI) -> None:
    """Let errors become answers that say what to do."""

    async def answer(request: Request, error: Exception) -> Response:
        status, detail, headers = _explained(error)
        body = {"detail": detail, "request_id": request.state.request_id}
        return JSONResponse(body, status_code=status, headers=headers)

    for kind in (
        Refused,
        RequestValidationError,
        ValidationError,
        HTTPException,
        UnknownPlaceError,
        InfeasibleError,
        WorkLimitError,
        DataError,
        BusyError,
        SQLAlchemyError,
    ):
        app.add_exception_handler(kind, answer)


def _explained(error: Exception) -> tuple[int, str, dict[str, str]]:  # noqa: PLR0911 - one per kind
    match error:
        case Refused():
            return error.status, error.detail, error.headers
        case RequestValidationError() | ValidationError():
            return 422, what_is_wrong(error.errors()), {}
        case HTTPException():
            return error.status_code, str(error.detail), dict(error.headers or {})
        case UnknownPlaceError() | InfeasibleError() | WorkLimitError():
            return 422, str(error), {}
        case DataError():
            return 404, str(error), {}
        case BusyError():
            return 503, "too many reports wait to be stored; try again", {"retry-after": "2"}
        case _ if is_away(error):
            return 503, "the database does not answer; try again", {"retry-after": "2"}
        case _:
            logger.error("unexpected", exc_info=error)
            return 500, "something went wrong here; it has been logged", {}
