"""The HTTP interface: what it answers, what it refuses, and who may ask."""

import gzip
import http.client
import json
import re
import secrets
import subprocess
import time
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pytest

from parts import require_module
from services import SUPERARM, Server, add_key, running, small_city, trip_between
from superarm.client import Client, ServiceError

require_module("fastapi", "service")

from superarm.roads.network.geography import Geography  # noqa: E402

CITY = small_city()
IDS = CITY.edge_ids.tolist()
WHEN = "2026-03-01T10:00:00+02:00"
JSON = {"content-type": "application/json"}


class Served(NamedTuple):
    server: Server
    keys: dict[str, str]
    database: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("api")
    CITY.save(folder / "city.npz")
    database = str(folder / "trips.db")
    keys = {role: add_key(database, role, role) for role in ("read", "report", "admin")}
    options = ["--network", "city.npz", "--database", database, "--rate", "2000"]
    with running(folder, *options, key=keys["admin"]) as server:
        yield Served(server, keys, database)


def a_trip(number: int, **more: Any) -> dict[str, Any]:
    edges, energies = trip_between(CITY, np.random.default_rng(number))
    trip = {"trip_id": f"api-{number}", "edges": edges, "driven_at": WHEN}
    return trip | (more or {"edge_energy_wh": energies})


@pytest.fixture
def careless(served: Served) -> dict[str, str]:
    """Headers of a key of its own: those whose trips are absurd are soon set aside."""
    return {"authorization": f"Bearer {add_key(served.database, 'report', secrets.token_hex(4))}"}


# ---- routes


def test_a_route_has_everything_promised(served: Served) -> None:
    query = {"start": IDS[0], "goal": IDS[200], "alternatives": 3}
    query["battery"] = {"charge_wh": 3000, "capacity_wh": 50_000, "reserve_wh": 200}
    answer = served.server.ask("POST", "/v1/routes", query)
    assert answer.status == 200
    route = answer.json
    assert route["edges"][0] == IDS[0]
    assert route["edges"][-1] == IDS[200]
    places = [CITY.position(name) for name in route["edges"]]
    assert route["length_m"] == pytest.approx(CITY.length_m[places].sum(), abs=0.1)
    assert route["geometry"]["type"] == "LineString"
    assert route["energy_low_wh"] < route["energy_wh"] < route["energy_high_wh"]
    assert 0 <= route["arrival_probability"] <= 1
    profile = route["profile"]
    assert {len(column) for column in profile.values()} == {len(route["edges"])}
    assert profile["energy_wh"][-1] == pytest.approx(route["energy_wh"], abs=0.01)
    assert profile["energy_std_wh"][-1] == pytest.approx(route["energy_std_wh"], abs=0.01)
    assert profile["distance_m"][-1] == pytest.approx(route["length_m"], abs=0.1)
    assert 0 < route["minutes_low"] < route["minutes"] < route["minutes_high"]
    assert profile["seconds"][-1] == pytest.approx(60 * route["minutes"], abs=0.5)
    departs, arrives = (
        datetime.fromisoformat(route[name]) for name in ("departs_at", "arrives_at")
    )
    assert (arrives - departs).total_seconds() == pytest.approx(60 * route["minutes"], abs=1.5)
    assert route["arrives_early"] < route["arrives_at"] < route["arrives_late"]
    assert route["exploration_wh"] >= 0
    for other in route["alternatives"]:
        assert other["edges"] != route["edges"]
        driven = {"trip_id": other["route_id"], "route_id": other["route_id"], "driven_at": WHEN}
        driven["total_energy_wh"] = other["energy_wh"]
        assert served.server.ask("POST", "/v1/trips", driven).status == 201
    best = served.server.ask("POST", "/v1/routes", query | {"mode": "best"}).json
    assert best["exploration_wh"] == 0


