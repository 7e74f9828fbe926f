"""Every operation, asked with every kind of key: who is let in, who is not, and what is public."""

import http.client
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from parts import require_module
from services import Answer, Server, running, small_city

require_module("fastapi", "service")

from fastapi import FastAPI  # noqa: E402
from fastapi.routing import APIRoute  # noqa: E402

from superarm.service.database import Database, now_us  # noqa: E402
from superarm.service.demo import add_demo  # noqa: E402
from superarm.service.http.access import Operations, Reading  # noqa: E402
from superarm.service.http.app import make_app  # noqa: E402
from superarm.service.http.keys import KeyRing  # noqa: E402
from superarm.service.http.state import ServiceState, Settings  # noqa: E402
from superarm.service.trips.standings import set_aside  # noqa: E402

CITY = small_city()
RANKS = ["read", "report", "admin"]
PUBLIC = "public"
OPERATIONS = {
    "GET /": PUBLIC,
    "GET /page/settings.json": PUBLIC,
    "GET /page/{name}": PUBLIC,
    "GET /healthz": PUBLIC,
    "GET /readyz": PUBLIC,
    "GET /v1/openapi.json": PUBLIC,
    "GET /metrics": "read",
    "POST /v1/routes": "read",
    "POST /v1/routes/batch": "read",
    "GET /v1/front": "read",
    "POST /v1/reach": "read",
    "POST /v1/matrix": "read",
    "POST /v1/plans": "read",
    "GET /v1/network": "read",
    "GET /v1/belief": "read",
    "GET /v1/water": "read",
    "GET /v1/stations": "read",
    "GET /v1/places": "read",
    "GET /v1/stats": "read",
    "GET /v1/keys/me": "read",
    "POST /v1/trips": "report",
    "GET /v1/trips": "report",
    "GET /v1/trips/{trip_id}": "report",
    "DELETE /v1/trips/{trip_id}": "report",
    "POST /v1/traces": "report",
    "GET /v1/quarantine": "report",
    "POST /v1/quarantine/{sequence}/release": "admin",
    "DELETE /v1/quarantine/{sequence}": "admin",
    "GET /v1/keys": "admin",
    "POST /v1/keys": "admin",
    "DELETE /v1/keys/{key_id}": "admin",
    "POST /v1/keys/{key_id}/trust": "admin",
}
DEMO = {
    "POST /v1/demo/drive": "report",
    "POST /v1/demo/tour": "report",
    "GET /v1/demo/tour": "report",
}
_NUMBERS = itertools.count()
NOTHING = {"name": "nothing", "trip_id": "nothing", "sequence": "99", "key_id": "nobody"}


