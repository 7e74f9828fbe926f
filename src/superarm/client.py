"""A small client of the service: routes to drive, trips to report, safe to send again.

It needs nothing but the standard library. How to start the service: the how-to
about it, or ``superarm serve --help``.
"""

import gzip
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from superarm.errors import SuperarmError

__all__ = ["Client", "ServiceError"]

_TRY_AGAIN = (429, 502, 503, 504)
_TOO_LARGE = 413
_WORTH_PACKING = 2_000


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key goes to the address given and nowhere else."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none."""


_OPENER = urllib.request.build_opener(_NoRedirect)


class ServiceError(SuperarmError):
    """The service refused a request; `status` and `detail` say how and why.

    The status is zero if there was no answer.
    """

    def __init__(self, status: int, detail: str) -> None:
        """Remember both."""
        super().__init__(f"{status}: {detail}" if status else detail)
        self.status, self.detail = status, detail


class Client:
    """Talks to a service; waits and tries again where it is busy or away for a moment.

    Args:
        url: of the service.
        key: an API key; none for a demo.
        timeout_s: of one request.
        patience_s: how long to go on trying.
        notify: is called with a sentence when a request begins to wait: for whom, why, and for how
            long; once for each request.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 30.0,
        patience_s: float = 60.0,
        notify: Callable[[str], object] | None = None,
    ) -> None:
        """Check the address."""
        if not url.startswith(("http://", "https://")):
            msg = f"url must start with http:// or https://, got {url!r}"
            raise ValueError(msg)
        self._url = url.rstrip("/")
        self._key = key
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._notify = notify

    def route(self, start: object, goal: object, **options: object) -> dict[str, Any]:
        """Ask for a route; options are those of ``POST /v1/routes``.

        Args:
            start: an edge id, or a mapping with longitude and latitude.
            goal: likewise.
            options: via, vehicle, battery, closed_edges, mode, alternatives, max_extra_energy,
                max_extra_time, wh_per_minute, departs_at, temperature_c, payload_kg.
        """
        answer: dict[str, Any] = self._ask(
            "POST", "/v1/routes", {"start": start, "goal": goal, **_timed(options, "departs_at")}
        )
        return answer

    def front(self, start: str, goal: str, **options: object) -> dict[str, Any]:
        """Return at most eight routes between the fastest and the thriftiest.

        Args:
            start: an edge id, or ``"longitude,latitude"``.
            goal: likewise.
            options: vehicle, departs_at, temperature_c, payload_kg.
        """
        query = {"start": start, "goal": goal, **_timed(dict(options), "departs_at")}
        answer: dict[str, Any] = self._ask("GET", f"/v1/front?{urlencode(query)}")
        return answer

    def routes(self, requests: Iterable[Mapping[str, object]]) -> list[dict[str, Any]]:
        """Ask for up to 100 routes at once; each comes with ``route``, or with ``problem``."""
        body = {"routes": [_timed(dict(request), "departs_at") for request in requests]}
        answer: list[dict[str, Any]] = self._ask("POST", "/v1/routes/batch", body)["routes"]
        return answer

    def reach(self, start: object, battery: object, **options: object) -> dict[str, Any]:
        """Return how far the charge lasts, as GeoJSON areas.

        Args:
            start: an edge id, or a mapping with longitude and latitude.
            battery: a mapping with charge_wh, capacity_wh and reserve_wh.
            options: back, confidences, vehicle, closed_edges, departs_at, temperature_c,
                payload_kg.
        """
        body = {"start": start, "battery": battery, **_timed(options, "departs_at")}
        answer: dict[str, Any] = self._ask("POST", "/v1/reach", body)
        return answer

    def matrix(
        self, origins: Iterable[object], destinations: Iterable[object], **options: object
    ) -> dict[str, Any]:
        """Return energies and minutes of the best ways from all origins to all destinations.

        Args:
            origins: up to 100 edge ids, or mappings with longitude and latitude.
            destinations: likewise.
            options: by, vehicle, closed_edges, departs_at, temperature_c, payload_kg.
        """
        ends = {"origins": list(origins), "destinations": list(destinations)}
        answer: dict[str, Any] = self._ask(
            "POST", "/v1/matrix", ends | _timed(options, "departs_at")
        )
        return answer

    def plan(
        self, start: object, goal: object, battery: object, **options: object
    ) -> dict[str, Any]:
        """Return a trip with stops to charge.

        Args:
            start: an edge id, or a mapping with longitude and latitude.
            goal: likewise.
            battery: a mapping with charge_wh, capacity_wh and reserve_wh.
            options: probability, least, stop_minutes, curve, vehicle, closed_edges, departs_at,
                temperature_c, payload_kg.
        """
        ends = {"start": start, "goal": goal, "battery": battery}
        answer: dict[str, Any] = self._ask(
            "POST", "/v1/plans", ends | _timed(options, "departs_at")
        )
        return answer

    def stations(self) -> dict[str, Any]:
        """Return the charging stations, as GeoJSON."""
        answer: dict[str, Any] = self._ask("GET", "/v1/stations")
        return answer

    def report(self, trip_id: str, driven_at: datetime | str, **trip: object) -> dict[str, Any]:
        """Report a trip; sending the same again under the same id is harmless.

        Args:
            trip_id: chosen by you, the same whenever this trip is sent.
            driven_at: a datetime with an offset, or RFC 3339 text.
            trip: route_id or edges; edge_energy_wh, spans or total_energy_wh; vehicle,
                duration_s or edge_duration_s, speeds_ms, temperature_c, payload_kg.
        """
        body = _timed({"trip_id": trip_id, "driven_at": driven_at, **trip}, "driven_at")
        answer: dict[str, Any] = self._ask("POST", "/v1/trips", body)
        return answer

    def report_many(self, trips: Iterable[Mapping[str, object]]) -> list[dict[str, Any]]:
        """Report up to 1,000 trips at once and return what became of each.

        A batch that is too large for the service is sent in halves.
        """
        batch = [_timed(dict(trip), "driven_at") for trip in trips]
        try:
            answer = self._ask("POST", "/v1/trips", {"trips": batch}, refused=(207, 409, 422))
        except ServiceError as error:
            if error.status != _TOO_LARGE or len(batch) == 1:
                raise
            half = len(batch) // 2
            return self.report_many(batch[:half]) + self.report_many(batch[half:])
        if "trips" not in answer:
            raise ServiceError(422, str(answer.get("detail")))
        outcomes: list[dict[str, Any]] = answer["trips"]
        return outcomes

    def trace(self, trace_id: str, begins_at: datetime | str, **columns: object) -> dict[str, Any]:
        """Report GPS points with readings of the battery; see ``POST /v1/traces``.

        Args:
            trace_id: of your own choice; the same trace under the same id is known again.
            begins_at: with a time zone.
            columns: seconds, longitude, latitude, and used_wh, power_w or charge_percent.
        """
        begin = begins_at.isoformat() if isinstance(begins_at, datetime) else begins_at
        body = {"trace_id": trace_id, "begins_at": begin, **columns}
        answer: dict[str, Any] = self._ask("POST", "/v1/traces", body)
        return answer

    def belief(
        self, vehicle: str = "car", bbox: str | None = None, most: int | None = None
    ) -> dict[str, Any]:
        """Return what is believed of the energy of edges, as columns.

        Of networks beyond 12,000 edges a box or a number of edges must be asked for.
        """
        query: dict[str, object] = {"vehicle": vehicle, "bbox": bbox, "most": most}
        given = {name: value for name, value in query.items() if value is not None}
        answer: dict[str, Any] = self._ask("GET", f"/v1/belief?{urlencode(given)}")
        return answer

    def stats(self) -> dict[str, Any]:
        """Return how the service is doing."""
        answer: dict[str, Any] = self._ask("GET", "/v1/stats")
        return answer

    def trips(self, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Return one's own stored trips, oldest first; an administrator gets all."""
        answer = self._ask("GET", f"/v1/trips?{urlencode({'after': after, 'limit': limit})}")
        found: list[dict[str, Any]] = answer["trips"]
        return found

    def trip(self, trip_id: str) -> dict[str, Any]:
        """Return where one of one's own trips is: learned, waiting, put aside."""
        answer: dict[str, Any] = self._ask("GET", f"/v1/trips/{quote(trip_id, safe='')}")
        return answer

    def key(self) -> dict[str, Any]:
        """Return what is made of one's own trips, and what to look at."""
        answer: dict[str, Any] = self._ask("GET", "/v1/keys/me")
        return answer

    def quarantine(self, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Return one's own trips that were put aside, and why; an administrator gets all."""
        answer = self._ask("GET", f"/v1/quarantine?{urlencode({'after': after, 'limit': limit})}")
        found: list[dict[str, Any]] = answer["trips"]
        return found

    def _ask(
        self, method: str, path: str, body: object = None, refused: tuple[int, ...] = ()
    ) -> Any:  # noqa: ANN401 - JSON
        headers = {"accept": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        data = None
        if body is not None:
            data = json.dumps(body, allow_nan=False).encode()
            headers["content-type"] = "application/json"
            if len(data) > _WORTH_PACKING:
                data = gzip.compress(data)
                headers["content-encoding"] = "gzip"
        request = urllib.request.Request(  # noqa: S310 - checked above
            self._url + path, data=data, headers=headers, method=method
        )
        until = time.monotonic() + self._patience_s
        waited = False
        while True:
            try:
                return self._answer(request, refused)
            except _BusyError as busy:
                left = until - time.monotonic()
                if busy.wait_s > left:
                    raise busy.refusal from busy.__cause__
                if self._notify is not None and not waited:
                    self._notify(f"{busy}; asking again for up to {left:.0f} s")
                waited = True
                time.sleep(busy.wait_s)

    def _answer(self, request: urllib.request.Request, refused: tuple[int, ...]) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to one attempt; `_BusyError` is raised where another may succeed."""
        try:
            with _OPENER.open(request, timeout=self._timeout_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            content = error.read()
            if error.code in refused:
                return json.loads(content)
            refusal = ServiceError(error.code, _detail(content))
            if error.code not in _TRY_AGAIN:
                raise refusal from error
            wait_s = _seconds(error.headers.get("retry-after"))
            why = f"{self._url} is busy ({refusal})"
            raise _BusyError(why, wait_s, refusal) from error
        except (OSError, http.client.HTTPException) as error:
            why = f"{self._url} does not answer ({_reason(error)})"
            advice = "check that the service runs and that this is its address"
            raise _BusyError(why, 0.5, ServiceError(0, f"{why}; {advice}")) from error


class _BusyError(Exception):
    """The service may answer later; the refusal is what to raise if nobody waits for that."""

    def __init__(self, why: str, wait_s: float, refusal: ServiceError) -> None:
        """Remember all three."""
        super().__init__(why)
        self.wait_s, self.refusal = wait_s, refusal


def _timed(given: dict[str, object], name: str) -> dict[str, object]:
    """Return what was given with a time as text."""
    moment = given.get(name)
    return given | {name: moment.isoformat()} if isinstance(moment, datetime) else given


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 1.0


def _reason(error: Exception) -> str:
    """Return why there was no answer, as the system says it."""
    cause = getattr(error, "reason", error)
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__)


def _detail(content: bytes) -> str:
    try:
        return str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace")