def test_coordinates_are_snapped_and_headings_choose_the_direction(served: Served) -> None:
    geography = Geography(CITY)
    twins = {(CITY.from_junction[e], CITY.to_junction[e]): e for e in range(CITY.n_edges)}
    edge, back = next(
        (e, twins[b, a]) for (a, b), e in twins.items() if (b, a) in twins and e < twins[b, a]
    )
    longitude, latitude = geography.points[CITY.shape_start[edge] :][:2].mean(axis=0)
    for wanted in (edge, back):
        step = CITY.shape_of(wanted)[-1] - CITY.shape_of(wanted)[0]
        heading = float(np.degrees(np.arctan2(step[0], step[1])) % 360)
        start = {"longitude": longitude, "latitude": latitude, "heading_deg": heading}
        answer = served.server.ask("POST", "/v1/routes", {"start": start, "goal": IDS[300]})
        assert answer.json["edges"][0] == IDS[wanted]
        assert answer.json["start_distance_m"] < 1
        assert answer.json["goal_distance_m"] is None
    far = {"longitude": 30.0, "latitude": 40.0}
    refused = served.server.ask("POST", "/v1/routes", {"start": far, "goal": IDS[0]})
    assert refused.status == 422
    assert "raise within_m" in refused.json["detail"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"start": "nowhere", "goal": IDS[0]}, "no edge 'nowhere'; the closest ids are"),
        ({"start": IDS[0], "goal": IDS[9], "closed_edges": ["x"]}, "no edge 'x'"),
        ({"start": IDS[0], "goal": IDS[9], "closed_edges": [IDS[9]]}, "the goal is closed"),
        ({"start": IDS[0]}, "goal: Field required"),
        ({"start": IDS[0], "goal": IDS[9], "mode": "fly"}, "mode: Input should be"),
        ({"start": IDS[0], "goal": IDS[9], "alternatives": 4}, "alternatives"),
        ({"start": IDS[0], "goal": IDS[9], "speed": 4}, "speed: Extra inputs"),
        ({"start": IDS[0], "goal": IDS[9], "vehicle": {"mass_kg": -1}}, "mass_kg"),
        (
            {"start": IDS[0], "goal": IDS[9], "battery": {"charge_wh": 2, "capacity_wh": 1}},
            "must not exceed capacity_wh",
        ),
    ],
)
def test_bad_wishes_say_what_to_do(served: Served, query: Any, message: str) -> None:
    answer = served.server.ask("POST", "/v1/routes", query)
    assert answer.status == 422
    assert message in answer.json["detail"]
    assert answer.json["request_id"]


def test_an_unreachable_goal_is_named(served: Served) -> None:
    goal = CITY.turns[0, 1]
    around = CITY.edge_ids[CITY.turns[CITY.turns[:, 1] == goal, 0]].tolist()
    start = next(name for name in IDS if name not in around and name != IDS[goal])
    query = {"start": start, "goal": IDS[goal], "closed_edges": around}
    answer = served.server.ask("POST", "/v1/routes", query)
    assert answer.status == 422
    assert "no open road leads from edge" in answer.json["detail"]


# ---- trips


def test_trips_are_idempotent_and_other_content_is_refused(served: Served) -> None:
    trip = a_trip(1)
    first, second = (served.server.ask("POST", "/v1/trips", trip) for _ in range(2))
    assert (first.status, first.json["status"]) == (201, "accepted")
    assert (second.status, second.json["status"]) == (200, "duplicate")
    other = served.server.ask("POST", "/v1/trips", a_trip(2) | {"trip_id": "api-1"})
    assert (other.status, other.json["status"]) == (409, "conflict")
    assert "choose another id" in other.json["detail"]