class Served(NamedTuple):
    server: Server
    keys: dict[str, str | None]

    def ask(self, method: str, path: str, key: str | None, body: bytes | None = None) -> Answer:
        """Ask exactly this, without the client's help."""
        parts = urlsplit(self.server.url)
        # each from an address of its own: strangers are counted by theirs
        source = (f"127.0.{next(_NUMBERS) % 200}.{next(_NUMBERS) % 200 + 2}", 0)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=30, source_address=source
        )
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        told = Answer(answer.status, answer.headers, answer.read())
        connection.close()
        return told


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("roles")
    CITY.save(folder / "city.npz")
    database = Database(str(folder / "trips.db"))
    database.migrate()
    ring = KeyRing(database)
    keys: dict[str, str | None] = {"none": None, "nonsense": "nonsense"}
    for role in RANKS:
        keys[role] = ring.add(role, role)[1]  # type: ignore[arg-type]
    keys["expired"] = ring.add("expired", "admin", now_us() - 1)[1]
    for name in ("revoked", "set aside"):
        key, keys[name] = ring.add(name, "admin" if name == "revoked" else "report")
        if name == "revoked":
            ring.revoke(key.id)
        else:
            set_aside(database, {key.id: "it read kWh"})
    keys["altered"] = f"{keys['admin']}x"
    database.close()
    with running(folder, "--network", "city.npz", "--database", "trips.db") as server:
        yield Served(server, keys)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The application of a demo, never started: its operations are looked at."""
    folder = tmp_path_factory.mktemp("app")
    state = ServiceState(Settings(CITY, str(folder / "demo.db"), folder, demo=True))
    yield make_app(state, add_demo)
    state.database.close()


def path_of(operation: str) -> tuple[str, str]:
    method, _, path = operation.partition(" ")
    for name, value in NOTHING.items():
        path = path.replace(f"{{{name}}}", value)
    return method, path


def expected(who: str, role: str) -> set[int]:
    """Statuses that a kind of key may see of an operation of a role."""
    let_in = {200, 404, 415, 422}
    if role == PUBLIC:
        return let_in - {415, 422}
    rank = {"set aside": "report"}.get(who, who)
    if rank not in RANKS:
        return {401}
    return let_in if RANKS.index(rank) >= RANKS.index(role) else {403}


def test_every_operation_is_in_the_table(app: FastAPI) -> None:
    assert all(isinstance(route, APIRoute) for route in app.routes)
    listed = {
        f"{method} {route.path_format}"
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert listed == set(OPERATIONS | DEMO)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_lets_in_its_role_and_those_above(served: Served, operation: str) -> None:
    method, path = path_of(operation)
    for who, key in served.keys.items():
        # what is no JSON is noticed only where a body is read
        body = b"no JSON" if method == "POST" else None
        answer = served.ask(method, path, key, body)
        assert answer.status in expected(who, OPERATIONS[operation]), (who, answer.body)
        if answer.status == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "Bearer superarm.ID.SECRET" in answer.json["detail"]


@pytest.mark.parametrize("text", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer\t{}"])
def test_a_key_comes_as_a_bearer_token(served: Served, text: str) -> None:
    told = text.format(served.keys["admin"])
    answer = served.server.ask("GET", "/v1/stats", headers={"authorization": told})
    assert answer.status == 401


def test_a_key_in_the_address_is_none(served: Served) -> None:
    for operation, role in OPERATIONS.items():
        method, path = path_of(operation)
        answer = served.ask(method, f"{path}?key={served.keys['admin']}", None)
        assert (answer.status == 401) == (role != PUBLIC)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/stats/",
        "/v1/trips2",
        "/V1/trips",
        "/v1/Trips",
        "//v1/trips",
        "/v1//trips",
        "/v1/./stats",
        "/v1/%2e/stats",
        "/page/../v1/stats",
        "/page/%2e%2e/v1/nothing",
        "/metrics/",
        "/metrics2",
        "/healthz/",
        "/readyz2",
        "/v1/openapi.json/",
        "/docs",
        "/redoc",
        "/openapi.json",
        "/favicon.ico",
        "/%00",
        "/v1/demo/tour",
    ],
)
def test_an_unknown_path_needs_a_key_and_leads_nowhere(served: Served, path: str) -> None:
    for method in ("GET", "POST", "HEAD", "OPTIONS"):
        body = b"no JSON" if method == "POST" else None
        # the page's files are public, also those that do not exist
        public = path.startswith("/page/")
        stranger = served.ask(method, path, None, body)
        known = served.ask(method, path, served.keys["read"], body)
        if public:
            assert stranger.status in {404, 405, 413}
        else:
            assert stranger.status == 401
            assert known.status in {404, 415}
        for answer in (stranger, known):
            assert answer.headers["location"] is None


@pytest.mark.parametrize("path", ["/v1/%74rips", "/v1/trips?x=1", "/v1%2Ftrips", "/v1/trips/"])
def test_another_way_to_write_a_path_needs_the_same_role(served: Served, path: str) -> None:
    for who, key in served.keys.items():
        assert served.ask("GET", path, key).status in expected(who, "report"), who


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "BREW"])
def test_other_methods_need_a_key_and_are_not_allowed(served: Served, method: str) -> None:
    for operation, role in OPERATIONS.items():
        _, path = path_of(operation)
        for who, key in served.keys.items():
            answer = served.ask(method, path, key)
            known = role == PUBLIC or who in {*RANKS, "set aside"}
            # a method that HTTP does not have is not even parsed
            allowed = {400} if method == "BREW" else {405} if known else {401}
            assert answer.status in allowed, (operation, who)


def test_a_body_is_not_looked_at_before_the_role(served: Served) -> None:
    for who in ("none", "read"):
        for body in (b"{", b" " * 1000, b'{"trips": []}'):
            assert served.ask("POST", "/v1/trips", served.keys[who], body).status in {401, 403}


def test_an_operation_without_a_role_stops_the_start() -> None:
    app = FastAPI(openapi_url=None)

    @app.get("/declared")
    def declared(key: Reading) -> str:
        return key.name

    assert Operations(app.routes) is not None

    @app.get("/forgotten")
    def forgotten() -> str:
        return "open to everybody"

    with pytest.raises(ValueError, match="GET /forgotten declares no role"):
        Operations(app.routes)


def test_the_description_says_who_may_ask(served: Served) -> None:
    schema = json.loads(served.ask("GET", "/v1/openapi.json", None).body)
    told: dict[str, Any] = {
        f"{method.upper()} {path}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }
    for name, operation in told.items():
        role = OPERATIONS[name]
        assert operation["x-role"] == role
        assert ("security" in operation) == (role != PUBLIC)
        if role != PUBLIC:
            assert f"role `{role}`" in operation["description"]