def test_batches_report_each_trip(served: Served, careless: dict[str, str]) -> None:
    total = sum(a_trip(11)["edge_energy_wh"])
    batch = {"trips": [a_trip(10), a_trip(11, total_energy_wh=total), a_trip(10)]}
    answer = served.server.ask("POST", "/v1/trips", batch)
    assert answer.status == 201
    assert [t["status"] for t in answer.json["trips"]] == ["accepted", "accepted", "duplicate"]
    mixed = {"trips": [a_trip(12), a_trip(13, total_energy_wh=9e6)]}
    answer = served.server.ask("POST", "/v1/trips", mixed, careless)
    assert answer.status == 207
    assert [t["status"] for t in answer.json["trips"]] == ["accepted", "quarantined"]
    odd = {"trips": [a_trip(15), a_trip(16) | {"driven_at": 5}, "no trip", {"trip_id": "x"}]}
    answer = served.server.ask("POST", "/v1/trips", odd)
    assert answer.status == 207
    assert [t["status"] for t in answer.json["trips"]] == ["accepted", *["rejected"] * 3]
    assert [t["trip_id"] for t in answer.json["trips"]] == ["api-15", "api-16", "", "x"]
    too_many = {"trips": [a_trip(14)] * 1001}
    assert served.server.ask("POST", "/v1/trips", too_many).status == 422


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": ["nope"]}, "no edge 'nope'"),
        ({"edge_energy_wh": [1.0]}, "has 1 entries for 12 edges"),
        ({"edge_energy_wh": [None] * 12}, "no energy was measured"),
        ({"total_energy_wh": 5.0}, "at most one of"),
        ({"route_id": "ab"}, "either route_id or edges"),
        ({"edges": None, "route_id": "ab"}, "was not issued by this service"),
        ({"driven_at": "2026-03-01T10:00:00"}, "driven_at"),
        ({"driven_at": "yesterday"}, "driven_at"),
        ({"driven_at": 1700000000}, "RFC 3339"),
        ({"driven_at": "1700000000"}, "RFC 3339"),
        ({"driven_at": "9999-12-31T23:59:59.999999Z"}, "in the future"),
        ({"edge_energy_wh": [1e6] * 12}, "12 of 12 measurements are not plausible"),
        (
            {"edge_energy_wh": None, "spans": [{"first": 0, "last": 12, "energy_wh": 1}]},
            "within the trip's 12 edges",
        ),
        (
            {
                "edge_energy_wh": None,
                "spans": [
                    {"first": 0, "last": 3, "energy_wh": 1},
                    {"first": 3, "last": 4, "energy_wh": 1},
                ],
            },
            "spans overlap",
        ),
        ({"trip_id": ""}, "trip_id"),
        ({"trip_id": "with space"}, "trip_id"),
    ],
)
def test_bad_trips_say_what_to_do(
    served: Served, careless: dict[str, str], change: Any, message: str
) -> None:
    trip = a_trip(20) | {"trip_id": "bad"} | change
    trip = {name: value for name, value in trip.items() if value is not None}
    answer = served.server.ask("POST", "/v1/trips", trip, careless)
    assert answer.status == 422
    assert message in answer.json["detail"]


@pytest.mark.parametrize("factor", [-1.0, 3.6])
def test_a_wrong_sign_or_unit_is_noticed_on_a_long_route(
    served: Served, careless: dict[str, str], factor: float
) -> None:
    query = {"start": IDS[0], "goal": IDS[-1], "vehicle": "truck", "mode": "best"}
    route = served.server.ask("POST", "/v1/routes", query).json
    trip = {"trip_id": f"unit{factor}", "route_id": route["route_id"], "driven_at": WHEN}
    total = max(route["energy_wh"], 4 * route["energy_std_wh"])
    body = trip | {"total_energy_wh": factor * total}
    refused = served.server.ask("POST", "/v1/trips", body, careless)
    assert refused.status == 422
    assert refused.json["status"] == "quarantined"
    assert {-1.0: "wrong sign", 3.6: "kJ"}[factor] in refused.json["detail"]


def test_implausible_trips_are_kept_aside(served: Served, careless: dict[str, str]) -> None:
    time.sleep(2.1)
    before = served.server.ask("GET", "/v1/stats").json["quarantined"]
    trip = a_trip(30, total_energy_wh=-5e6)
    assert served.server.ask("POST", "/v1/trips", trip, careless).status == 422
    time.sleep(2.1)  # counts are two seconds old at most
    assert served.server.ask("GET", "/v1/stats").json["quarantined"] == before + 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(served: Served, number: str) -> None:
    trip = json.dumps(a_trip(40, total_energy_wh=1.0)).replace("1.0", number).encode()
    answer = served.server.ask("POST", "/v1/trips", data=trip, headers=JSON)
    assert answer.status == 422


def test_all_trips_are_compared_with_what_was_predicted(served: Served) -> None:
    server = served.server
    before = server.ask("GET", "/v1/stats").json["calibration"]["trips"]
    route = server.ask("POST", "/v1/routes", {"start": IDS[0], "goal": IDS[150]}).json
    report = {"route_id": route["route_id"], "driven_at": WHEN}
    total = report | {"trip_id": "whole", "total_energy_wh": route["energy_wh"]}
    assert server.ask("POST", "/v1/trips", total).status == 201
    part = [route["energy_wh"] / len(route["edges"])] * len(route["edges"])
    part[0] = None
    assert (
        server.ask("POST", "/v1/trips", report | {"trip_id": "part", "edge_energy_wh": part}).status
        == 201
    )
    time.sleep(2.1)  # sums are two seconds old at most
    stats = server.ask("GET", "/v1/stats").json
    assert stats["calibration"]["trips"] == before + 2
    assert stats["vehicles"]["car"]["trips"] >= 2
    assert stats["mean_best_wh"] is not None  # of the whole one
    stored = [t for t in server.client().trips(limit=1000) if t["trip_id"] == "whole"]
    assert stored[0]["predicted_wh"] == pytest.approx(route["energy_wh"], rel=0.2)
    assert stored[0]["driven_at"].startswith("2026-03-01T08:00:00")  # in UTC
    assert stored[0]["driven_at"].endswith(("Z", "+00:00"))


# ---- map


def test_network_and_belief_speak_of_the_same_edges(served: Served) -> None:
    server = served.server
    network = server.ask("GET", "/v1/network")
    assert network.headers["content-type"] == "application/geo+json"
    features = network.json["features"]
    assert [f["properties"]["edge"] for f in features] == IDS
    belief = server.ask("GET", "/v1/belief").json
    assert belief["edge"] == [f["id"] for f in features]
    west, south = np.min(features[7]["geometry"]["coordinates"], axis=0)
    east, north = np.max(features[7]["geometry"]["coordinates"], axis=0)
    box = f"bbox={west:.6f},{south:.6f},{east:.6f},{north:.6f}"
    inside = server.ask("GET", f"/v1/belief?{box}").json
    assert 7 in inside["edge"]
    assert len(inside["edge"]) < len(IDS)
    place = inside["edge"].index(7)
    assert inside["energy_wh"][place] == belief["energy_wh"][7]
    same = [f["id"] for f in server.ask("GET", f"/v1/network?{box}").json["features"]]
    assert same == inside["edge"]
    heavy = server.ask("GET", "/v1/belief?vehicle=truck").json
    assert np.mean(heavy["energy_std_wh"]) > 3 * np.mean(belief["energy_std_wh"])
    for wrong in ("1,2,3", "x", "5,0,1,9"):
        assert server.ask("GET", f"/v1/belief?bbox={wrong}").status == 422


# ---- who may ask


def test_the_demo_does_not_exist_elsewhere(served: Served) -> None:
    for method, path in (("GET", "/v1/demo/tour"), ("POST", "/v1/demo/drive")):
        body: Any = {} if method == "POST" else None
        assert served.server.ask(method, path, body).status == 404


def test_a_revoked_key_stops_and_a_purge_forgets_its_trips(served: Served) -> None:
    key = add_key(served.database, "report", "leaving")
    client = Client(served.server.url, key, patience_s=0)
    client.report("gone", **{k: v for k, v in a_trip(50).items() if k != "trip_id"})
    stored = len(served.server.client().trips(limit=1000))
    served.server.learned(stored)
    before = served.server.client().belief()
    done = subprocess.run(
        [
            *(SUPERARM, "serve", "keys", "revoke", key.split(".")[1]),
            *("--purge", "--database", served.database),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "forgot 1 trips" in done.stdout
    until = time.monotonic() + 20
    while served.server.client().belief() == before and time.monotonic() < until:
        time.sleep(0.1)
    assert served.server.client().belief() != before
    ids = {trip["trip_id"] for trip in served.server.client().trips(limit=1000)}
    assert "gone" not in ids
    time.sleep(2.1)
    with pytest.raises(ServiceError, match="401"):
        client.stats()
    listed = subprocess.run(
        [SUPERARM, "serve", "keys", "list", "--json", "--database", served.database],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert {row["name"] for row in json.loads(listed.stdout)} >= {"read", "admin", "leaving"}


# ---- what is not let in


def test_bodies_must_be_json_and_not_too_large(served: Served) -> None:
    server = served.server
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = server.ask("POST", "/v1/trips", data=b"{}", headers={"content-type": kind})
        assert answer.status == 415
    assert server.ask("POST", "/v1/trips", data=b"{", headers=JSON).status == 422
    huge = server.ask("POST", "/v1/trips", data=b" " * (9 * 2**20), headers=JSON)
    assert huge.status == 413
    assert "smaller batches" in huge.json["detail"]
    packed = {**JSON, "content-encoding": "gzip"}
    bomb = gzip.compress(b" " * (200 * 2**20))
    assert len(bomb) < 2**20
    assert server.ask("POST", "/v1/trips", data=bomb, headers=packed).status == 413
    assert server.ask("POST", "/v1/trips", data=b"no gzip", headers=packed).status == 400
    cut = gzip.compress(json.dumps(a_trip(60)).encode())[:-6]
    assert server.ask("POST", "/v1/trips", data=cut, headers=packed).status == 400
    fine = gzip.compress(json.dumps(a_trip(60)).encode())
    assert server.ask("POST", "/v1/trips", data=fine, headers=packed).status == 201
    other = {**JSON, "content-encoding": "deflate"}
    assert server.ask("POST", "/v1/trips", data=zlib.compress(b"{}"), headers=other).status == 415


def test_a_stream_that_does_not_end_is_cut(served: Served) -> None:
    parts = urlsplit(served.server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    chunks = (b" " * 2**20 for _ in range(40))
    try:
        connection.request(
            "POST",
            "/v1/trips",
            body=chunks,
            headers=JSON | {"authorization": f"Bearer {served.keys['admin']}"},
            encode_chunked=True,
        )
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it did not listen to the end
    finally:
        connection.close()


def test_answers_carry_strict_headers_and_no_cors(served: Served) -> None:
    answer = served.server.ask("GET", "/", headers={"origin": "https://elsewhere.example"})
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["access-control-allow-origin"] is None
    page = answer.body.decode()
    assert not re.search(r"<script(?![^>]*src=)[^>]*>", page)
    assert " on" + "click=" not in page
    assert "style=" not in page
    assert served.server.ask("GET", "/page/../app.py").status == 404
    assert served.server.ask("GET", "/page/vendor/vendored.json").status == 200


def test_requests_have_ids_and_leave_json_in_the_log(served: Served) -> None:
    answer = served.server.ask("GET", "/v1/stats", headers={"x-request-id": "my-id.1"})
    assert answer.headers["x-request-id"] == "my-id.1"
    odd = served.server.ask("GET", "/v1/stats", headers={"x-request-id": "a b\t{"})
    assert re.fullmatch(r"[0-9a-f]{16}", odd.headers["x-request-id"])
    lines = [json.loads(line) for line in served.server.lines if line.startswith("{")]
    mine = [line for line in lines if line.get("request_id") == "my-id.1"]
    assert mine[0]["path"] == "/v1/stats"
    assert mine[0]["status"] == 200
    secret = served.keys["admin"].split(".")[2]
    assert not any(secret in line for line in served.server.lines)


def test_metrics_speak_of_lag_arms_queue_and_quarantine(served: Served) -> None:
    server = served.server
    assert server.ask("POST", "/v1/routes", {"start": IDS[0], "goal": IDS[9]}).status == 200
    assert server.ask("POST", "/v1/trips", a_trip(70)).status in {200, 201}
    until = time.monotonic() + 20
    while server.ask("GET", "/v1/trips/api-70").json["state"] != "learned":
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(2.1)  # sums are two seconds old at most
    text = server.ask("GET", "/metrics").body.decode()
    for name in (
        "learning_lag_seconds",
        "distinct_arms",
        "queue_writes",
        "queue_routes",
        "quarantined_trips",
        "trips_unlearned",
    ):
        assert re.search(rf"^superarm_{name} [0-9.e+-]+$", text, re.MULTILINE), name
    assert re.search(
        r'^superarm_request_seconds_bucket\{.*path="/v1/routes".*\}', text, re.MULTILINE
    )
    key = served.keys["admin"].split(".")[1]
    for name in ("key_trusted", "key_gain", "key_spread"):
        assert f'superarm_{name}{{key="{key}"}}' in text
    assert f'superarm_key_coverage_90{{key="{key}",vehicle="car"}}' in text


def test_too_many_requests_are_told_when_to_come_again(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    key = add_key(str(tmp_path / "t.db"), "read")
    options = ["--network", "city.npz", "--database", "t.db", "--rate", "2"]
    with running(tmp_path, *options, key=key) as server:
        answers = [server.ask("GET", "/v1/stats") for _ in range(40)]
        codes = [answer.status for answer in answers]
        assert codes.count(429) >= 2
        refused = next(answer for answer in answers if answer.status == 429)
        assert int(refused.headers["retry-after"]) >= 1
        time.sleep(5)  # a batch larger than the bucket passes when the bucket is full
        key = add_key(str(tmp_path / "t.db"), "report")
        batch = {"trips": [a_trip(number) for number in range(20)]}
        sent = server.ask("POST", "/v1/trips", batch, {"authorization": f"Bearer {key}"})
        assert sent.status == 201


def _until_done(server: Any, trips: int) -> dict[str, Any]:
    for _ in range(600):
        driven: dict[str, Any] = server.ask("GET", "/v1/demo/tour").json
        if driven["done"] == trips or driven["problem"]:
            return driven
        time.sleep(0.1)
    pytest.fail("the tour does not end")


def test_a_demo_answers_this_machine_only(tmp_path: Path) -> None:
    with running(tmp_path, "--demo") as server:
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
            assert server.ask("GET", "/v1/stats", headers={"host": host}).status == 421
        assert server.ask("GET", "/v1/stats").status == 200
        for path in ("/v1/demo/tour",):
            assert server.ask("GET", path).status == 200
        assert server.ask("POST", "/v1/demo/tour", {"trips": 20}).status == 200
        driven = _until_done(server, 20)
        assert driven["problem"] is None
        assert len(driven["trips"]) + driven["put_aside"] == 20
        server.learned(len(driven["trips"]))
        for trip in driven["trips"]:
            assert trip["true_wh"] >= trip["best_possible_wh"] - 1e-6
    refused = subprocess.run(
        [SUPERARM, "serve", "--demo", "--host", "0.0.0.0"],  # noqa: S104
        check=False,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert refused.returncode == 1
    assert "this machine only" in refused.stderr


def test_serve_needs_roads_or_a_demo() -> None:
    done = subprocess.run([SUPERARM, "serve"], check=False, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "--demo" in done.stderr
